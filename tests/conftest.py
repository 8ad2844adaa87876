"""Settings of the whole suite."""

from hypothesis import settings

# An example's time says nothing on a busy machine: no deadline.
settings.register_profile("tmapad", deadline=None)
settings.load_profile("tmapad")

# The same examples in every run, so that a failure is there again in the next.
settings.register_profile("repeatable", parent=settings.get_profile("tmapad"), derandomize=True)
settings.load_profile("repeatable")

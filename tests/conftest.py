"""Settings of the whole suite."""

from hypothesis import settings

# An example's time says nothing on a busy machine: no deadline.
settings.register_profile("tmapad", deadline=None)
settings.load_profile("tmapad")

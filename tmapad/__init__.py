"""A parallel map of scalar functions over NumPy arrays, and its derivative."""

import sys as _sys

from tmapad._source_tree import hand_over as _hand_over

_hand_over(_sys.modules[__name__])

from tmapad._derivative import derivative  # noqa: E402
from tmapad._errors import NoDerivativeError, NoRuleError, SignatureError  # noqa: E402
from tmapad._function import ScalarFunction  # noqa: E402
from tmapad._partials import partials  # noqa: E402
from tmapad._register import from_cython, register  # noqa: E402
from tmapad._rules import rrule  # noqa: E402
from tmapad._tangents import NoTangent, Tangent, Thunk, ZeroTangent, unthunk  # noqa: E402
from tmapad._threads import get_num_threads  # noqa: E402
from tmapad._tmap import tmap  # noqa: E402
from tmapad._version import __version__  # noqa: E402
from tmapad._versions import show_versions  # noqa: E402

__all__ = [
    "NoDerivativeError",
    "NoRuleError",
    "NoTangent",
    "ScalarFunction",
    "SignatureError",
    "Tangent",
    "Thunk",
    "ZeroTangent",
    "__version__",
    "derivative",
    "from_cython",
    "get_num_threads",
    "partials",
    "register",
    "rrule",
    "show_versions",
    "tmap",
    "unthunk",
]

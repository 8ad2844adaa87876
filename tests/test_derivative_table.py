"""Every row of the table of derivatives: against differences of the function itself, and where limits count."""

import itertools
import math
from typing import Any

import mpmath as mp
import numpy as np
import pytest
import scipy.special
from graphs import function, partials
from primals import ROWS, Row

from tmapad import rrule, tmap
from tmapad._derivative_table import WITHOUT
from tmapad._derivatives import derivative, names

inf, nan = math.inf, math.nan

# Rows that are no functions of real numbers alone, or not differentiable in the usual way: tested one by one below.
OTHERS = {"frexp", "ldexp", "spacing", "nextafter", "hankel1", "hankel2"}


def ulps(got: float, exact: Any, floor: float, char: str) -> float:
    """The error in units in the last place of the exact number, or of `floor` if that is larger."""
    finite = np.dtype(char).type(float(exact)) if abs(exact) < mp.mpf(2) ** 1025 else np.dtype(char).type(inf)
    if not np.isfinite(finite) or not math.isfinite(got):
        return 0.0 if math.copysign(1, exact) * inf == got and not np.isfinite(finite) else inf
    unit = float(np.spacing(max(np.abs(finite), np.dtype(char).type(floor))))
    return float(abs(mp.mpf(got) - exact) / mp.mpf(unit))


def types_of(row: Row, char: str) -> str:
    return char * row.nin + "->" + char * function(row.name).nout


def columns(points: Any) -> list[Any]:
    return [np.array(column) for column in zip(*points, strict=True)]


# ---- the table is whole


def test_every_row_is_tested() -> None:
    assert names() == ROWS.keys() | OTHERS


def test_every_ufunc_of_numpy_has_a_row_or_a_reason() -> None:
    ufuncs = {u.__name__ for u in vars(np).values() if isinstance(u, np.ufunc)}
    assert ufuncs <= names() | WITHOUT.keys()
    assert not names() & WITHOUT.keys()
    assert {name for name in WITHOUT if isinstance(getattr(np, name, None), np.ufunc)} <= ufuncs


USUAL = """
erf erfc erfinv gamma gammaln digamma beta betaln expit logit log_ndtr ndtr ndtri j0 j1 i0 i1 i0e i1e y0 y1 xlogy
xlog1py entr exprel log1p expm1
"""


@pytest.mark.parametrize("name", USUAL.split())
def test_scipys_usual_functions_are_there(name: str) -> None:
    ufunc = getattr(scipy.special, name)
    for types in {"d->d", "f->f", "dd->d", "ff->f"} & set(ufunc.types):
        found = derivative(ufunc.__name__, types)
        assert found is not None
        assert None not in found.partials[0]


# ---- accuracy


@pytest.mark.parametrize("row", ROWS.values(), ids=lambda row: row.name)
def test_partials_are_the_slopes_of_the_primal(row: Row) -> None:
    got = partials(row.name, types_of(row, "d"), *columns(row.points))
    for output, partials_of_output in enumerate(got):
        for argument, values in enumerate(partials_of_output):
            for at, value in zip(row.points, [] if values is None else values, strict=values is not None):
                exact = row.slope(at, argument, output)
                if abs(exact) < mp.mpf(2) ** -1100:  # what is left where the difference is 0
                    exact = mp.mpf(0)
                error = ulps(float(value), exact, row.floor, "d")
                assert error <= row.bound, (at, argument, float(value), mp.nstr(exact, 20))


LOOPS = [
    (row, types_of(row, char))
    for row in ROWS.values()
    for char in "fd"
    if types_of(row, char) in function(row.name).types
]


@pytest.mark.parametrize("row", [row for row, types in LOOPS if types[0] == "f"], ids=lambda row: row.name)
def test_partials_in_single_precision(row: Row) -> None:
    # Where float32 has the value, and it is not near the end of its range.
    points = [np.float32(at) for at in row.points if all(1e-15 < abs(x) < 1e15 for x in at)]
    points = [at for at in points if row.name not in ("erfinv", "ndtri", "logit", "arcsin", "arccos") or at[0] != 1]
    xs = columns(points)
    got, expected = (partials(row.name, types_of(row, char), *xs) for char in "fd")
    for single, double in zip(*(itertools.chain(*rows) for rows in (got, expected)), strict=True):
        if single is None or double is None:
            continue
        for at, value, exact in zip(points, single, double, strict=True):
            if 1e-30 < abs(exact) < 1e30:
                assert ulps(float(value), mp.mpf(float(exact)), row.floor, "f") <= row.bound + 2, (at, value, exact)


# ---- limits, kinks, and where there is nothing

LIMITS: list[tuple[str, tuple[float, ...], tuple[float, ...]]] = [
    ("absolute", (0.0,), (0,)),
    ("absolute", (-inf,), (-1,)),
    ("fabs", (-0.0,), (0,)),
    ("sign", (0.0,), (0,)),
    ("floor", (2.0,), (0,)),
    ("sqrt", (0.0,), (inf,)),
    ("sqrt", (-0.0,), (inf,)),
    ("sqrt", (inf,), (0,)),
    ("sqrt", (-1.0,), (nan,)),
    ("cbrt", (0.0,), (inf,)),
    ("cbrt", (-inf,), (0,)),
    ("exp", (-inf,), (0,)),
    ("expm1", (-inf,), (0,)),
    ("log", (0.0,), (inf,)),
    ("log", (-0.0,), (inf,)),
    ("log", (inf,), (0,)),
    ("log", (-1.0,), (nan,)),
    ("log2", (-1.0,), (nan,)),
    ("log10", (-1.0,), (nan,)),
    ("log1p", (-1.0,), (inf,)),
    ("log1p", (-2.0,), (nan,)),
    ("tanh", (inf,), (0,)),
    ("tanh", (-inf,), (0,)),
    ("arcsin", (1.0,), (inf,)),
    ("arcsin", (1.5,), (nan,)),
    ("arccos", (-1.0,), (-inf,)),
    ("arctan", (inf,), (0,)),
    ("arcsinh", (-inf,), (0,)),
    ("arccosh", (1.0,), (inf,)),
    ("arccosh", (0.5,), (nan,)),
    ("arctanh", (-1.0,), (inf,)),
    ("arctanh", (2.0,), (nan,)),
    ("sin", (inf,), (nan,)),
    ("hypot", (0.0, 0.0), (0, 0)),
    ("hypot", (inf, 1.0), (1, 0)),
    ("hypot", (1.0, -inf), (0, -1)),
    ("hypot", (nan, inf), (nan, nan)),
    ("arctan2", (0.0, 0.0), (nan, nan)),
    ("arctan2", (inf, 1.0), (0, 0)),
    ("arctan2", (1.0, -inf), (0, 0)),
    ("arctan2", (nan, inf), (nan, nan)),
    ("maximum", (1.0, 1.0), (1, 0)),
    ("maximum", (nan, 1.0), (1, 0)),
    ("maximum", (1.0, nan), (0, 1)),
    ("minimum", (1.0, 1.0), (1, 0)),
    ("fmax", (nan, 1.0), (0, 1)),
    ("fmax", (1.0, nan), (1, 0)),
    ("fmin", (1.0, 1.0), (1, 0)),
    ("copysign", (0.0, -1.0), (0, 0)),
    ("copysign", (-3.0, -0.0), (1, 0)),
    ("heaviside", (0.0, 0.5), (0, 1)),
    ("power", (0.0, 2.0), (0, 0)),
    ("power", (0.0, 1.0), (1, 0)),
    ("power", (0.0, 0.5), (inf, 0)),
    ("power", (0.0, 0.0), (0, -inf)),
    ("power", (-2.0, 3.0), (12, nan)),
    ("power", (-2.0, 0.0), (0, nan)),
    ("power", (-2.0, 0.5), (nan, nan)),
    ("power", (inf, -1.0), (0, 0)),
    ("logaddexp", (-inf, 1.0), (0, 1)),
    ("logaddexp", (-inf, -inf), (0.5, 0.5)),
    ("logaddexp", (inf, 1.0), (1, 0)),
    ("logaddexp2", (3.0, -inf), (1, 0)),
    ("remainder", (1.0, 0.0), (nan, nan)),
    ("fmod", (inf, 1.0), (nan, nan)),
    ("remainder", (1.0, inf), (1, 0)),
    ("nextafter", (1.0, 2.0), (1, 0)),
    ("spacing", (1.0,), (0,)),
    ("reciprocal", (0.0,), (-inf,)),
    ("erf", (inf,), (0,)),
    ("erf", (-inf,), (0,)),
    ("erfcx", (inf,), (0,)),
    ("erfcx", (-inf,), (-inf,)),
    ("erfinv", (1.0,), (inf,)),
    ("erfinv", (1.5,), (nan,)),
    ("erfcinv", (0.0,), (-inf,)),
    ("ndtri", (0.0,), (inf,)),
    ("ndtri", (1.0,), (inf,)),
    ("log_ndtr", (inf,), (0,)),
    ("log_ndtr", (-inf,), (inf,)),
    ("gamma", (inf,), (inf,)),
    ("gamma", (-1.0,), (nan,)),
    ("loggamma", (-0.5,), (nan,)),
    ("rgamma", (0.0,), (1,)),
    ("rgamma", (-3.0,), (-6,)),
    ("rgamma", (200.0,), (0,)),
    ("psi", (0.0,), (inf,)),
    ("psi", (inf,), (0,)),
    ("expit", (inf,), (0,)),
    ("expit", (-inf,), (0,)),
    ("logit", (0.0,), (inf,)),
    ("logit", (-0.0,), (inf,)),
    ("logit", (1.0,), (inf,)),
    ("logit", (2.0,), (nan,)),
    ("log_expit", (-inf,), (1,)),
    ("xlogy", (0.0, 0.0), (-inf, 0)),
    ("xlogy", (1.0, -1.0), (nan, nan)),
    ("xlog1py", (1.0, -2.0), (nan, nan)),
    ("entr", (0.0,), (inf,)),
    ("entr", (-1.0,), (nan,)),
    ("rel_entr", (0.0, 1.0), (-inf, 0)),
    ("rel_entr", (-1.0, -1.0), (nan, nan)),
    ("kl_div", (1.0, inf), (-inf, 1)),
    ("kl_div", (1.0, 0.0), (inf, -inf)),
    ("exprel", (0.0,), (0.5,)),
    ("exprel", (inf,), (inf,)),
    ("exprel", (-inf,), (0,)),
    ("expi", (inf,), (inf,)),
    ("exp1", (0.0,), (-inf,)),
    ("exp1", (-1.0,), (nan,)),
    ("j1", (0.0,), (0.5,)),
    ("y1", (0.0,), (inf,)),
    ("i1", (0.0,), (0.5,)),
    ("i1", (1e3,), (inf,)),
    ("i1e", (0.0,), (0.5,)),
    ("i0e", (inf,), (0,)),
    ("k0e", (0.0,), (-inf,)),
    ("k1e", (inf,), (0,)),
    ("k0e", (-1.0,), (nan,)),
]


@pytest.mark.parametrize("char", "fd")
@pytest.mark.parametrize(("name", "at", "expected"), LIMITS)
def test_limits_and_kinks(name: str, at: tuple[float, ...], expected: tuple[float, ...], char: str) -> None:
    types = char * len(at) + "->" + char
    np.testing.assert_array_equal(np.array(partials(name, types, *at)[0], float), expected)


def test_functions_with_several_or_other_outputs() -> None:
    assert partials("modf", "d->dd", [2.5]) == [[1], [0]]
    x = np.array([0.0, 5e-324, 1.0, -3.7, 1e300])
    mantissa, _ = np.frexp(x)
    slope = partials("frexp", "d->di", x)[0][0]
    assert slope is not None
    np.testing.assert_array_equal(slope[2:] * x[2:], mantissa[2:])
    assert slope[0] == 1
    (slopes,) = partials("ldexp", "dl->d", x, np.array([-2, 0, 3, 10, -1000]))
    np.testing.assert_array_equal(slopes[0], [0.25, 1, 8, 1024, 2.0**-1000])
    assert slopes[1] is None


@pytest.mark.parametrize("name", ["jv", "yv", "iv", "kv", "kn", "yn", "hankel1", "hankel2"])
def test_orders_of_bessel_functions_have_no_known_derivative(name: str) -> None:
    types = "dD->D" if name.startswith("h") else "dd->d"
    found = derivative(name, types)
    assert found is not None
    assert found.partials[0][0] is None


# ---- complex numbers

POINTS = [0.3 + 0.4j, -1.2 + 0.7j, 2.5 - 3.1j, 1e-8 + 1e-9j, 0.5 + 12j, 10 - 0.001j, -3.3 - 0.2j]
# Function, primal, bound in units of 2^-52 of the size of the derivative.
COMPLEX: list[tuple[str, Any, float]] = [
    ("add", lambda a, b: a + b, 0),
    ("subtract", lambda a, b: a - b, 0),
    ("multiply", lambda a, b: a * b, 0),
    ("divide", lambda a, b: a / b, 4),
    ("positive", lambda x: x, 0),
    ("negative", lambda x: -x, 0),
    ("reciprocal", lambda x: 1 / x, 4),
    ("square", lambda x: x * x, 0),
    ("sqrt", mp.sqrt, 4),
    ("power", mp.power, 512),  # as NumPy's power
    ("float_power", mp.power, 512),
    ("exp", mp.exp, 4),
    ("exp2", lambda x: mp.power(2, x), 16),
    ("expm1", mp.expm1, 4),
    ("log", mp.log, 4),
    ("log2", lambda x: mp.log(x) / mp.log(2), 4),
    ("log10", lambda x: mp.log(x) / mp.log(10), 4),
    ("log1p", lambda x: mp.log(1 + x), 4),
    ("sin", mp.sin, 4),
    ("cos", mp.cos, 4),
    ("tan", mp.tan, 8),
    ("sinh", mp.sinh, 4),
    ("cosh", mp.cosh, 4),
    ("tanh", mp.tanh, 8),
    ("arcsin", mp.asin, 4),
    ("arccos", mp.acos, 4),
    ("arctan", mp.atan, 4),
    ("arcsinh", mp.asinh, 4),
    ("arccosh", mp.acosh, 4),
    ("arctanh", mp.atanh, 4),
    ("erf", mp.erf, 256),
    ("erfc", mp.erfc, 256),
    ("erfi", mp.erfi, 256),
    ("ndtr", lambda x: mp.erfc(-x / mp.sqrt(2)) / 2, 256),
    ("gamma", mp.gamma, 64),
    ("rgamma", mp.rgamma, 64),
    ("loggamma", mp.loggamma, 16),
    ("xlogy", lambda a, b: a * mp.log(b), 4),
    ("xlog1py", lambda a, b: a * mp.log(1 + b), 4),
    ("expi", mp.ei, 8),
    ("exp1", mp.e1, 8),
    ("sici", lambda x: (mp.si(x), mp.ci(x)), 8),
    ("shichi", lambda x: (mp.shi(x), mp.chi(x)), 8),
    ("jv", mp.besselj, 512),
    ("yv", mp.bessely, 512),
    ("iv", mp.besseli, 512),
    ("kv", mp.besselk, 64),
    ("hankel1", mp.hankel1, 512),
    ("hankel2", mp.hankel2, 512),
]


def complex_types(name: str) -> str:
    ufunc = function(name)
    outputs = "D" * ufunc.nout
    return next(t for t in ("D" * ufunc.nin + "->" + outputs, "dD->" + outputs) if t in ufunc.types)


@pytest.mark.parametrize(("name", "primal", "bound"), COMPLEX, ids=[name for name, _, _ in COMPLEX])
def test_holomorphic_functions(name: str, primal: Any, bound: float) -> None:
    types = complex_types(name)
    if types.startswith("D->"):
        points: list[tuple[complex, ...]] = [(z,) for z in POINTS]
    else:
        points = [(1.5 if types[0] == "d" else a, b) for a in POINTS[:3] for b in POINTS]
    got = partials(name, types, *columns(points))
    with mp.workprec(400):
        for output, row in enumerate(got):
            for argument, values in enumerate(row):
                for at, value in zip(points, [] if values is None else values, strict=values is not None):
                    h = abs(mp.mpmathify(at[argument])) * mp.mpf(2) ** -90
                    sides = [
                        primal(*(mp.mpmathify(x) + (k == argument) * s * h for k, x in enumerate(at))) for s in (1, -1)
                    ]
                    right, left = (side[output] if isinstance(side, tuple) else side for side in sides)
                    exact = (right - left) / (2 * h)
                    error = abs(mp.mpmathify(complex(value)) - exact)
                    assert error <= (bound + 1e-9) * mp.mpf(2) ** -52 * abs(exact), (at, argument, value, exact)


@pytest.mark.parametrize("z", [3 + 4j, -3e307 + 4e307j, 1.5e308 + 1.5e308j, 3e-320 + 4e-320j, -2.0, 1e-200j])
def test_absolute_of_complex(z: complex) -> None:
    """d is the conjugate of the direction: the pullback ``conj(d) * dy`` points away from 0."""
    (d,) = partials("absolute", "D->d", [z])[0]
    assert d is not None
    with mp.workprec(200):
        exact = complex(mp.conj(mp.mpmathify(z)) / abs(mp.mpmathify(z)))
    np.testing.assert_allclose(d, exact, rtol=1e-15)
    assert partials("absolute", "D->d", [0j]) == [[0]]


def test_conjugate_and_what_has_no_complex_derivative() -> None:
    for types, antiholomorphic in (("D->D", True), ("F->F", True), ("d->d", False)):
        found = derivative("conjugate", types)
        assert found is not None
        assert found.antiholomorphic is antiholomorphic
    assert derivative("sign", "D->D") is None
    assert derivative("psi", "D->D") is None


@pytest.mark.parametrize("name", ["maximum", "minimum", "fmax", "fmin", "rint"])
def test_complex_steps(name: str) -> None:
    a, b = np.array([1 + 2j, 1 - 2j, 3j]), np.array([1 + 1j, 1 - 2j, 1.0])
    if name == "rint":
        np.testing.assert_array_equal(partials(name, "D->D", a)[0], [[0, 0, 0]])
        return
    da, db = partials(name, "DD->D", a, b)[0]
    assert da is not None
    assert db is not None
    np.testing.assert_array_equal(da * a + db * b, function(name)(a, b))
    np.testing.assert_array_equal(da + db, np.ones(3))


# ---- the same through the core, bit by bit


@pytest.mark.parametrize(("row", "types"), LOOPS, ids=lambda given: getattr(given, "name", given))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # overflow of values at the ends of the range
def test_pullbacks_give_what_the_graphs_give(row: Row, types: str) -> None:
    char = types[0]
    with np.errstate(all="ignore"):
        xs = [x.astype(char) for x in columns(row.points)]
    expected = partials(row.name, types, *xs)
    known = tuple(i for i in range(row.nin) if expected[0][i] is not None)
    y, back = rrule(tmap, function(row.name), *xs, wrt=known)
    dy = tuple(np.ones_like(v) for v in y) if isinstance(y, tuple) else np.ones_like(y)
    dxs = back(dy)[2:]
    for i in known:
        total = sum(np.asarray(of_output[i], char) for of_output in expected)
        assert dxs[i].dtype == char
        np.testing.assert_array_equal(dxs[i], total)

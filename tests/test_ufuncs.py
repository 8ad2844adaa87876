"""Ufuncs: which are taken, which of their loops is chosen, and what those loops may be relied upon for."""

import ctypes
import itertools
import math
from types import SimpleNamespace
from typing import Any

import numba
import numpy as np
import pytest
import run_loop
import scipy.special

from tmapad import tmap
from tmapad._core import Loop
from tmapad._errors import NoDerivativeError
from tmapad._ufuncs import ACCEPTED, TableForm, Ufunc, ufunc

NUMPY = sorted(
    {u.__name__: u for u in vars(np).values() if isinstance(u, np.ufunc) and u.signature is None}.values(),
    key=lambda u: u.__name__,
)
SCIPY = [getattr(scipy.special, name) for name in ("erf", "expit", "xlogy", "jv", "eval_legendre", "kn", "iv", "sici")]
WEAK: dict[type, Any] = {bool: True, int: 2, float: 0.5, complex: 0.5j}


def of(given: Any) -> Ufunc:
    found = ufunc(given)
    assert found is not None
    return found


# ---- recognition


def test_who_made_a_ufunc() -> None:
    assert of(np.exp).origin == "numpy"
    assert of(scipy.special.erf).origin == "scipy"
    assert of(numba.vectorize(lambda x: x * x)).origin == "numba"
    assert of(numba.vectorize(["f8(f8)"])(lambda x: x * x).ufunc).origin == "other"


@pytest.mark.parametrize("given", [math.sin, lambda x: x, np.vectorize(math.sin), np.sum, "exp", None])
def test_what_is_no_ufunc(given: Any) -> None:
    assert ufunc(given) is None


def test_what_it_says_about_itself() -> None:
    exp, hypot, modf = of(np.exp), of(np.hypot), of(np.modf)
    assert (exp.name, exp.nin, exp.nout, exp.parameters, exp.python) == ("exp", 1, 1, ("x",), None)
    assert (hypot.nin, hypot.parameters) == (2, ("x1", "x2"))
    assert modf.nout == 2
    assert repr(exp) == "<Ufunc exp>"
    assert of(numba.vectorize(lambda rate, time: rate * time)).parameters == ("rate", "time")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            np.matmul,
            r"matmul works on vectors, not on elements: it has the core signature \(n\?,k\),\(k,m\?\)->\(n\?,m\?\)",
        ),
        (np.frompyfunc(math.hypot, 2, 1), r"hypot .*works on Python objects, .* pass the function itself"),
        (numba.guvectorize("(n)->(n)")(lambda x, y: None), r"works on vectors, .* core signature \(n\)->\(n\)"),
        (numba.guvectorize(["(f8[:], f8[:])"], "(n)->(n)")(lambda x, y: None), "works on vectors"),
    ],
)
def test_what_is_refused(given: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        ufunc(given)


def test_ufuncs_that_start_threads_are_refused() -> None:
    with pytest.raises(
        TypeError, match=r"starts threads of its own: make it by numba.vectorize without target='parallel'"
    ):
        ufunc(numba.vectorize(["f8(f8)"], target="parallel")(lambda x: x + 1))


# ---- which loop: as NumPy chooses, less types that are not computed with


def arguments(nin: int) -> list[tuple[Any, ...]]:
    kinds = [np.dtype(char) for char in "?bBhilLqQefdgFDGO"] + list(WEAK)
    return list(itertools.product(kinds, repeat=nin)) if nin < 3 else [(kind,) * nin for kind in kinds]


def numpys(given: np.ufunc, inputs: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Types of the results of a call, None if NumPy refuses."""
    values = [WEAK[kind] if isinstance(kind, type) else np.ones(1, kind) for kind in inputs]
    try:
        ys = given(*values)
    except (TypeError, AttributeError):  # of objects, the method of that name
        return None
    return tuple(np.asarray(y).dtype for y in (ys if isinstance(ys, tuple) else (ys,)))


@pytest.mark.parametrize("given", NUMPY + SCIPY, ids=lambda u: u.__name__)
@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore:Casting complex values")
def test_results_have_the_types_that_numpy_gives(given: np.ufunc) -> None:
    found = of(given)
    for inputs in arguments(given.nin):
        expected = numpys(given, inputs)
        try:
            loop, results = found.loop(inputs), found.result_types(inputs)
        except TypeError:
            other = any(np.dtype(kind).char in "gGO" for kind in inputs if not isinstance(kind, type))
            assert expected is None or other or not {r.char for r in expected} <= ACCEPTED, inputs
            continue
        assert results == expected, inputs
        assert len(loop.in_chars) == given.nin
        assert set(loop.in_chars + loop.out_chars) <= set("?bBhHiIlLqQfdFD") or given in (np.spacing, np.nextafter)
        assert found.loop(inputs) is loop


@pytest.mark.parametrize(
    ("given", "inputs", "types", "results"),
    [
        (np.exp, "e", "f->f", "e"),
        (np.exp, "b", "f->f", "e"),
        (np.exp, "l", "d->d", "d"),
        (np.exp, (float,), "d->d", "d"),
        (np.add, ("f", float), "ff->f", "f"),
        (np.add, ("f", complex), "FF->F", "F"),
        (np.add, ("b", int), "bb->b", "b"),
        (np.add, ("l", bool), "ll->l", "l"),
        (np.ldexp, "dl", "dl->d", "d"),
        (np.ldexp, "ei", "fi->f", "e"),
        (np.greater, "fd", "dd->?", "?"),
        (np.absolute, "F", "F->f", "f"),
        (np.isnan, "e", "f->?", "?"),
        (np.spacing, "e", "e->e", "e"),
        (np.frexp, "f", "f->fi", "fi"),
        (scipy.special.jv, ("f", "F"), "fF->F", "F"),
        (scipy.special.jv, ("i", "d"), "dd->d", "d"),
        (scipy.special.eval_legendre, "ld", "ld->d", "d"),
    ],
)
def test_loops_that_are_chosen(given: np.ufunc, inputs: Any, types: str, results: str) -> None:
    found = of(given)
    kinds = tuple(np.dtype(kind) if isinstance(kind, str) else kind for kind in inputs)
    assert found.loop(kinds).types == types
    assert "".join(dtype.char for dtype in found.result_types(kinds)) == results


@pytest.mark.parametrize(
    ("given", "inputs", "message"),
    [
        (
            np.exp,
            "g",
            r"exp cannot be .* types \(\w+\); it has the loops e->e, f->f, d->d, F->F, .* with (longdouble|float\d+)",
        ),
        (
            np.hypot,
            "dD",
            r"hypot cannot be computed for arguments of types \(float64, complex128\); it has the loops ee->e",
        ),
        (np.exp, "O", "NumPy would compute with object"),
        (np.add, "MM", r"add cannot be computed for arguments of types"),
        (np.add, "Mm", r"NumPy would compute with datetime64, timedelta64"),
        (np.add, "UU", r"NumPy would compute with str"),
        (np.add, "ddd", r"add takes 2 arguments, but 3 were given"),
    ],
)
def test_types_that_are_refused(given: np.ufunc, inputs: str, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        of(given).loop(tuple(np.dtype(char) for char in inputs))


def test_a_loop_that_is_not_among_those_listed() -> None:
    """As of a ufunc with loops of NumPy's new kind only."""
    double = np.dtype("d")
    new = SimpleNamespace(__name__="new", nin=1, nout=1, types=["f->f"], resolve_dtypes=lambda types: (double, double))
    with pytest.raises(TypeError, match=r"new cannot be computed .* loops f->f .*: there is no loop d->d"):
        Ufunc(new, "other").loop((double,))  # type: ignore[arg-type]


# ---- what loops may be relied upon for

CALL = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p
)
N = 64 * 20
FLOATING = [
    (given, types)
    for given in NUMPY
    for types in dict.fromkeys(given.types)
    if set(types) <= set("fdFD?il->") and set(types) & set("fdFD")
]


def aligned_to(array: Any, offset: int) -> Any:
    """A copy that starts `offset` items after a multiple of 64 bytes."""
    memory = np.empty(array.nbytes + 64 + offset * array.itemsize, "u1")
    start = -memory.ctypes.data % 64 + offset * array.itemsize
    copy = memory[start : start + array.nbytes].view(array.dtype)
    copy[:] = array
    return copy


def run(loop: Loop, xs: list[Any], offset: int = 0, piece: int = N, place: int | None = None) -> list[Any]:
    """The loop's outputs, computed piece by piece in memory of some alignment, the first in the place of an input."""
    xs = [aligned_to(x, (offset * (k + 1)) % 16) for k, x in enumerate(xs)]
    ys = [aligned_to(np.zeros(N, char), (offset + 5 * k) % 16) for k, char in enumerate(loop.out_chars)]
    ys = ys if place is None else [xs[place], *ys[1:]]
    arrays = [*xs, *ys]
    steps = (ctypes.c_ssize_t * len(arrays))(*(a.itemsize for a in arrays))
    state = run_loop.State(-1, ctypes.pointer(ctypes.c_int(0)))
    for lo in range(0, N, piece):
        pointers = (ctypes.c_void_p * len(arrays))(*(a[lo:].ctypes.data for a in arrays))
        assert CALL(loop.address)(pointers, min(piece, N - lo), steps, loop.data, ctypes.addressof(state)) == 0
    return ys


def elements(char: str, rng: np.random.Generator) -> Any:
    """Numbers of all sizes and signs, with zeros, infinities and NaNs among them."""
    if char in "FD":
        z = np.empty(N, char)
        z.real, z.imag = elements(char.lower(), rng), elements(char.lower(), rng)
        return z
    if char not in "fd":
        return rng.integers(0, 2 if char == "?" else 20, N).astype(char)
    x = rng.standard_normal(N) * 10.0 ** rng.choice([0, 0, 0, 1, 3, 9, -3, -30, 30], N)
    special = rng.random(N) < 0.1
    x[special] = rng.choice([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0], special.sum())
    return x.astype(char)


def same(a: Any, b: Any) -> bool:
    """Bit for bit, but for the payloads and signs of NaNs."""
    if a.dtype.kind == "c":
        return same(a.real.copy(), b.real.copy()) and same(a.imag.copy(), b.imag.copy())
    if a.dtype.kind != "f":
        return bool((a == b).all())
    bits = f"u{a.itemsize}"
    return bool(((a.view(bits) == b.view(bits)) | (np.isnan(a) & np.isnan(b))).all())


@pytest.mark.parametrize(("given", "types"), FLOATING, ids=lambda part: getattr(part, "__name__", part))
def test_numpys_values_do_not_depend_on_position(given: np.ufunc, types: str) -> None:
    """In whole groups of contiguous elements: wherever an element is, whatever is beside it, in place or not."""
    found = of(given)
    loop = found.loop(tuple(np.dtype(char) for char in types.partition("->")[0]))
    assert loop.types == types
    assert (loop.group, loop.dense) == (64, True)
    rng = np.random.default_rng(7)
    xs = [elements(char, rng) for char in loop.in_chars]
    expected = run(loop, xs)
    with np.errstate(all="ignore"):
        called = given(*xs)
    for y, of_numpy in zip(expected, called if isinstance(called, tuple) else (called,), strict=True):
        assert same(y, of_numpy)
    places = [None, *(k for k, char in enumerate(loop.in_chars) if char == loop.out_chars[0])]
    for trial, place in enumerate(places * 2):
        order = rng.permutation(N)
        ys = run(loop, [x[order] for x in xs], offset=trial, piece=64 * (1 + 2 * (trial % 3)), place=place)
        for y, e in zip(ys, expected, strict=True):
            assert same(y, e[order])


def test_a_change_of_neighbours_would_be_seen() -> None:
    """Without this, the test above might compare too little."""
    x = elements("d", np.random.default_rng(7))
    assert not same(x, np.nextafter(x, 0))
    assert not same(x, np.roll(x, 1))
    assert same(x, x.copy())


@pytest.mark.parametrize("given", SCIPY, ids=lambda u: u.__name__)
def test_loops_of_scipy_are_scalar(given: np.ufunc) -> None:
    loop = of(given).loop((np.dtype("d"),) * given.nin)
    assert (loop.group, loop.dense, loop.raises) == (1, True, False)


def test_powers_of_integers_may_raise() -> None:
    long, double = np.dtype("l"), np.dtype("d")
    assert of(np.power).loop((long, long)).raises
    assert not of(np.power).loop((double, long)).raises
    assert not of(np.add).loop((long, long)).raises
    assert of(np.add).raises is False
    forced = ufunc(scipy.special.erf, raises=True)
    assert forced is not None
    assert forced.loop((double,)).raises
    with pytest.raises(ValueError, match="Integers to negative integer powers") as raised:
        tmap(np.power, np.array([2, 3, 5]), np.array([1, -1, -1]))
    assert "element 1" in raised.value.__notes__[0]


# ---- Numba's


def test_a_dufunc_is_compiled_for_the_types_first() -> None:
    f = numba.vectorize(lambda x: x * 2.5)
    found = of(f)
    double, single, long = np.dtype("d"), np.dtype("f"), np.dtype("l")
    assert found.loop((double,)).types == "d->d"
    # Numba itself would now run the loop of float64.
    assert found.loop((single,)).types.startswith("f->")
    assert found.loop((long,)).types == "l->d"
    assert found.loop((np.dtype("D"),)).types == "D->D"
    assert found.loop((np.dtype(">f8"),)).types == "d->d"
    assert found.loop((float,)).types == "d->d"
    assert found.loop((np.dtype("e"),)).types.startswith("f->")
    assert found.result_types((np.dtype("e"),)) == (np.dtype("e"),)
    np.testing.assert_array_equal(tmap(f, np.arange(3.0)), [0, 2.5, 5])


def test_python_scalars_are_weak_for_numba_too() -> None:
    found = of(numba.vectorize(lambda x, y: x * y))
    single, double = np.dtype("f"), np.dtype("d")
    for inputs, types in [
        ((single, float), "ff->f"),
        ((int, single), "ff->f"),
        ((double, int), "dd->d"),
        ((np.dtype("F"), float), "Ff->F"),
        ((single, complex), "fF->F"),
        ((np.dtype("l"), float), "ld->d"),
    ]:
        assert found.loop(inputs).types == types, inputs


def test_given_signatures_are_kept_to() -> None:
    found = of(numba.vectorize(["f8(f8)"])(lambda x: x + 1))
    assert found.loop((np.dtype("f"),)).types == "d->d"
    assert found.loop((np.dtype("l"),)).types == "d->d"
    with pytest.raises(
        TypeError, match=r"cannot be computed for arguments of types \(complex128\); it has the loops d->d"
    ):
        found.loop((np.dtype("D"),))


def test_what_numba_cannot_compile() -> None:
    found = of(numba.vectorize(lambda x: math.erf(x)))
    with pytest.raises(
        TypeError, match=r"types \(complex128\); it has the loops none .*; Numba cannot compile it for these"
    ):
        found.loop((np.dtype("D"),))
    with pytest.raises(TypeError, match="cannot be computed for arguments of types"):
        found.loop((np.dtype("g"),))
    assert found.loop((np.dtype("d"),)).types == "d->d"


def test_only_code_that_may_raise_is_run_by_the_calling_thread() -> None:
    @numba.vectorize
    def checked(x: float) -> float:
        if x < 0:
            raise ValueError("negative")
        return math.sqrt(x)

    @numba.vectorize
    def plain(x: float) -> float:
        return math.sqrt(x) / x + x // 3 + math.gamma(x)

    double = np.dtype("d")
    assert of(checked).loop((double,)).raises
    assert not of(plain).loop((double,)).raises
    x = np.ones(100_000)
    x[[700, 90_000]] = -1
    with pytest.raises(ValueError, match="negative") as raised:
        tmap(checked, x)
    assert "element 700" in raised.value.__notes__[0]
    np.testing.assert_array_equal(tmap(checked, abs(x)), 1)


def test_what_cannot_be_looked_into_may_raise() -> None:
    found = of(numba.vectorize(lambda x: x + 1))
    found._dispatcher = SimpleNamespace(
        targetoptions={}, add=found._dispatcher.add, _dispatcher=SimpleNamespace(overloads={})
    )
    assert found.loop((np.dtype("d"),)).raises


def test_fast_math_is_run_in_groups() -> None:
    double = np.dtype("d")
    svml = numba.config.USING_SVML
    assert of(numba.vectorize(lambda x: x + 1)).loop((double,)).group == (64 if svml else 1)
    assert of(numba.vectorize(fastmath=True)(lambda x: x + 1)).loop((double,)).group == 64


# ---- the derivative as a form


def test_what_a_form_knows() -> None:
    form = TableForm(of(np.exp))
    assert form.known(0, 0) == "known"
    assert (form.saves, form.gives_value, form.parts) == (False, False, ())
    jv = TableForm(of(scipy.special.jv))
    assert (jv.known(0, 0), jv.known(0, 1)) == ("unknown", "known")
    sign = TableForm(of(np.sign))
    assert (sign.known(0, 0), sign.for_types("D->D").known(0, 0)) == ("known", "unknown")
    assert TableForm(of(np.gcd)).known(0, 0) == "unknown"
    conjugate = TableForm(of(np.conjugate))
    assert conjugate.for_types("F->F").terms(0, 0) == (True,)
    assert conjugate.for_types("f->f").terms(0, 0) == (False,)
    assert TableForm(of(np.exp)).for_types("F->F").terms(0, 0) == (False,)


def test_another_ufunc_of_the_same_name_is_not_known() -> None:
    def exp(x: float) -> float:
        return x

    assert TableForm(of(numba.vectorize(["f8(f8)"])(exp))).known(0, 0) == "unknown"


@pytest.mark.parametrize(
    ("given", "types", "reason"),
    [
        (
            np.sign,
            "D->D",
            r"sign has no derivative for D->D: x / abs\(x\) has no complex derivative; register one with tmapad",
        ),
        (np.gcd, "ll->l", "it is a function of integers"),
        (np.isnan, "d->?", "its result is true or false"),
        (scipy.special.ber, "d->d", "it is not in the table"),
    ],
)
def test_forms_say_why_there_is_no_derivative(given: np.ufunc, types: str, reason: str) -> None:
    call = SimpleNamespace(value_loop=SimpleNamespace(types=types))
    with pytest.raises(NoDerivativeError, match=reason):
        TableForm(of(given), types).emit(call, [(0, 0)])

"""SciPy's special functions inside compiled Python functions: through its C entry points, with its bits."""

import itertools
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest
import scipy.special
from run_loop import call
from scipy import special as functions
from scipy.special import cython_special, erf, gammaln, jv, sici, xlogy

from tmapad import rrule, tmap
from tmapad._derivatives import names
from tmapad.jit import engine, frontend, python_function, special
from tmapad.jit.loop import loop_code
from tmapad.jit.scalar import OPAQUE

REAL = [
    *(0.0, -0.0, math.inf, -math.inf, math.nan, 5e-324, 1e-300, -1e-9, 1e-5, 0.1, 0.25, -0.3, 0.5, 0.75, 1.0, -1.0),
    *(1.5, 2.0, -2.0, 2.5, 3.0, -3.5, 7.25, 12.0, -11.5, 33.0, 100.0, -150.5, 709.0, 1e6, 1e22),
]  # fmt: skip
COMPLEX = [complex(a, b) for a, b in itertools.product([*REAL[:4], *REAL[9:22:2], 40.0], repeat=2)]
VALUES = {"d": REAL, "D": COMPLEX, "f": REAL}

# At least these can be called.
WANTED = set(
    """
    erf erfc erfinv erfcinv erfcx gamma gammaln psi beta betaln expit logit log_expit log_ndtr ndtr ndtri j0 j1 jv i0 i1
    i0e i1e iv k0 k1 kv y0 y1 xlogy xlog1py entr exprel log1p expm1 boxcox inv_boxcox loggamma rgamma kl_div rel_entr
    """.split()  # noqa: SIM905
)
UFUNCS = {name: value for name, value in vars(functions).items() if isinstance(value, np.ufunc)}
AVAILABLE = sorted({value.__name__ for value in UFUNCS.values() if special.name_of(value)})
# Functions with a derivative that are left out: they would make integers of real orders, and warn of it.
LEFT_OUT = {"kn", "yn"}


def arguments(inputs: str) -> list[Any]:
    step = {1: 1, 2: 1, 3: 4}.get(len(inputs), 9)
    values = [VALUES[char][:: 9 * step if char == "D" and len(inputs) > 1 else step] for char in inputs]
    with np.errstate(over="ignore", under="ignore"):
        columns = zip(*itertools.product(*values), strict=True)
        return [np.array(column, char) for char, column in zip(inputs, columns, strict=True)]


def calling(f: Any, arity: int) -> Any:
    return {
        1: lambda a: f(a),
        2: lambda a, b: f(a, b),
        3: lambda a, b, c: f(a, b, c),
        4: lambda a, b, c, d: f(a, b, c, d),
        5: lambda a, b, c, d, e: f(a, b, c, d, e),
    }[arity]


def assert_same_bits(y: Any, expected: Any) -> None:
    assert y.dtype == expected.dtype
    y, expected = (one.view(one.real.dtype) for one in (y, expected))
    np.testing.assert_array_equal(np.isnan(y), np.isnan(expected))
    valid = ~np.isnan(expected)
    np.testing.assert_array_equal(y[valid].view(f"i{y.itemsize}"), expected[valid].view(f"i{y.itemsize}"))


def check(name: str) -> None:
    """Every variant of a function gives what the ufunc gives."""
    f = getattr(functions, name)
    for entry in special.entries(name):
        inputs, _, outputs = entry.types.partition("->")
        if entry.types not in f.types:
            continue
        loop = python_function(calling(f, len(inputs))).loop(tuple(map(np.dtype, inputs)))
        xs = arguments(inputs)
        _, _, ys = call(loop, *xs)
        with np.errstate(all="ignore"):
            expected = f(*xs)
        for y, one in zip(ys, expected if isinstance(expected, tuple) else (expected,), strict=True):
            assert_same_bits(y, one)
        assert loop.out_chars == outputs


def test_what_can_be_called() -> None:
    assert set(AVAILABLE) >= WANTED
    assert {name for name in names() if name in UFUNCS} - set(AVAILABLE) == LEFT_OUT


@pytest.mark.parametrize("name", sorted({*WANTED, *names()} & set(AVAILABLE)))
def test_values(name: str) -> None:
    check(name)


MODULE = ModuleType("of_a_user")
MODULE.functions = functions  # type: ignore[attr-defined]
X = np.linspace(0.25, 4.0, 9)
# Functions, and the opaque functions that they call, however they get hold of SciPy's.
SPELLINGS: list[tuple[Any, list[str]]] = [
    (lambda x: erf(x), ["erf:d->d"]),
    (lambda x: functions.erf(x) + x, ["erf:d->d"]),
    (lambda x: scipy.special.erf(x), ["erf:d->d"]),
    (lambda x: MODULE.functions.erf(x), ["erf:d->d"]),  # type: ignore[attr-defined]
    (lambda x: gammaln(3) + gammaln(True) + x, ["gammaln:d->d", "gammaln:d->d"]),
    (lambda x: functions.expit(3) + x, ["expit:d->d"]),
    (lambda x: xlogy(2, x), ["xlogy:dd->d"]),
    (lambda x: erf(x * 1j), ["erf:D->D"]),
    (lambda x: xlogy(x, 1j) + xlogy(1j, x), ["xlogy:DD->D", "xlogy:DD->D"]),
    (lambda x: jv(1, x), ["jv:dd->d"]),
    (lambda x: jv(1, x * 1j), ["jv:dD->D"]),
    (lambda x: functions.hankel1(1, x), ["hankel1:dD->D"]),
    (lambda x: sici(x)[0], ["sici:d->dd"]),
    (lambda x: sici(x * 1j)[1], ["sici:D->DD"]),
    (lambda x: helper(x), ["psi:d->d"]),
]


def helper(x: float) -> float:
    return functions.digamma(x)  # type: ignore[no-any-return]


def captured() -> Any:
    f, module = functions.j0, functions
    return lambda x: f(x) + module.j1(x)


SPELLINGS.append((captured(), ["j0:d->d", "j1:d->d"]))


def opaque_calls(scalar: Any) -> list[str]:
    return re.findall(rf'call [^@]*@"{OPAQUE}scipy\.([^"]*)"', scalar.llvm)


@pytest.mark.parametrize(("f", "calls"), SPELLINGS)
def test_calls(f: Any, calls: list[str]) -> None:
    assert opaque_calls(frontend.scalar_ir(f, "d")) == calls
    assert_same_bits(tmap(f, X), np.array([f(x) for x in X]))


def test_float32() -> None:
    """The ufunc's own result: in single precision where SciPy has that, else rounded."""
    x = X.astype("f")
    for f in (lambda x: functions.erf(x), lambda x: functions.expit(x), lambda x: functions.gammaln(x)):
        assert_same_bits(tmap(f, x), f(x))


REFUSED = [
    (lambda x: functions.ndtri(x * 1j), "No implementation of function Function(<intrinsic ndtri>) found"),
    (lambda x: functions.lambertw(x), "Unknown attribute 'lambertw' of type Module"),
    (lambda x: functions.kn(2, x), "Unknown attribute 'kn' of type Module"),
    (lambda x: functions.comb(x, 2), "Unknown attribute 'comb' of type Module"),
    (lambda x: erf(x, x), "erf() takes 2 positional arguments but 3 were given"),
]


@pytest.mark.parametrize(("f", "message"), REFUSED)
def test_what_is_not_there(f: Any, message: str) -> None:
    with pytest.raises(TypeError, match=f"^cannot compile <lambda>: .*{re.escape(message)}"):
        frontend.scalar_ir(f, "d")


def test_names() -> None:
    assert special.name_of(functions.digamma) == "psi"
    assert special.name_of(np.sin) is None
    assert special.name_of(math.erf) is None
    assert special.name_of(functions.comb) is None
    assert special.name_of(functions.lambertw) is None
    assert special.entries("no_such_function") == ()


def test_bind() -> None:
    known, other = f"{special.ENTRY}y1:d->d", f"{special.ENTRY}no_such_function:d->d"
    assert special.bind(["sin", f"{OPAQUE}sin:d->d", known, other, f"{special.ENTRY}y1:D->D"]) == [
        other,
        f"{special.ENTRY}y1:D->D",
    ]
    capsule = cython_special.__pyx_capi__["y1"]
    assert llvm.address_of_symbol(known) == special.read(capsule).address  # type: ignore[union-attr]


def test_what_scipy_has_no_more_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    code = loop_code(frontend.scalar_ir(lambda x: functions.zetac(x), "d")).code
    monkeypatch.setattr(special, "entries", lambda name: ())
    with pytest.raises(RuntimeError, match=f"the machine code of f calls {special.ENTRY}zetac:d->d, which"):
        engine.Engine(code, "f")


def test_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    """Not even of poles and domain errors, from any thread: SciPy was not asked to."""
    x = np.tile([0.0, -1.0, -1e300, np.inf, np.nan, 1e300], 5000)
    with np.errstate(all="ignore"):
        for f in (lambda x: functions.gamma(x) + functions.j1(x), lambda x: functions.kv(x, x) + functions.ndtri(x)):
            tmap(f, x, num_threads=4)
    assert capfd.readouterr() == ("", "")


def test_derivative() -> None:
    _, back = rrule(tmap, lambda x: x * erf(x) + abs(jv(1, x * 1j)), X)
    expected = erf(X) + 2 / math.sqrt(math.pi) * X * np.exp(-X * X) + (functions.iv(0, X) + functions.iv(2, X)) / 2
    np.testing.assert_allclose(back(np.ones_like(X))[2], expected, rtol=1e-13)


CACHED = """
import sys
import numpy as np
from scipy import special
from tmapad import rrule, tmap
x = np.linspace(0.25, 4.0, 9)
y, back = rrule(tmap, lambda x: special.erf(x) * special.j0(x), x)
np.testing.assert_array_equal(y, special.erf(x) * special.j0(x))
print("numba" in sys.modules, *back(np.ones(9))[2])
"""


def test_from_the_cache(tmp_path: Path) -> None:
    """The next process finds the entry points anew, without Numba."""
    environment = {**os.environ, "TMAPAD_CACHE_DIR": str(tmp_path / "cache")}
    (tmp_path / "script.py").write_text(CACHED)
    command = [sys.executable, str(tmp_path / "script.py")]
    runs = [subprocess.check_output(command, env=environment, text=True).split() for _ in range(2)]
    assert [numba for numba, *_ in runs] == ["True", "False"]
    assert runs[0][1:] == runs[1][1:]


IMPORTED = """
import sys
import numpy as np
import tmapad
tmapad.tmap(lambda x: x * x, np.ones(3))
tmapad.rrule(tmapad.tmap, lambda x: np.sin(x) % 2.0, np.ones(3))
assert "scipy.special" not in sys.modules  # Numba imports other parts
"""


def test_scipy_is_not_imported_for_others() -> None:
    subprocess.run([sys.executable, "-c", IMPORTED], check=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(AVAILABLE) - {*WANTED, *names()}))
def test_values_of_functions_without_derivative(name: str) -> None:
    check(name)

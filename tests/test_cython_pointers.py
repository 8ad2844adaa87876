"""Cython functions by name: plain ones, fused ones under every spelling, and what is pickled."""

import ctypes
import pickle
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import scipy.special
from foreign import address_of, capsule
from native_build import native_functions
from run_loop import call, run
from scipy.special import cython_special

import tmapad
from tmapad._core import Loop
from tmapad._errors import SignatureError
from tmapad._pointers import Pointer, cython_pointers, pointer

X = np.linspace(0.1, 3.0, 17)


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    return native_functions(tmp_path_factory.getbasetemp() / "native")


# ---- Functions of SciPy's


@pytest.mark.parametrize(
    ("name", "chars"),
    [("gamma", "dD"), ("erf", "dD"), ("expit", "df"), ("j0", "d"), ("j1", "d"), ("loggamma", "dD")],
)
def test_scipy_functions_are_found_by_their_signatures(name: str, chars: str) -> None:
    f = cython_pointers(cython_special, name)
    assert "".join(s.char for s in f.signatures) == chars
    assert {s.trailing for s in f.signatures} == {"int"}
    for char in chars:
        x = (X + 0.5j if char == "D" else X).astype(char)
        loop = f.loop((x.dtype,))
        assert loop.types == f"{char}->{char}"
        # Bit for bit: it is the same code.
        np.testing.assert_array_equal(run(loop, x), getattr(scipy.special, name)(x))


@pytest.mark.parametrize(
    ("name", "inputs"),
    [("jv", (0.5, X)), ("hyp2f1", (0.3, 1.2, 2.1, X / 4)), ("xlogy", (X, X[::-1].copy()))],
)
def test_scipy_functions_of_several_arguments(name: str, inputs: tuple[Any, ...]) -> None:
    f = cython_pointers("scipy.special.cython_special", name)
    assert f.nin == len(inputs)
    y = run(f.loop((X.dtype,) * f.nin), *inputs)
    np.testing.assert_array_equal(y, getattr(scipy.special, name)(*inputs))


@pytest.mark.parametrize(("name", "nout"), [("sici", 2), ("airy", 4)])
def test_scipy_functions_that_write_through_pointers(name: str, nout: int) -> None:
    f = cython_pointers(cython_special, name)
    assert (f.nin, f.nout, f.writer) == (1, nout, True)
    np.testing.assert_array_equal(run(f.loop((float,)), X), getattr(scipy.special, name)(X))


def test_integer_variants_are_left_out() -> None:
    f = cython_pointers(cython_special, "eval_legendre")  # of double or long degree
    assert [s.text for s in f.signatures] == ["double (double, double, int __pyx_skip_dispatch)"]


# ---- Functions of the fixture, built with the Cython that is installed


@pytest.mark.compiler
@pytest.mark.parametrize(
    ("name", "chars", "nin", "expected"),
    [
        ("square", "d", 1, lambda x: x * x),
        ("complex_square", "F", 1, lambda x: x * x),
        ("with_dispatch", "d", 2, lambda x, y: x - y),
        ("of_numpy", "d", 2, lambda x, y: x - y),
        ("of_numpy_complex", "F", 1, lambda x: x * x),
        ("fused_real", "df", 1, lambda x: x + 1),
        ("fused_square", "dfDF", 1, lambda x: x * x),
        ("fused_product", "dfDF", 2, lambda x, y: x * y),
    ],
)
def test_functions_of_a_module(native: ModuleType, name: str, chars: str, nin: int, expected: Any) -> None:
    f = cython_pointers(native, name)
    assert (f.name, f.nin, f.nout, f.writer) == (name, nin, 1, False)
    assert "".join(s.char for s in f.signatures) == chars
    for char in chars:
        inputs = [(X + i + (1j if char in "FD" else 0)).astype(char) for i in range(nin)]
        y = run(f.loop(tuple(x.dtype for x in inputs)), *inputs)
        np.testing.assert_allclose(y, expected(*inputs), rtol=1e-6 if char in "fF" else 1e-15)


@pytest.mark.compiler
def test_minus_one_is_a_value_like_others(native: ModuleType) -> None:
    f = cython_pointers(native, "minus_one")
    np.testing.assert_array_equal(run(f.loop((float,)), X), -1.0)


@pytest.mark.compiler
def test_writer_of_a_module(native: ModuleType) -> None:
    f = cython_pointers(native, "square_both")
    assert (f.nin, f.nout, f.writer) == (1, 2, True)
    loop = f.loop((float,))
    assert loop.types == "d->dd"
    np.testing.assert_array_equal(run(loop, X), [X * X, 2 * X])


@pytest.mark.compiler
def test_a_derivative_of_the_value(native: ModuleType) -> None:
    with pytest.raises(SignatureError, match="it takes 7 numbers"):
        cython_pointers(native, "seven")
    f = cython_pointers(native, "seven", max_inputs=7)
    np.testing.assert_array_equal(run(f.loop((float,) * 7), *[X] * 7), 28 * X)


@pytest.mark.compiler
@pytest.mark.parametrize(
    ("name", "given", "reason"),
    [
        ("no_argument", "'double (void)'", "it takes no numbers"),
        ("read_only", "'void (double, double const *)'", "'double const *' is not one of the accepted types"),
        ("pointed", "'double (double, double *)'", "it returns a value and takes pointers too"),
        ("counted", "'double (double, int)'", "'int' is not one of the accepted types"),
        (
            "of_typedef",
            "'__pyx_t_16native_functions_private_real (",
            "declare the function with the type itself",
        ),
        ("fused_long", "'long double (long double, double)' or 'long ", "it is fused, and none will do"),
        ("fused_mixed", "'double (long, double)' or ", "it is fused, and none will do"),
    ],
)
def test_functions_that_will_not_do(native: ModuleType, name: str, given: str, reason: str) -> None:
    with pytest.raises(SignatureError, match=re.escape(reason)) as caught:
        cython_pointers(native, name)
    assert f"{name} has the signature " in str(caught.value)
    assert given in str(caught.value)
    assert "Accepted are\n    T (T, ...) " in str(caught.value)


@pytest.mark.compiler
def test_a_name_elsewhere(native: ModuleType) -> None:
    f = cython_pointers(cython_special, "native_functions:square")
    assert f == cython_pointers(native, "square") == cython_pointers("native_functions", "square")


# ---- Fused functions, as Cython exports them before and since 3.3; addresses tell which variant was taken

VARIANTS = {
    "float": ("float (float, int __pyx_skip_dispatch)", 0x10),
    "double": ("double (double, int __pyx_skip_dispatch)", 0x20),
    "long double": ("long double (long double, int __pyx_skip_dispatch)", 0x30),
    "double complex": ("__pyx_t_double_complex (__pyx_t_double_complex, int __pyx_skip_dispatch)", 0x40),
}
PAIRS = {
    "float,float": ("float (float, float)", 0x50),
    "float,double": ("float (float, double)", 0x60),
    "double,float": ("double (double, float)", 0x70),
    "double,double": ("double (double, double)", 0x80),
}


def exports(spelling: str, reverse: bool) -> ModuleType:
    """A module that exports `f`, fused over one type, `g`, over two, and others with similar names."""
    module = ModuleType("made_up")
    entries: list[tuple[str, object]] = [("plain", capsule(0x90, b"double (double)"))]
    for i, (kind, (text, address)) in enumerate(VARIANTS.items()):
        item = capsule(address, text.encode())
        old, new = (f"__pyx_fuse_{i}f", item), (f"f[{kind}]", item)
        entries += {"old": [old], "new": [new], "both": [old, new]}[spelling]
    for i, (kinds, (text, address)) in enumerate(PAIRS.items()):
        item = capsule(address, text.encode())
        old, new = (f"__pyx_fuse_{i // 2}_{i % 2}g", item), (f"g[{kinds}]", item)
        entries += {"old": [old], "new": [new], "both": [old, new]}[spelling]
    entries += [
        ("__pyx_fuse_0ff", capsule(1, b"float (float)")),
        ("ff[double]", capsule(2, b"double (double)")),
    ]
    module.__dict__["__pyx_capi__"] = dict(reversed(entries) if reverse else entries)
    return module


@pytest.mark.parametrize("spelling", ["old", "new", "both"])
@pytest.mark.parametrize("reverse", [False, True])
def test_fused_functions_under_every_spelling(spelling: str, reverse: bool) -> None:
    module = exports(spelling, reverse)
    f, g = cython_pointers(module, "f"), cython_pointers(module, "g")
    # Long double has no loop, and neither have arguments of two types; the order means nothing.
    assert {s.char: f._natives[s.char].address for s in f.signatures} == {"d": 0x20, "f": 0x10, "D": 0x40}
    assert {s.char: g._natives[s.char].address for s in g.signatures} == {"d": 0x80, "f": 0x50}
    assert cython_pointers(module, "plain").signatures[0].text == "double (double)"


@pytest.mark.compiler
def test_fused_functions_are_exported_under_known_names(native: ModuleType) -> None:
    names = {name for name in native.__pyx_capi__ if "fused_square" in name}
    old = {f"__pyx_fuse_{i}fused_square" for i in range(5)}
    assert names >= old or names >= {"fused_square[double]", "fused_square[double complex]"}


def test_one_variant_by_its_full_name() -> None:
    f = cython_pointers(exports("new", False), "f[float]")
    assert [s.char for s in f.signatures] == ["f"]


# ---- The type that is computed in

f2, f4, f8, c8, c16 = (np.dtype(kind) for kind in ("f2", "f4", "f8", "c8", "c16"))
i4, u1, b1, g = (np.dtype(kind) for kind in ("i4", "u1", "?", "longdouble"))


def of_types(chars: str) -> Pointer:
    words = {"f": "float", "d": "double", "F": "float complex", "D": "double complex"}
    module = ModuleType("made_up")
    module.__dict__["__pyx_capi__"] = {
        f"__pyx_fuse_{i}f": capsule(address_of("sin"), f"{words[c]} ({words[c]}, {words[c]})".encode())
        for i, c in enumerate(chars)
    }
    return cython_pointers(module, "f")


@pytest.mark.parametrize(
    ("chars", "inputs", "chosen"),
    [
        ("fdFD", (f4, f4), "f"),
        ("fdFD", (f8, f8), "d"),
        ("fdFD", (c8, c8), "F"),
        ("fdFD", (c16, c16), "D"),
        ("fdFD", (f4, f8), "d"),
        ("fdFD", (f4, c8), "F"),
        ("fdFD", (f8, c8), "D"),
        ("fdFD", (f2, f4), "f"),
        ("fdFD", (i4, u1), "d"),
        ("fdFD", (b1, f4), "d"),
        ("fdFD", (f4, float), "f"),
        ("fdFD", (f4, int), "f"),
        ("fdFD", (f4, bool), "f"),
        ("fdFD", (f4, complex), "F"),
        ("fdFD", (f8, complex), "D"),
        ("fdFD", (i4, complex), "D"),
        ("fdFD", (float, int), "d"),
        ("fdFD", (float, complex), "D"),
        ("dD", (f4, f4), "d"),
        ("FD", (f4, f4), "F"),
        ("D", (f4, int), "D"),
        ("dF", (f4, f4), "d"),
        ("dF", (c8, f4), "F"),
        ("D", (c8, c8), "D"),
        ("f", (float, int), "f"),
        ("fD", (float, float), "f"),
        ("F", (complex, float), "F"),
        ("FD", (float, float), "D"),
        ("d", (np.dtype(">f8"), f8), "d"),
    ],
)
def test_type_of_the_computation(chars: str, inputs: tuple[Any, ...], chosen: str) -> None:
    assert of_types(chars).loop(inputs).in_chars == 2 * chosen


@pytest.mark.parametrize(
    ("chars", "inputs", "given"),
    [
        ("f", (f8, f8), "(float64, float64)"),
        ("f", (i4, f4), "(int32, float32)"),
        ("fd", (c8, f4), "(complex64, float32)"),
        ("fd", (complex, f4), "(complex, float32)"),
        ("fd", (complex, float), "(complex, float)"),
        ("fdF", (c16, c16), "(complex128, complex128)"),
        ("fF", (f8, f8), "(float64, float64)"),
        ("fdFD", (g, f8), f"({g}, float64)"),
        ("fdFD", (np.dtype(object), f8), "(object, float64)"),
        ("fdFD", (f8, np.dtype("U3")), "(float64, <U3)"),
        ("fdFD", (f8, np.dtype("M8[s]")), "(float64, datetime64[s])"),
    ],
)
def test_never_a_narrower_type(chars: str, inputs: tuple[Any, ...], given: str) -> None:
    has = " or ".join(str(np.dtype(char)) for char in "dfDF" if char in chars)
    with pytest.raises(TypeError, match=re.escape(f"f has no loop for {given}: its numbers are {has}, and arg")):
        of_types(chars).loop(inputs)


# ---- Names that are not there


def test_missing_name_shows_close_ones() -> None:
    message = r"module 'scipy.special.cython_special' exports no Cython function 'gama'; it has gamma, .*, \.\.\."
    with pytest.raises(AttributeError, match=message):
        cython_pointers(cython_special, "gama")


def test_module_without_cython_functions() -> None:
    with pytest.raises(AttributeError, match=r"module 're' exports no Cython functions .*: declare 'sin' in its"):
        cython_pointers("re", "sin")


def test_missing_module() -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        cython_pointers("no_such_module", "f")
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        cython_pointers(cython_special, "no_such_module:f")


def test_export_that_is_no_capsule() -> None:
    module = ModuleType("made_up")
    module.__dict__["__pyx_capi__"] = {"f": 5}
    with pytest.raises(TypeError, match="__pyx_capi__ of made_up holds 5 for 'f', no capsule"):
        cython_pointers(module, "f")


# ---- Pickles


@pytest.mark.parametrize("name", ["gamma", "jv"])
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_named_functions_are_pickled_by_name(name: str, protocol: int) -> None:
    f = cython_pointers(cython_special, name)
    again = pickle.loads(pickle.dumps(f, protocol))
    assert again == f
    assert hash(again) == hash(f)
    assert again.signatures == f.signatures
    assert again != cython_pointers(cython_special, "erf")


@pytest.mark.compiler
def test_pickle_in_another_process(native: ModuleType) -> None:
    data = pickle.dumps(cython_pointers(native, "seven", raises=True, max_inputs=7))
    path = [str(Path(tmapad.__path__[0]).parent), str(Path(str(native.__file__)).parent)]
    code = f"import sys, pickle; sys.path[:0] = {path!r}; print(pickle.loads({data!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.startswith("<Pointer seven: double (double, double, "), done.stderr


def test_bare_pointers_are_not_pickled() -> None:
    f = pointer(cython_special.__pyx_capi__["j0"], name="my_j0")
    message = r"cannot pickle my_j0: an address means .* by name can be pickled: from_cython\('package.module', 'na"
    with pytest.raises(TypeError, match=message):
        pickle.dumps(f)


@pytest.mark.compiler
def test_user_data_is_not_pickled(native: ModuleType) -> None:
    f = cython_pointers(native, "scaled", user_data=ctypes.c_double(2.0))
    with pytest.raises(TypeError, match=r"cannot pickle scaled: .* without user_data"):
        pickle.dumps(f)


# ---- cimport tmapad


@pytest.mark.compiler
def test_types_of_cimport(native: ModuleType) -> None:
    assert native.typedefs() == (9.0, 9.0, 6.0, -1 + 0j)


@pytest.mark.compiler
def test_cimport_needs_nothing_at_run_time(native: ModuleType) -> None:
    folder = str(Path(str(native.__file__)).parent)
    code = f"import sys; sys.path.append({folder!r}); import native_functions; print('tmapad' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "False\n", done.stderr


@pytest.mark.compiler
def test_loop_of_cimport(native: ModuleType) -> None:
    loop = Loop(native.loop_address(), 0, "d->d", 1, can_fail=True)
    np.testing.assert_array_equal(run(loop, X), X * X)
    assert call(loop, np.array([1.0, 2.0, -1.0, 3.0]))[:2] == (1, 2)
    assert call(loop, X, stop=1)[:2] == (1, 0)

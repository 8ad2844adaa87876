"""Python functions that cannot be compiled: one short TypeError that says which function, where and why."""

import ctypes
import math
import random
import re
import traceback
from typing import Any

import numba
import numpy as np
import pytest

from tmapad.jit import PythonFunction, engine, python_function
from tmapad.jit.errors import compile_error

F8 = np.dtype("f8")
RETURN = "; it must return a number, or a tuple of at least two numbers for several results"

weights = np.arange(3.0)
names = ["a"]
pairs = (1.0, (2.0, weights))


def no_such_name(x: float) -> float:
    return no_such_variable * x  # type: ignore[name-defined] # noqa: F821


def adds_text(x: float) -> float:
    y = x * 2
    return y + "a"  # type: ignore[operator]


def no_such_attribute(x: float) -> float:
    return x.size  # type: ignore[attr-defined]


def unlike_branches(x: float) -> Any:
    if x > 0:
        return x
    return "negative"


def with_block(x: float) -> float:
    with numba.objmode(y="float64"):
        y = abs(x)
    return y  # noqa: RET504


def drawing(x: float) -> float:
    return x + random.random()


def drawing_with_numpy(x: float) -> float:
    return x + np.random.normal()  # noqa: NPY002 - there is no other in compiled code


def printing(x: float) -> float:
    print(x)
    return x


def drawing_in_a_helper(x: float) -> float:
    return drawing(x)


def nothing(x: float) -> None:
    x + 1


def sometimes_nothing(x: float) -> float | None:
    if x > 0:
        return x
    return None


def always_raising(x: float) -> float:
    raise NotImplementedError(f"no {x:.3f}")


def reads_a_list(x: float) -> float:
    return x * len(names)


def reads_an_array_in_a_tuple(x: float) -> float:
    return x * pairs[0]


def calls_one_that_reads_a_list(x: float) -> float:
    return reads_a_list(x)


def array_default(x: float, w: Any = weights) -> float:
    return x * w[0]


def calls_one_with_a_default(x: float) -> float:
    return array_default(x)


def reads_with_getattr(x: float) -> float:
    return x * getattr(math, "pi")  # noqa: B009


find = getattr


def reads_with_another_getattr(x: float) -> float:
    return x * find(math, "pi")  # type: ignore[no-any-return]


def unknown_to_numba(x: float) -> float:
    return x * np.i0(x)  # type: ignore[no-any-return]


# Functions, and what compiling them for float64 says.
@pytest.mark.parametrize(
    ("f", "message"),
    [
        (no_such_name, ("cannot compile no_such_name: NameError: name 'no_such_variable' is not defined (line {}: "
         "`return no_such_variable * x")),
        (adds_text, ("cannot compile adds_text: No implementation of function add found for signature: "
         'add(float64, Literal[str](a)) (line {}: `return y + "a"')),
        (no_such_attribute, ("cannot compile no_such_attribute: Unknown attribute 'size' of type float64 (line {}: "
         "`return x.size")),
        (unknown_to_numba, ("cannot compile unknown_to_numba: Numba has no compiled form of np.i0, or not for this "
         "(line {}: `return x * np.i0(x)")),
        (unlike_branches, ("cannot compile unlike_branches: Can't unify return type from the following types: "
         "Literal[str](negative), float64 (line {}: `")),
        (with_block, ("cannot compile with_block: a function that is mapped has no with blocks (line {}: "
         "`with numba.objmode(")),
        (drawing, ("cannot compile drawing: it draws random numbers, so its results would depend on the threads; draw "
         "them before and pass them as an argument (line {}: `return x + random.random()`)")),
        (drawing_with_numpy, "cannot compile drawing_with_numpy: it draws random numbers"),
        (drawing_in_a_helper, "cannot compile drawing_in_a_helper: it draws random numbers"),
        (printing, ("cannot compile printing: it prints, for which threads would have to wait for each other; leave "
         "that out of the function (line {}: `print(x)`)")),
        (nothing, "nothing returns None, or raises whatever it is given" + RETURN),
        (always_raising, "always_raising returns None, or raises whatever it is given" + RETURN),
        (sometimes_nothing, "sometimes_nothing returns float64 for some arguments and None for others" + RETURN),
        (lambda x: "text", "<lambda> returns unicode_type" + RETURN),
        (lambda x: (x,), "<lambda> returns UniTuple(float64 x 1)" + RETURN),
        (lambda x: (x, (x, x)), "<lambda> returns Tuple(float64, UniTuple(float64 x 2))" + RETURN),
        (lambda x: np.array([x]), "<lambda> returns array(float64, 1d, C)" + RETURN),
        (reads_a_list, ("reads_a_list reads the global variable 'names', of type list: compiled code would keep a copy "
         "of what it holds now, and not see it change. Pass numbers as arguments, or use a tuple or an array of "
         "numbers")),
        (reads_an_array_in_a_tuple, "reads_an_array_in_a_tuple reads the global variable 'pairs', of type ndarray: "),
        (calls_one_that_reads_a_list, ("calls_one_that_reads_a_list reads the global variable "
         "'reads_a_list.names', of type list: ")),
        (calls_one_with_a_default, "calls_one_with_a_default reads the default value 'array_default.w', of type "),
        (reads_with_getattr, "reads_with_getattr uses getattr, of which Numba remembers what it once gave: write"),
        (reads_with_another_getattr, "reads_with_another_getattr uses getattr"),
        (array_default, "array_default reads the default value 'w', of type ndarray: "),
    ],
)  # fmt: skip
def test_what_cannot_be_compiled(f: Any, message: str) -> None:
    p = python_function(f)
    assert p is not None
    pattern = re.escape(message).replace(r"\{\}", r"\d+")
    with pytest.raises(TypeError, match=f"^{pattern}") as info:
        p.loop((F8,))
    assert "\n" not in str(info.value)
    assert len(str(info.value)) < 420


def test_numbas_page_is_not_shown_but_kept() -> None:
    p = python_function(adds_text)
    assert p is not None
    with pytest.raises(TypeError) as info:
        p.loop((F8,))
    assert isinstance(info.value.__context__, numba.TypingError)
    shown = "".join(traceback.format_exception(info.value))
    assert "Failed in nopython mode pipeline" not in shown
    assert "another exception" not in shown


def test_a_list_that_is_captured() -> None:
    table = [1.0, 2.0]
    p = PythonFunction(lambda x: table[int(x)])
    with pytest.raises(TypeError, match="reads the captured variable 'table', of type list"):
        p.loop((F8,))


def many(*xs: float) -> float:
    return sum(xs)


def named(x: float, **options: float) -> float:
    return x


def keyword_only(x: float, *, n: int) -> float:
    return x**n


def no_argument() -> float:
    return 1.0


def generating(x: float) -> Any:
    yield x


async def waiting(x: float) -> float:
    return x


async def streaming(x: float) -> Any:
    yield x


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (many, "many takes *xs; a function that is mapped must name its arguments: wrap it, as in lambda x: many(x)"),
        (named, "named takes **options; a function that is mapped must name its arguments"),
        (keyword_only, ("keyword_only has the keyword-only argument 'n' without a default; a function that is mapped "
         "takes positional arguments: make it one")),
        (no_argument, "no_argument takes no positional argument; a function that is mapped takes one or more"),
        (generating, "generating is a generator; a function that is mapped must return a number"),
        (waiting, "waiting is a coroutine; a function that is mapped must return a number"),
        (streaming, "streaming is an asynchronous generator; a function that is mapped must return a number"),
    ],
)  # fmt: skip
def test_what_cannot_be_mapped(f: Any, message: str) -> None:
    """Said at once, and without Numba."""
    shown = re.sub(r"\*+(\w+)", r"\1", message)
    with pytest.raises(TypeError) as info:
        python_function(f)
    assert re.sub(r"\*+(\w+)(: \w+)?", r"\1", str(info.value)).startswith(shown)


ACCEPTED = "; accepted: bool, integers, float16 to float64, complex64 and complex128"


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (np.dtype("g"), str(np.dtype("g"))),
        (np.dtype("G"), str(np.dtype("G"))),
        (np.dtype("O"), "object"),
        (np.dtype("U3"), "<U3"),
        (np.dtype("M8[s]"), "datetime64[s]"),
        (np.dtype([("a", "f8")]), "[('a', '<f8')]"),
        (str, "Python's str"),
    ],
)
def test_types_of_arguments(given: Any, name: str) -> None:
    p = PythonFunction(lambda x, scale: x * scale)
    with pytest.raises(TypeError, match=re.escape(f"argument 'scale' of <lambda> has type {name}{ACCEPTED}")):
        p.loop((F8, given))


@pytest.mark.parametrize(
    ("inputs", "message"),
    [((), "f takes 1 to 2 arguments, not 0"), ((F8,) * 3, "f takes 1 to 2 arguments, not 3")],
)
def test_number_of_arguments(inputs: Any, message: str) -> None:
    def f(x: float, n: float = 2.0) -> float:
        return x * n

    with pytest.raises(TypeError, match=message):
        PythonFunction(f).loop(inputs)
    with pytest.raises(TypeError, match="<lambda> takes 1 argument, not 2"):
        PythonFunction(lambda x: x).loop((F8, F8))


@pytest.mark.parametrize(
    ("signature", "given", "accepted"),
    [
        ("complex64(complex64)", "D", "complex64"),
        ("float32(float32)", "d", "float32"),
        ("float32(float32)", "l", "float32"),
        ("float32(int32)", "d", "int32"),
        ("float32(int32)", "l", "int32"),
        ("float64(float64)", "F", "float64"),
        ("float64(float64)", "O", "float64"),
        ("boolean(boolean)", "b", "bool"),
    ],
)
def test_types_that_a_cfunc_was_not_declared_for(signature: str, given: str, accepted: str) -> None:
    p = python_function(numba.cfunc(signature)(lambda z: z))
    assert p is not None
    message = (
        f"argument 'z' of <lambda> has type {np.dtype(given)}; accepted: what fits {accepted}, for which it is declared"
    )
    with pytest.raises(TypeError, match=message):
        p.loop((np.dtype(given),))


def test_a_cfunc_of_pointers() -> None:
    callback = numba.cfunc("float64(CPointer(float64))")(lambda p: p[0])
    with pytest.raises(TypeError, match=re.escape("declared as float64(float64*,); a numba.cfunc that is mapped must")):
        python_function(callback)


def test_a_declaration_for_other_arguments() -> None:
    with pytest.raises(TypeError, match="<lambda> takes 1 argument, but is declared for dd->d"):
        PythonFunction(lambda x: x, signature="dd->d")


def test_a_missing_symbol_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loaded, the code would end the process."""
    p = python_function(lambda x: math.sin(x))
    assert p is not None
    monkeypatch.setattr(engine, "undefined_symbols", lambda code: ["sin", "no_such_symbol"])
    message = "the machine code of <lambda> calls no_such_symbol, which this process does not have: import the module"
    with pytest.raises(RuntimeError, match=message):
        p.loop((F8,))


@pytest.mark.parametrize("prototype", [ctypes.CFUNCTYPE, ctypes.PYFUNCTYPE])
def test_a_callback_that_is_called(prototype: Any) -> None:
    """It would take the GIL in every thread, or worse, not take it."""
    callback = prototype(ctypes.c_double, ctypes.c_double)(lambda x: x)
    for f in (lambda x: callback(x), lambda x: (callback, callback)[0](x)):
        with pytest.raises(
            TypeError, match="<lambda> calls the captured variable 'callback', a ctypes function that runs"
        ):
            PythonFunction(f).loop((F8,))


@pytest.mark.parametrize(
    ("page", "sentence"),
    [
        ('Failed in nopython mode pipeline (step: x)\n\x1b[1mNo way\x1b[0m\n\nFile "a.py", line 3:', "No way"),
        ("No match for:\n\n >>> f(a, b)\n \nThere are 3 candidate implementations:", "No match for: f(a, b)"),
        ("In <built-in function add> and Function(<function g at 0x7f>)", "In add and g"),
        ("Cannot unify a and b for '$phi1.2', defined at /tmp/a.py (3)", "Cannot unify a and b"),
        ("x" * 500, "x" * 240 + "..."),
        ("", "ValueError"),
    ],
)  # fmt: skip
def test_a_page_becomes_a_sentence(page: str, sentence: str) -> None:
    error = compile_error(reads_a_list, ValueError(page))
    number = reads_a_list.__code__.co_firstlineno
    assert str(error) == (
        f"cannot compile reads_a_list: {sentence} (line {number}: `def reads_a_list(x: float) -> float:`)"
    )


def test_a_function_without_source() -> None:
    names: dict[str, Any] = {}
    exec("def f(x):\n    return x + 'a'", names)
    p = python_function(names["f"])
    assert p is not None
    with pytest.raises(TypeError, match=r"Literal\[str\]\(a\)\) \(line 2\)$"):
        p.loop((F8,))

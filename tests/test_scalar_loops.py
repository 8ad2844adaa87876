"""The loops round C functions: one for each type, number of inputs and outputs, and last parameter."""

import ctypes
from types import ModuleType

import numpy as np
import plain_c
import pytest
from native_build import native_functions
from run_loop import call, run

from tmapad._core import pointer_loop

pytestmark = pytest.mark.compiler


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    return native_functions(tmp_path_factory.getbasetemp() / "native")


@pytest.mark.parametrize("char", "fdFD")
def test_every_signature_has_its_own_loop(module: ModuleType, char: str) -> None:
    library = ctypes.CDLL(module.__file__)
    user_data = ctypes.c_float(0.5)
    x = np.arange(5.0) + (1j * np.arange(5.0, 10.0) if char in "FD" else 0)
    tried = 0
    for plain in plain_c.signatures():
        if plain.char != char:
            continue
        tried += 1
        address = ctypes.cast(library[plain.name], ctypes.c_void_p).value
        data = ctypes.addressof(user_data) if plain.trailing == "void *" else 0
        loop = pointer_loop(address, char, plain.inputs, plain.outputs, plain.trailing, data, user_data)
        inputs = [(x + i).astype(char) for i in range(plain.inputs)]
        assert loop.types == f"{char * plain.inputs}->{char * max(plain.outputs, 1)}"
        stopped, _, outputs = call(loop, *inputs)
        assert stopped == 0
        np.testing.assert_array_equal(outputs, plain.results(inputs, 0.5), err_msg=plain.name)
    assert tried == 7 * 3 + 6 * 8 * 2


@pytest.mark.parametrize(
    ("char", "nin", "nout", "trailing"),
    [("g", 1, 0, ""), ("d", 0, 0, ""), ("d", 8, 0, ""), ("d", 7, 1, ""), ("d", 1, 9, ""), ("d", 1, 1, "int")],
)
def test_no_loop(char: str, nin: int, nout: int, trailing: str) -> None:
    with pytest.raises(ValueError, match=f"no loop for C functions of {nin} '{char}' arguments"):
        pointer_loop(1, char, nin, nout, trailing, 0, None)


def test_uniform_argument(module: ModuleType) -> None:
    address = ctypes.cast(ctypes.CDLL(module.__file__)["plain_d_2_0_"], ctypes.c_void_p).value
    loop = pointer_loop(address, "d", 2, 0, "", 0, None)
    np.testing.assert_array_equal(run(loop, np.arange(4.0), 0.5), np.arange(4.0) + 2 * 0.5)


def test_stops_when_asked(module: ModuleType) -> None:
    address = ctypes.cast(ctypes.CDLL(module.__file__)["plain_d_1_0_"], ctypes.c_void_p).value
    stopped, index, (y,) = call(pointer_loop(address, "d", 1, 0, "", 0, None), np.arange(4.0), stop=1)
    assert (stopped, index) == (1, 0)
    np.testing.assert_array_equal(y, -99)

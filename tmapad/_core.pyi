from collections.abc import Callable, Container, Sequence
from typing import Any

import numpy as np

Failure = tuple[int, int, BaseException | None] | None

BLOCK_SIZE: int
LARGEST_LOOP: int
SCHEDULES: dict[str, int]

class Loop:
    types: str
    nin: int
    nout: int
    group: int
    dense: bool
    can_fail: bool
    raises: bool
    speculates: bool
    keep: object
    def __init__(
        self,
        address: int,
        data: int,
        types: str,
        nin: int,
        *,
        group: int = 1,
        dense: bool = False,
        can_fail: bool = False,
        raises: bool = False,
        speculates: bool = False,
        keep: object = None,
    ) -> None: ...
    @property
    def address(self) -> int: ...
    @property
    def data(self) -> int: ...
    @property
    def in_chars(self) -> str: ...
    @property
    def out_chars(self) -> str: ...

class Program:
    raises: bool
    serial: bool
    name: str
    loops: tuple[Loop, ...]
    def __init__(
        self,
        slots: Sequence[tuple[str, int, Any]],
        steps: Sequence[tuple[Loop, Sequence[int]]],
        *,
        serial: bool = False,
        name: str = "",
        reports: Sequence[tuple[str | None, Loop | None, int]] | None = None,
    ) -> None: ...
    def run(
        self,
        arrays: tuple[np.ndarray[Any, Any], ...],
        shape: tuple[int, ...],
        *,
        num_threads: int | Callable[[], int] = 1,
        schedule: str = "dynamic",
        chunk_size: int | None = None,
        watch: bool = False,
        captured: tuple[np.ndarray[Any, Any], ...] = (),
        cast: int = 0,
        progress: Callable[[int], object] | None = None,
    ) -> Failure: ...

class Elementwise:
    program: Program
    def __init__(
        self,
        program: Program,
        inputs: str,
        outputs: str,
        numbers: Container[int] = (),
        reads: Container[int] | None = None,
    ) -> None: ...
    def __call__(
        self,
        arrays: tuple[np.ndarray[Any, Any], ...],
        num_threads: int | Callable[[], int] = 1,
        schedule: str = "dynamic",
        chunk_size: int | None = None,
    ) -> tuple[Any, ...] | None: ...

def ufunc_loop(ufunc: np.ufunc, index: int, group: int) -> Loop: ...
def pointer_loop(
    address: int,
    char: str,
    nin: int,
    nout: int,
    trailing: str,
    user_data: int,
    keep: object,
    *,
    raises: bool = False,
) -> Loop: ...
def raising_loop(loop: Loop) -> Loop: ...
def builtin_loop(name: str, types: str) -> Loop | None: ...
def select_loop(char: str) -> Loop: ...
def sum_loop(name: str, char: str, length: int) -> Loop: ...
def sum_terms(terms: np.ndarray[Any, Any], *, block_sums: bool = False) -> np.ndarray[Any, Any]: ...
def empty_like_all(
    arrays: tuple[np.ndarray[Any, Any], ...], shape: tuple[int, ...], dtype: np.dtype[Any]
) -> np.ndarray[Any, Any]: ...
def openmp_enabled() -> bool: ...
def openmp_max_threads() -> int: ...
def in_forked_child() -> bool: ...
def processor() -> bytes | None: ...

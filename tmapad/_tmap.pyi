from collections.abc import Callable
from typing import Any, final

def tmap(
    f: Any,
    *xs: Any,
    out: Any = None,
    dtype: Any = None,
    num_threads: int | None = None,
    schedule: str = "dynamic",
    chunk_size: int | None = None,
    progress: bool | Callable[[int, int], object] = False,
) -> Any: ...
def tmap_rrule(
    f: Any,
    *xs: Any,
    wrt: Any = None,
    residuals: str = "auto",
    out: Any = None,
    dtype: Any = None,
    num_threads: int | None = None,
    schedule: str = "dynamic",
    chunk_size: int | None = None,
    progress: bool | Callable[[int, int], object] = False,
) -> tuple[Any, MapPullback]: ...

@final
class MapPullback:
    def __call__(self, dy: Any, out: Any = None) -> tuple[Any, ...]: ...
    @property
    def nbytes(self) -> int: ...

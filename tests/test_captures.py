"""Values of captured variables, however they are captured: as Python sees them now, and without compiling again."""

import functools
import threading
from typing import Any

import numpy as np
import pytest
from ways_to_capture import IDS, WAYS, Way, closure

from tmapad import tmap
from tmapad.jit import frontend

X = np.array([0.5, -1.25, 3.0])
every_way = pytest.mark.parametrize("way", WAYS, ids=IDS)


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of functions, each time one goes through the front end."""
    names = []
    original = frontend.scalar_ir

    def counting(function: Any, *args: Any, **keywords: Any) -> Any:
        names.append(function.__name__)
        return original(function, *args, **keywords)

    monkeypatch.setattr(frontend, "scalar_ir", counting)
    monkeypatch.setenv("TMAPAD_CACHE", "0")
    return names


def expected(f: Any) -> Any:
    function = getattr(f, "py_func", f)
    return np.array([function(x) for x in X])


@pytest.mark.parametrize(
    "value",
    [2.5, 3, True, 2.5 - 1j, np.float64(2.5), np.float32(0.1), np.complex64(1j), np.int64(3), np.float16(1.5), 1e300],
    ids=repr,
)
@every_way
def test_values(way: Way, value: Any) -> None:
    f, _ = way.make(value)
    y = tmap(f, X)
    if isinstance(value, np.number):
        np.testing.assert_array_equal(y, X * value.astype("D" if value.dtype.kind == "c" else "d") + 1)
    else:
        np.testing.assert_array_equal(y, X * value + 1)
    assert y.dtype.kind == ("c" if np.iscomplexobj(value) else "f")


@pytest.mark.parametrize(("value", "others"), [(2.5, (3.5, -0.0, np.inf)), (1j, (2.0 + 1j, 0j))])
@every_way
def test_another_number_is_used_at_once_and_nothing_is_compiled(
    way: Way, value: Any, others: tuple[Any, ...], compilations: list[str]
) -> None:
    f, rebind = way.make(value)
    np.testing.assert_array_equal(tmap(f, X), X * value + 1)
    before = len(compilations)
    for other in others:
        f = rebind(other)
        with np.errstate(invalid="ignore"):
            np.testing.assert_array_equal(tmap(f, X), X * other + 1)
    assert len(compilations) == before


@every_way
def test_another_constant_is_used_at_once(way: Way) -> None:
    f, rebind = way.make(3)
    for other in (3, 4, 2.5, True, 1j, np.float32(7), 5):
        f = rebind(other)
        np.testing.assert_array_equal(tmap(f, X), X * other + 1)


@every_way
def test_two_of_one_code(way: Way) -> None:
    first, second = way.make(2.0)[0], way.make(3.0)[0]
    for _ in range(2):
        np.testing.assert_array_equal(tmap(first, X), 2 * X + 1)
        np.testing.assert_array_equal(tmap(second, X), 3 * X + 1)


@pytest.mark.parametrize("way", [way for way in WAYS if way.make.__name__ != "decorated"], ids=str)
def test_threads_with_values_of_their_own(way: Way) -> None:
    made = [way.make(float(k)) for k in range(4)]
    wrong = []

    def work(k: int) -> None:
        _, rebind = made[k]
        for turn in range(20):
            y = tmap(rebind(k + turn / 2), X)
            if not np.array_equal(y, (k + turn / 2) * X + 1):
                wrong.append((k, turn, y))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_change_of_type_while_others_call() -> None:
    f, rebind = closure(2.0)
    stop = threading.Event()
    wrong = []

    def work() -> None:
        while not stop.is_set():
            y = tmap(f, np.array([1.0]))
            if y.tolist() not in ([3.0], [4.0], [3.0 + 1j]):
                wrong.append(y)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for value in (3, 2.0, 2 + 1j, np.float64(2.0), 3, 2.0) * 4:
        rebind(value)
        tmap(f, X)
    stop.set()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_branches_see_the_value_of_now() -> None:
    a = 0.0

    def f(x: float) -> float:
        if a:
            return x + a
        return -x if a == 0.0 else x

    np.testing.assert_array_equal(tmap(f, X), -X)
    a = 2.0
    np.testing.assert_array_equal(tmap(f, X), X + 2)


def test_none_cuts_a_branch_off() -> None:
    a: Any = None

    def f(x: float) -> Any:
        return x if a is None else x * a

    np.testing.assert_array_equal(tmap(f, X), X)
    a = 2.0
    np.testing.assert_array_equal(tmap(f, X), 2 * X)
    a = None
    np.testing.assert_array_equal(tmap(f, X), X)


def test_recursion_is_refused() -> None:
    a = 0.5

    def halved(x: float, n: int) -> float:
        return x if n == 0 else a * halved(x, n - 1)

    with pytest.raises(
        TypeError, match=r"<lambda> reads the captured 'halved.a' in a function that calls itself: make it"
    ):
        tmap(lambda x: halved(x, 2), X)


def test_recursive_helpers() -> None:
    """Each is compiled for several types, which call each other."""

    def scale(x: float) -> float:
        return 2 * x

    def even(x: float, n: int) -> float:
        return scale(x) if n < 1 else odd(scale(x), n - 1)

    def odd(x: float, n: int) -> float:
        return x if n < 1 else even(x + 1, n - 1)

    f = lambda x: even(x, 3) + odd(x, 2)  # noqa: E731
    np.testing.assert_array_equal(tmap(f, X), [f(x) for x in X])


def test_constants_in_tuples_are_told_apart() -> None:
    """Functions made by partial share their code if they differ in numbers, but not if they differ in a tuple."""

    def line(x: float, c: tuple[Any, ...]) -> float:
        return c[0] + c[1] * x

    for c in ((1.0, 2.0), (3.0, 4.0), (0.0, 1.0), (-0.0, 1.0), (1.0, 2)):
        np.testing.assert_array_equal(tmap(functools.partial(line, c=c), X), [line(x, c) for x in X])


@pytest.mark.parametrize("strong", [np.float64, np.complex128])
def test_a_number_that_becomes_strong(strong: type) -> None:
    """Python's numbers are weak and NumPy's are not, though their types are equal for NumPy."""
    x = X.astype(np.float32)
    a = 2.0 if strong is np.float64 else 2.0 + 0j

    def f(x: float) -> float:
        return a * x

    weak = tmap(f, x).dtype
    a = strong(a)
    assert tmap(f, x).dtype == np.result_type(x, a) != weak
    a = a.item()
    assert tmap(f, x).dtype == weak

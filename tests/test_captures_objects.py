"""Bound methods, objects that can be called, and partial: what is read of an object, what is refused, what fails."""

import enum
import functools
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest

from tmapad import rrule, tmap
from tmapad.jit import frontend, python_function

X = np.array([0.5, -1.25, 3.0])
partial = functools.partial


class Point(NamedTuple):
    u: float
    v: float


class Color(enum.Enum):
    RED = 3


def scaled(y: Any) -> Any:
    return 10 * y


class Model:
    rates: ClassVar[list[float]] = [1.0]
    count = 3
    shared = 0.5

    def __init__(self, mode: str = "linear") -> None:
        self.mode = mode
        self.flag = True
        self.bias = None
        self.pair = (2.0, 3)
        self.point = Point(4.0, 5.0)
        self.function = scaled
        self.weights = np.array([1.0, 2.0, 3.0])
        self.mapping = MappingProxyType({})
        self.later: Any = None

    @property
    def area(self) -> float:
        return 2.0

    @functools.cached_property
    def cached(self) -> float:
        return 6.0

    @classmethod
    def made(cls) -> float:
        return 1.0

    @staticmethod
    def half(y: Any) -> Any:
        return y / 2

    def power(self, y: Any, n: int = 2) -> Any:
        return y**n

    def strings(self, x: Any) -> Any:
        return 2 * x if self.mode == "linear" else x * x

    def flags(self, x: Any) -> Any:
        return x if self.flag else -x

    def nothing(self, x: Any) -> Any:
        return x if self.bias is None else x + self.bias

    def tuples(self, x: Any) -> Any:
        u, v = self.pair
        return u * x + v + self.point.u

    def functions(self, x: Any) -> Any:
        return self.function(x) + self.half(x) + self.power(x) + self.power(x, 3) + self.power(x, n=1)

    def loops(self, x: Any) -> Any:
        total = 0.0
        for i in range(self.count):
            total += self.weights[i] * x
        return total * self.shared

    def renamed(self, x: Any) -> Any:
        model = self
        power = model.power
        return power(x)

    def stored(self, x: Any) -> Any:
        return x * self.cached

    # What is refused.
    def reads_a_list(self, x: Any) -> Any:
        return x + self.rates[0]

    def reads_a_property(self, x: Any) -> Any:
        return x + self.area

    def reads_a_class_method(self, x: Any) -> Any:
        return x + self.made()

    def reads_nothing(self, x: Any) -> Any:
        return x + self.missing  # type: ignore[attr-defined]

    def reads_a_mapping(self, x: Any) -> Any:
        return x + self.mapping["a"]

    def stores(self, x: Any) -> Any:
        self.later = x
        return x

    def returns_itself(self, x: Any) -> Any:
        return self

    def takes_nothing(self) -> float:
        return 1.0

    # What fails.
    def root(self, x: Any) -> Any:
        if x < 0:
            raise ValueError(self.mode, x)
        return x * self.shared

    def ratio(self, x: Any, *, d: float) -> Any:
        if x == d:
            raise ZeroDivisionError("x is d")
        return 1 / (x - d)


@pytest.mark.parametrize(
    "name", ["strings", "flags", "nothing", "tuples", "functions", "loops", "renamed", "power", "half", "stored"]
)
def test_what_is_read(name: str) -> None:
    model = Model()
    if name == "stored":
        assert model.cached == 6.0
    f = getattr(model, name)
    np.testing.assert_allclose(tmap(f, X), [f(x) for x in X], rtol=1e-15)


@pytest.mark.parametrize(
    ("name", "attribute", "value"),
    [
        ("strings", "mode", "square"),
        ("flags", "flag", False),
        ("nothing", "bias", 2.5),
        ("nothing", "bias", 3),
        ("tuples", "pair", (3.0, 1.0)),
        ("tuples", "point", Point(1.0, 2.0)),
        ("functions", "function", abs),
        ("functions", "half", scaled),
        ("loops", "count", 2),
        ("loops", "shared", 0.25),
        ("loops", "weights", np.array([4.0, 5.0, 6.0, 7.0])),
    ],
)
def test_attributes_that_are_set_again(name: str, attribute: str, value: Any) -> None:
    model = Model()
    f = getattr(model, name)
    before = tmap(f, X)
    setattr(model, attribute, value)
    expected = [f(x) for x in X]
    np.testing.assert_allclose(tmap(f, X), expected, rtol=1e-15)
    assert not np.array_equal(before, expected)
    delattr(model, attribute)
    setattr(model, attribute, value)
    np.testing.assert_allclose(tmap(f, X), expected, rtol=1e-15)


def test_a_method_of_the_class_that_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model()
    before = tmap(model.functions, X)
    monkeypatch.setattr(Model, "power", lambda self, y, n=2: y)
    np.testing.assert_allclose(tmap(model.functions, X), [model.functions(x) for x in X], rtol=1e-15)
    assert not np.array_equal(before, tmap(model.functions, X))


def test_instances_of_one_class_share_their_code(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, other = Model(), Model(), Model("square")
    second.shared = 7.0
    expected = [7 * 6 * x for x in X]
    np.testing.assert_allclose(tmap(first.loops, X), [3 * x for x in X])
    monkeypatch.setattr(frontend, "scalar_ir", None)
    np.testing.assert_allclose(tmap(second.loops, X), expected)
    np.testing.assert_allclose(tmap(other.loops, X), [3 * x for x in X])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "reads_a_list",
            "the attribute 'rates' is of type list: what is read of an object must be a number, an array of",
        ),
        ("reads_a_property", "the attribute 'area' is a property: make it a method, or store its value"),
        ("reads_a_class_method", "the attribute 'made' is a class method: make it a function"),
        ("reads_nothing", "there is no attribute 'missing'"),
        ("reads_a_mapping", "the attribute 'mapping' is of type mappingproxy: what is read of an object must be"),
        ("stores", "the attribute 'later' cannot be set: what a function that is mapped reads stays as it is"),
        ("returns_itself", "returns Model; it must return a number"),
        ("takes_nothing", "takes_nothing takes no positional argument; a function that is mapped takes one or more"),
    ],
)
def test_what_is_refused(name: str, message: str) -> None:
    with pytest.raises(TypeError) as raised:
        tmap(getattr(Model(), name), X)
    assert message in str(raised.value)
    assert name in str(raised.value)


def test_objects_that_cannot_be_called_are_refused() -> None:
    with pytest.raises(
        TypeError,
        match=r"f is .*Model.* it must be a Python or njit function, a method or an object that is called, a ufunc",
    ):
        tmap(Model(), X)


@pytest.mark.parametrize("num_threads", [1, 2])
def test_a_method_that_fails(num_threads: int) -> None:
    model = Model()
    with pytest.raises(ValueError, match=r"\('linear', -1\.25\)") as raised:
        tmap(model.root, X, num_threads=num_threads)
    assert raised.value.__notes__ == ["tmapad: in root, at element 1 with arguments (-1.25)"]
    assert raised.traceback[-1].name == "root"


@pytest.mark.parametrize(
    "make",
    [
        lambda model: partial(model.ratio, d=3.0),
        lambda model: partial(Model.ratio, model, d=3.0),
        lambda model: partial(partial(Model.ratio, model), d=np.float32(3)),
        lambda model: partial(model.ratio, d=3),
    ],
)
def test_a_partial_that_fails(make: Any) -> None:
    f = make(Model())
    with pytest.raises(ZeroDivisionError, match="x is d") as raised:
        tmap(f, X)
    assert raised.value.__notes__ == ["tmapad: in ratio, at element 2 with arguments (3.0)"]
    assert raised.traceback[-1].name == "ratio"
    with pytest.raises(ZeroDivisionError, match="x is d"):
        rrule(tmap, f, X)
    np.testing.assert_array_equal(tmap(f, X[:2]), 1 / (X[:2] - 3))


def many(
    x: Any, y: Any, /, n: int, a: float = 2.0, *, mode: str = "add", pair: Any = (1.0, 2.0), g: Any = scaled
) -> Any:
    total = x
    for _ in range(n):
        total = total * a + y if mode == "add" else total * y
    return g(total) + pair[0] + len(pair)


@pytest.mark.parametrize(
    "f",
    [
        partial(many, n=2),
        partial(many, n=2, mode="times"),
        partial(many, n=2, a=0.5),
        partial(many, n=np.int64(2), a=np.float64(0.5), g=abs, pair=(3.0, 4, 5.0)),
        partial(many, n=True, g=lambda t: t * t),
    ],
)
def test_what_partial_binds(f: Any) -> None:
    np.testing.assert_allclose(tmap(f, X, X[::-1]), [f(x, y) for x, y in zip(X, X[::-1], strict=True)], rtol=1e-15)
    again = partial(f.func, *f.args, **f.keywords)
    np.testing.assert_array_equal(tmap(again, X, 2.0), tmap(f, X, 2.0))


def test_a_partial_with_all_arguments_in_another_order() -> None:
    """What is left takes the arrays in its order, as of registered functions."""

    def f(a: float, x: float, b: float) -> float:
        return a * x - b

    np.testing.assert_array_equal(tmap(partial(f, x=2.0), X, X[::-1]), X * 2 - X[::-1])
    _, df, da, db = rrule(tmap, partial(f, x=2.0), X, 1.0)[1](np.ones(3))
    assert (df.x, db) == (X.sum(), -3)
    np.testing.assert_array_equal(da, np.full(3, 2.0))


def test_defaults_are_not_captured() -> None:
    def f(x: float, a: float = 2.0, *, b: float = 3.0) -> float:
        return x * a + b

    _, back = rrule(tmap, f, X)
    assert not back(np.ones(3))[1]
    _, df, _, da = rrule(tmap, partial(f, b=5.0), X, 7.0)[1](np.ones(3))
    assert (da, df.b) == (X.sum(), 3)


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (partial(many, c=1), r"partial binds 'c'; many has the arguments x, y, n, a, mode, pair, g"),
        (partial(many, 1.0, x=2.0), "partial binds 'x' twice, by position and by name"),
        (partial(many, *range(5)), "partial binds 5 arguments; many takes 4"),
        (partial(many, 1.0, 2.0, 3, 4.0), "partial binds all arguments of many; one must be left for the arrays"),
        (
            partial(many, 1.0, n=[1]),
            r"many reads the bound argument 'n', of type list: compiled code would keep a copy",
        ),
        (
            partial(Model().ratio),
            "ratio has the keyword-only argument 'd' without a default; .* bind it with functools",
        ),
    ],
)
def test_bad_partials(f: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        tmap(f, X)


def test_the_same_method_is_made_once() -> None:
    model = Model()
    tmap(model.root, np.ones(2))
    assert model.root is not model.root
    from tmapad._find import find

    assert find(model.root) is find(model.root)
    assert find(model.root) is not find(Model().root)


def test_a_partial_of_other_values_is_made_once() -> None:
    from tmapad._find import resolve

    def f(x: float, a: Any, n: Any) -> Any:
        return x * a + n

    first = resolve(partial(f, a=1.0, n=2)).function
    assert resolve(partial(f, a=3.0, n=2)).function is first
    assert resolve(partial(f, 3.0, n=2)).function is not None
    assert resolve(partial(f, a=3.0, n=3)).function is not first
    assert resolve(partial(f, a=1j, n=2)).function is not first


@dataclass(frozen=True)
class Frozen:
    a: float

    def __call__(self, x: float) -> float:
        return x * self.a


def test_names() -> None:
    assert repr(python_function(Frozen(2.0))) == "<PythonFunction Frozen(x)>"
    assert (
        repr(python_function(Model().ratio.__func__ and partial(Model().ratio, d=1.0))) == "<PythonFunction ratio(x)>"
    )


class _Three:
    """A data descriptor: it gives 3, whatever is kept under its name."""

    def __get__(self, instance: Any, owner: Any = None) -> float:
        return 3.0

    def __set__(self, instance: Any, value: float) -> None:
        instance.__dict__["a"] = value


def test_attributes_that_are_computed_are_not_read_raw() -> None:
    class Described:
        a = _Three()

        def __init__(self) -> None:
            self.a = 2.0

        def __call__(self, x: float) -> float:
            return self.a * x

    class Asked:
        def __init__(self) -> None:
            self.a = 2.0

        def __getattribute__(self, name: str) -> Any:
            return 3.0 if name == "a" else object.__getattribute__(self, name)

        def __call__(self, x: float) -> float:
            return self.a * x

    for made in (Described(), Asked()):
        with pytest.raises(TypeError):
            tmap(made, np.ones(2))

"""Ways in which a function of x gets at a value `a`, each with a way to give it another value."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import numba

partial = functools.partial
# What each way gives: the function, and what gives `a` another value and returns the function to call from then on.
Made = tuple[Callable[[Any], Any], Callable[[Any], Callable[[Any], Any]]]


class Way(NamedTuple):
    """One way: how it is made for a value, the name of the captured variable, and whether `wrt` must name it."""

    make: Callable[[Any], Made]
    path: str
    constant: bool = False


def closure(a: Any) -> Made:
    def f(x: Any) -> Any:
        return x * a + 1

    def rebind(value: Any) -> Any:
        nonlocal a
        a = value
        return f

    return f, rebind


def another_closure(a: Any) -> Made:
    """Another function object of the same code."""
    return (lambda x: x * a + 1), lambda value: another_closure(value)[0]


def closure_in_it(a: Any) -> Made:
    def f(x: Any) -> Any:
        def times(y: Any) -> Any:
            return y * a

        return times(x) + 1

    def rebind(value: Any) -> Any:
        nonlocal a
        a = value
        return f

    return f, rebind


def helpers_closure(a: Any) -> Made:
    def helper(y: Any) -> Any:
        return y * a

    def rebind(value: Any) -> Any:
        nonlocal a
        a = value
        return f

    f = lambda x: helper(x) + 1  # noqa: E731
    return f, rebind


def helpers_helper(a: Any) -> Made:
    innermost, rebind = helpers_closure(a)

    def helper(y: Any) -> Any:
        return innermost(y)

    def f(x: Any) -> Any:
        return helper(x)

    return f, lambda value: rebind(value) and f


def decorated(a: Any) -> Made:
    f, rebind = closure(a)
    dispatcher = numba.njit(f)
    return dispatcher, lambda value: rebind(value) and dispatcher


def executed(a: Any) -> Made:
    """A global of a function without source text."""
    namespace: dict[str, Any] = {"a": a}
    exec("def f(x): return x * a + 1", namespace)
    return namespace["f"], lambda value: (namespace.update(a=value), namespace["f"])[1]


def global_of_helper(a: Any) -> Made:
    namespace: dict[str, Any] = {"a": a}
    exec("def helper(y): return y * a\ndef f(x): return helper(x) + 1", namespace)
    return namespace["f"], lambda value: (namespace.update(a=value), namespace["f"])[1]


def of_module(a: Any) -> Made:
    settings = ModuleType("settings")
    settings.a = a  # type: ignore[attr-defined]

    def f(x: Any) -> Any:
        return x * settings.a + 1  # type: ignore[attr-defined]

    return f, lambda value: (setattr(settings, "a", value), f)[1]


def line(a: Any, x: Any, *, b: Any = 1) -> Any:
    return x * a + b


def named(x: Any, *, a: Any, b: Any = 1) -> Any:
    return x * a + b


def by_position(a: Any) -> Made:
    return partial(line, a), lambda value: partial(line, value)


def by_name(a: Any) -> Made:
    return partial(line, a=a), lambda value: partial(line, a=value)


def keyword_only(a: Any) -> Made:
    return partial(named, a=a), lambda value: partial(named, a=value)


def twice(a: Any) -> Made:
    return partial(partial(named, b=1), a=a), lambda value: partial(partial(named, a=7.5), b=1, a=value)


def of_decorated(a: Any) -> Made:
    dispatcher = numba.njit(line)
    return partial(dispatcher, a), lambda value: partial(dispatcher, value)


@dataclass
class Line:
    a: Any
    b: Any = 1
    unused: Any = None

    def f(self, x: Any) -> Any:
        return x * self.a + self.b

    def through_another(self, x: Any) -> Any:
        return self.times(self, x) + self.b

    @staticmethod
    def times(line: Any, y: Any) -> Any:
        return y * line.a

    def with_argument(self, x: Any, *, c: Any) -> Any:
        return x * self.a + c

    def __call__(self, x: Any) -> Any:
        return self.f(x)


class Slots:
    __slots__ = ("a",)

    def __init__(self, a: Any) -> None:
        self.a = a

    def f(self, x: Any) -> Any:
        return x * self.a + 1


class OfClass:
    a: Any = None

    def f(self, x: Any) -> Any:
        return x * self.a + 1


class Nested:
    def __init__(self, a: Any) -> None:
        self.params = SimpleNamespace(a=a, other=[1, 2])

    def f(self, x: Any) -> Any:
        params = self.params
        return x * params.a + 1


def bound_method(a: Any) -> Made:
    instance = Line(a)
    return instance.f, lambda value: (setattr(instance, "a", value), instance.f)[1]


def another_instance(a: Any) -> Made:
    return Line(a).f, lambda value: Line(value).f


def method_of_method(a: Any) -> Made:
    instance = Line(a)
    return instance.through_another, lambda value: (setattr(instance, "a", value), instance.through_another)[1]


def callable_instance(a: Any) -> Made:
    instance = Line(a)
    return instance, lambda value: (setattr(instance, "a", value), instance)[1]


def slots(a: Any) -> Made:
    instance = Slots(a)
    return instance.f, lambda value: (setattr(instance, "a", value), instance.f)[1]


def of_class(a: Any) -> Made:
    cls = type("Derived", (OfClass,), {"a": a})
    instance = cls()
    return instance.f, lambda value: (setattr(cls, "a", value), instance.f)[1]


def nested(a: Any) -> Made:
    instance = Nested(a)
    return instance.f, lambda value: (setattr(instance.params, "a", value), instance.f)[1]


def of_bound_method(a: Any) -> Made:
    instance = Line(a)
    return (
        partial(instance.with_argument, c=1),
        lambda value: partial((setattr(instance, "a", value), instance)[1].with_argument, c=1),
    )


def object_in_closure(a: Any) -> Made:
    line = Line(a)
    f = lambda x: line.f(x)  # noqa: E731
    return f, lambda value: (setattr(line, "a", value), f)[1]


def object_that_is_called(a: Any) -> Made:
    line = Line(a)
    f = lambda x: line(x)  # noqa: E731
    return f, lambda value: (setattr(line, "a", value), f)[1]


WAYS = [
    Way(closure, "a"),
    Way(another_closure, "a"),
    Way(closure_in_it, "a"),
    Way(helpers_closure, "helper.a"),
    Way(helpers_helper, "helper.innermost.helper.a"),
    Way(decorated, "a"),
    Way(executed, "a", constant=True),
    Way(global_of_helper, "helper.a", constant=True),
    Way(of_module, "settings.a", constant=True),
    Way(by_position, "a"),
    Way(by_name, "a"),
    Way(keyword_only, "a"),
    Way(twice, "a"),
    Way(of_decorated, "a"),
    Way(bound_method, "a"),
    Way(another_instance, "a"),
    Way(method_of_method, "a"),
    Way(callable_instance, "a"),
    Way(slots, "a"),
    Way(of_class, "a"),
    Way(nested, "params.a"),
    Way(of_bound_method, "a"),
    Way(object_in_closure, "line.a"),
    Way(object_that_is_called, "line.a"),
]
IDS = [way.make.__name__ for way in WAYS]

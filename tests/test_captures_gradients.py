"""Gradients in captured variables: `df`, by name, for every way to capture."""

import functools
import math
import sys
import threading
from typing import Any

import numpy as np
import pytest
from ways_to_capture import IDS, WAYS, Line, Way, closure

from tmapad import NoDerivativeError, NoTangent, Tangent, ZeroTangent, derivative, partials, register, rrule, tmap

X = np.array([0.5, -1.25, 3.0])
DY = np.array([1.0, 10.0, -2.0])
every_way = pytest.mark.parametrize("way", WAYS, ids=IDS)
no = NoTangent()


def entry(df: Any, path: str) -> Any:
    for name in path.split("."):
        assert list(df) == [name]
        df = df[name]
    return df


@pytest.mark.parametrize("residuals", ["save", "recompute"])
@every_way
def test_df(way: Way, residuals: str) -> None:
    f, _ = way.make(2.5)
    y, back = rrule(tmap, f, X, wrt=(0, way.path), residuals=residuals)
    np.testing.assert_array_equal(y, 2.5 * X + 1)
    for _ in range(2):
        first, df, dx = back(DY)
        assert first is no
        got = entry(df, way.path)
        assert type(got) is np.float64
        np.testing.assert_allclose(got, X @ DY, rtol=1e-15)
        np.testing.assert_array_equal(dx, 2.5 * DY)


@every_way
def test_what_is_differentiated_without_being_named(way: Way) -> None:
    f, _ = way.make(2.5)
    _, df, dx = rrule(tmap, f, X)[1](DY)
    np.testing.assert_array_equal(dx, 2.5 * DY)
    if way.constant:
        assert df is no
    else:
        np.testing.assert_allclose(entry(df, way.path), X @ DY, rtol=1e-15)


@every_way
def test_wrt(way: Way) -> None:
    f, _ = way.make(2.5)
    assert rrule(tmap, f, X, wrt=0)[1](DY)[1] is no
    assert rrule(tmap, f, X, wrt=())[1](DY)[1:] == (no, no)
    _, df, dx = rrule(tmap, f, X, wrt=way.path)[1](DY)
    assert dx is no
    np.testing.assert_allclose(entry(df, way.path), X @ DY, rtol=1e-15)
    with pytest.raises(
        ValueError, match=rf"wrt names 'z'; \S+ captured '{way.path}' \(arguments are named by position"
    ):
        rrule(tmap, f, X, wrt="z")


@pytest.mark.parametrize(
    ("value", "char"),
    [(2.5, "d"), (np.float32(2.5), "f"), (np.float16(2.5), "e"), (np.array(2.5), "d"), (2.5 + 1j, "D"),
     (np.complex64(1j), "F")],
    ids=repr,
)  # fmt: skip
@every_way
def test_types(way: Way, value: Any, char: str) -> None:
    f, _ = way.make(value)
    y, back = rrule(tmap, f, X, wrt=way.path)
    _, df, _ = back(DY.astype(y.dtype))
    got = entry(df, way.path)
    assert got.dtype.char == char
    np.testing.assert_allclose(got, X @ DY)


@pytest.mark.parametrize("value", [3, True, np.int64(3), np.array(3)], ids=repr)
@every_way
def test_integers_and_bools_are_constants(way: Way, value: Any) -> None:
    f, _ = way.make(value)
    _, df, dx = rrule(tmap, f, X)[1](DY)
    assert df is no
    np.testing.assert_array_equal(dx, int(value) * DY)


@every_way
def test_a_pullback_keeps_the_values_of_its_forward_pass(way: Way) -> None:
    f, rebind = way.make(2.5)
    for residuals in ("recompute", "save"):
        f = rebind(2.5)
        _, back = rrule(tmap, f, X, residuals=residuals)
        later = rebind(7.0)
        np.testing.assert_array_equal(back(DY)[2], 2.5 * DY)
        np.testing.assert_array_equal(rrule(tmap, later, X)[1](DY)[2], 7.0 * DY)


@pytest.mark.parametrize("nothing", [NoTangent(), ZeroTangent()])
def test_nothing_comes_back(nothing: Any) -> None:
    _, back = rrule(tmap, closure(2.0)[0], X)
    assert back(nothing) == (no, nothing, nothing)


def test_several_captures_at_several_depths() -> None:
    a, b, n, label = 2.0, np.float32(3.0), 4, "x"

    def power(x: float) -> float:
        return x**n * b

    def helper(y: float) -> float:
        return power(y) + a * len(label)

    f = lambda x: helper(x) * a  # noqa: E731
    _, df, dx = rrule(tmap, f, X)[1](DY)
    assert df == Tangent(
        a=float(DY @ (3 * X**4 + 2.0)),
        helper=Tangent(a=float(2 * DY.sum()), power=Tangent(b=np.float32(2 * DY @ X**4))),
    )
    assert type(df.helper.power.b) is np.float32
    assert repr(df).startswith("Tangent(a=np.float64(")
    np.testing.assert_allclose(dx, DY * 2 * 4 * X**3 * 3)
    _, df, dx = rrule(tmap, f, X, wrt=("helper.power.b", 0))[1](DY)
    assert list(df) == ["helper"]
    assert list(df.helper) == ["power"]


def test_the_one_that_it_began_with() -> None:
    def gradient(a: float) -> float:
        _, back = rrule(tmap, lambda z: z / a, np.arange(1.0, 4.0))
        _, df, _ = back(np.ones(3))
        return df.a  # type: ignore[no-any-return]

    for a in (1.0, 2.0, 5.0):
        assert gradient(a) == pytest.approx(-6 / a**2, rel=1e-15)


def test_two_closures_of_one_code_have_gradients_of_their_own() -> None:
    def power(p: float) -> Any:
        return lambda x: x**p

    x = np.array([1.5, 2.0])
    for _ in range(2):
        for p in (2.0, 3.5):
            _, df, dx = rrule(tmap, power(p), x)[1](np.ones(2))
            np.testing.assert_allclose(df.p, np.sum(x**p * np.log(x)))
            np.testing.assert_allclose(dx, p * x ** (p - 1))


def test_a_capture_that_is_not_reached_has_gradient_zero() -> None:
    """The parts of df are the same whatever the constants are."""
    a, flag = 2.0, False
    f = lambda x: x * a if flag else x  # noqa: E731
    assert rrule(tmap, f, X)[1](DY)[1] == Tangent(a=0.0)
    flag = True
    assert rrule(tmap, f, X)[1](DY)[1] == Tangent(a=X @ DY)


def test_strong_zero() -> None:
    a = 0.0
    x = np.array([1.0, 2.0])
    _, df, _ = rrule(tmap, lambda x: math.sqrt(a) * x, x)[1](np.array([0.0, 0.0]))
    assert df.a == 0


def test_broadcast_and_empty() -> None:
    f = closure(2.0)[0]
    assert rrule(tmap, f, np.ones((3, 0)))[1](np.ones((3, 0)))[1] == Tangent(a=0.0)
    _, df, dx = rrule(tmap, f, 3.0)[1](1.0)
    assert (df.a, dx) == (3.0, 2.0)
    _, df, dx = rrule(tmap, f, (1.0, 2.0))[1]((1.0, 1.0))
    assert (df.a, dx) == (3.0, (2.0, 2.0))
    x = np.arange(12.0).reshape(3, 4)
    assert rrule(tmap, f, x)[1](np.ones((3, 4)))[1].a == 66


def test_results_do_not_depend_on_threads() -> None:
    a = 1.5
    x = np.random.default_rng(0).normal(size=100_000)
    f = lambda x: math.sin(x * a)  # noqa: E731
    found = [rrule(tmap, f, x, num_threads=n)[1](x) for n in (1, 2, 3)]
    for _, df, dx in found[1:]:
        assert df == found[0][1]
        np.testing.assert_array_equal(dx, found[0][2])
    np.testing.assert_allclose(found[0][1].a, np.sum(x * x * np.cos(a * x)), rtol=1e-10)


def test_float32_stays_float32() -> None:
    a = 0.1
    x = X.astype("f")
    y, back = rrule(tmap, lambda x: x * a + 1.0, x)
    _, df, dx = back(np.ones(3, "f"))
    assert (y.dtype, dx.dtype, df.a.dtype) == ("f", "f", "d")
    np.testing.assert_allclose(df.a, x.sum(), rtol=1e-6)
    b = np.float64(0.1)
    y, back = rrule(tmap, lambda x: x * b, x)  # not weak: as an argument would
    assert y.dtype == "d"
    assert back(y)[2].dtype == "f"


def test_complex_functions() -> None:
    c = 0.5 - 2j
    z = np.array([1 + 1j, -2j, 3.0])
    dy = np.array([1j, 2.0, 1 - 1j])
    _, df, dz = rrule(tmap, lambda z: z * z * c, z)[1](dy)
    np.testing.assert_allclose(df.c, np.sum(np.conj(z * z) * dy))
    np.testing.assert_allclose(dz, np.conj(2 * z * c) * dy)
    _, df, _ = rrule(tmap, lambda z: abs(z * c), z)[1](np.ones(3))
    expected = np.sum(np.abs(z)) * c / abs(c)
    np.testing.assert_allclose(df.c, expected)
    a = 2.0
    _, df, _ = rrule(tmap, lambda z: z * a, z)[1](dy)
    assert type(df.a) is np.float64
    np.testing.assert_allclose(df.a, np.sum(np.conj(z) * dy).real)


def test_a_global_that_several_functions_read_is_one() -> None:
    namespace: dict[str, Any] = {"a": 2.0}
    exec("def helper(y): return y * a\ndef f(x): return helper(x) * a", namespace)
    _, df, _ = rrule(tmap, namespace["f"], X, wrt="a")[1](DY)
    np.testing.assert_allclose(df.a, np.sum(DY * X * 2 * 2.0))


def test_a_method_and_its_argument_of_one_name() -> None:
    class Scaled:
        a = 2.0

        def f(self, x: float, a: float) -> float:
            return x * self.a + a

    f = functools.partial(Scaled().f, a=5.0)
    y, back = rrule(tmap, f, X)
    np.testing.assert_array_equal(y, 2 * X + 5)
    _, df, _ = back(DY)
    assert df == Tangent({"a": DY.sum(), "self": Tangent(a=X @ DY)})


def test_only_attributes_that_are_named_are_captured() -> None:
    line = Line(2.0, 3.0, unused=[1.0])
    line.another = 5.0  # type: ignore[attr-defined]
    _, df, _ = rrule(tmap, line.f, X)[1](DY)
    assert df == Tangent(a=X @ DY, b=DY.sum())


def test_objects_that_share_an_object() -> None:
    inner = Line(2.0, 3.0)
    f = lambda x: inner.f(x) + inner.a  # noqa: E731
    _, df, _ = rrule(tmap, f, X)[1](DY)
    assert df == Tangent(inner=Tangent(a=X @ DY + DY.sum(), b=DY.sum()))


def test_several_outputs() -> None:
    a = 2.0
    (y, z), back = rrule(tmap, lambda x: (x * a, x + a), X)
    np.testing.assert_array_equal(y, 2 * X)
    np.testing.assert_array_equal(z, X + 2)
    _, df, dx = back((DY, np.ones(3)))
    np.testing.assert_allclose(df.a, X @ DY + 3)
    np.testing.assert_allclose(dx, 2 * DY + 1)


def test_registered_functions_that_captured() -> None:
    """Their derivative in what they captured is not known, but their derivatives may capture as well."""
    a = 2.0
    f = register(lambda x: x * x * a, derivative=lambda x: 2 * x * a, name="f")
    for a in (2.0, 3.0):
        np.testing.assert_array_equal(tmap(f, X), X * X * a)
        for residuals in ("save", "recompute"):
            _, df, dx = rrule(tmap, f, X, wrt=0, residuals=residuals)[1](DY)
            np.testing.assert_array_equal(dx, DY * (2 * X * a))
            assert df is no
    with pytest.raises(
        NoDerivativeError,
        match=r"f captured a, in which its derivative is not known: make it an argument and bind that with "
        r"functools.partial, or leave it out: rrule\(..., wrt=\(0,\)\)",
    ):
        rrule(tmap, f, X)
    with pytest.raises(NoDerivativeError, match="f captured a, in which its derivative is not known"):
        rrule(tmap, f, X, wrt="a")


def test_a_global_of_a_registered_function_is_a_constant() -> None:
    namespace: dict[str, Any] = {"a": 2.0}
    exec("def f(x): return x * a\ndef df(x): return a", namespace)
    f = register(namespace["f"], derivative=namespace["df"])
    for a in (2.0, 5.0):
        namespace["a"] = a
        _, df, dx = rrule(tmap, f, X)[1](DY)
        assert df is no
        np.testing.assert_array_equal(dx, a * DY)


def test_derivatives_from_output_that_capture() -> None:
    a = 2.0
    f = register(lambda x: math.exp(a * x), derivative_from_output=lambda y, x: a * y)
    for a in (2.0, 0.5):
        _, _, dx = rrule(tmap, f, X, wrt=0)[1](DY)
        np.testing.assert_allclose(dx, DY * a * np.exp(a * X), rtol=1e-14)


def test_derivatives_of_functions_that_captured() -> None:
    a = 2.0
    f = lambda x: a * x**3  # noqa: E731
    for a in (2.0, 3.0):
        np.testing.assert_allclose(tmap(derivative(f), X), 3 * a * X**2)
        _, df, dx = rrule(tmap, derivative(f), X)[1](DY)
        np.testing.assert_allclose(dx, DY * 6 * a * X)
        np.testing.assert_allclose(df.a, DY @ (3 * X**2))
        _, df, dx = rrule(tmap, derivative(derivative(f)), X)[1](DY)
        np.testing.assert_allclose(dx, DY * 6 * a)
        np.testing.assert_allclose(df.a, DY @ (6 * X))
    line = Line(2.0)
    np.testing.assert_array_equal(tmap(derivative(line.f), X), 2.0)
    np.testing.assert_array_equal(tmap(derivative(functools.partial(lambda x, a: a * x, a=3.0)), X), 3.0)


def test_partials() -> None:
    a, b = 2.0, 3.0
    helper = lambda y: y * b  # noqa: E731
    y, derivatives = partials(lambda x: helper(x) * a, X, wrt=("helper.b", "a", 0))
    np.testing.assert_array_equal(y, 6 * X)
    dx, df = derivatives
    np.testing.assert_array_equal(dx, 6.0)
    np.testing.assert_array_equal(df.a, 3 * X)
    np.testing.assert_array_equal(df.helper.b, 2 * X)


def test_threads() -> None:
    wrong = []

    def work(k: int) -> None:
        a = float(k)
        for _ in range(20):
            _, df, dx = rrule(tmap, lambda x: x * x * a, X)[1](DY)
            if df.a != np.sum(X * X * DY) or not np.array_equal(dx, DY * 2 * X * a):
                wrong.append((k, df, dx))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_functions_without_source_text() -> None:
    namespace: dict[str, Any] = {}
    exec("def make(a):\n    return lambda x: x * a\n", namespace)
    _, df, _ = rrule(tmap, namespace["make"](2.0), X)[1](DY)
    assert df == Tangent(a=X @ DY)
    assert sys.modules[__name__].__name__ not in namespace

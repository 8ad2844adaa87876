"""NoTangent, ZeroTangent, Tangent, Thunk: identity, arithmetic, access by name, resolved once."""

import copy
import gc
import operator
import pickle
import threading
import weakref

import numpy as np
import pytest

from tmapad import NoTangent, Tangent, Thunk, ZeroTangent, unthunk
from tmapad._tangents import NO_TANGENT, ZERO_TANGENT

ZEROS = pytest.mark.parametrize("zero", [NoTangent, ZeroTangent])

COPIES = pytest.mark.parametrize(
    "again",
    [copy.copy, copy.deepcopy, *(lambda x, p=p: pickle.loads(pickle.dumps(x, p)) for p in range(6))],
    ids=["copy", "deepcopy", *(f"pickle{p}" for p in range(6))],
)

VALUES = pytest.mark.parametrize(
    "x",
    [2, 2.5, 1 - 2j, np.float32(3), np.complex64(1j), np.array(4.0), np.arange(3.0), (1.0,), Tangent(a=1.0)],
    ids=lambda x: type(x).__name__,
)


# NoTangent and ZeroTangent


@ZEROS
def test_there_is_one(zero):
    assert zero() is zero()
    assert zero().__class__ is zero


def test_the_two_differ_and_have_a_short_name():
    assert NoTangent() is NO_TANGENT
    assert ZeroTangent() is ZERO_TANGENT
    assert NO_TANGENT != ZERO_TANGENT
    assert len({NO_TANGENT, ZERO_TANGENT, NoTangent()}) == 2


@ZEROS
@COPIES
def test_a_copy_is_the_one(zero, again):
    assert again(zero()) is zero()
    assert again([zero()])[0] is zero()


@ZEROS
def test_is_false_and_shows_how_to_make_it(zero):
    assert not zero()
    assert repr(zero()) == f"{zero.__name__}()"


@ZEROS
def test_cannot_be_changed(zero):
    with pytest.raises(AttributeError, match="'a'"):
        zero().a = 1
    with pytest.raises(TypeError, match="positional argument"):
        zero(1)


@ZEROS
@VALUES
def test_adding_it_changes_nothing(zero, x):
    assert zero() + x is x
    assert x + zero() is x
    assert x - zero() is x


@ZEROS
def test_subtracting_from_it_negates(zero):
    x = np.array([1.0, -2.0])
    assert np.array_equal(zero() - x, -x)
    assert zero() - 2.5 == -2.5
    assert -zero() is zero()


@ZEROS
@VALUES
def test_a_product_is_the_zero_again(zero, x):
    assert zero() * x is zero()
    assert x * zero() is zero()


# As in ChainRulesCore: NoTangent wins sums, ZeroTangent wins products.
@pytest.mark.parametrize(
    ("operation", "winner"),
    [(operator.add, NO_TANGENT), (operator.sub, NO_TANGENT), (operator.mul, ZERO_TANGENT)],
    ids=["add", "sub", "mul"],
)
def test_of_both(operation, winner):
    assert operation(NO_TANGENT, ZERO_TANGENT) is winner
    assert operation(ZERO_TANGENT, NO_TANGENT) is winner


@ZEROS
@pytest.mark.parametrize("operation", [operator.add, operator.sub, operator.mul])
def test_of_one_with_itself(zero, operation):
    assert operation(zero(), zero()) is zero()


@ZEROS
def test_sum_of_many(zero):
    assert sum([zero(), 1.5, zero(), 2.0]) == 3.5


@ZEROS
def test_an_array_is_not_filled_with_objects(zero):
    x = np.arange(3.0)
    assert (x == zero()) is False
    with pytest.raises(TypeError, match="does not support ufuncs"):
        np.add(x, zero())


# Tangent


def make():
    return Tangent(a=1.5, b=np.array([1.0, 2.0]), inner=Tangent(c=2.0), n=NoTangent())


def test_parts_by_name():
    df = make()
    assert df.a == df["a"] == 1.5
    assert df.b is df["b"]
    assert df.inner.c == 2.0
    assert list(df) == ["a", "b", "inner", "n"]
    assert len(df) == 4
    assert "a" in df
    assert 1.5 not in df
    assert {"a", "inner", "_asdict"} <= set(dir(df))
    assert not Tangent()


def test_asdict_is_new_every_time():
    df = make()
    parts = df._asdict()
    assert list(parts) == list(df)
    assert parts["b"] is df.b
    parts["a"] = 0.0
    assert df.a == 1.5


def test_mapping_is_copied_and_keywords_add_to_it():
    values = {"helper.a": 1.0, "values": 2.0}
    df, more = Tangent(values), Tangent(values, values=2.5, self=3.0)
    values["helper.a"] = 0.0
    assert df["helper.a"] == more["helper.a"] == 1.0
    assert (df.values, more.values) == (2.0, 2.5)
    assert more.self == 3.0


@pytest.mark.parametrize("name", ["_asdict", "_values", "__len__", "__array_ufunc__", "__class__"])
def test_names_of_the_class_are_reached_by_item(name):
    df = Tangent({name: 1.25, "a": 2.0})
    assert df[name] == 1.25
    assert df.a == 2.0
    assert df._asdict() == {name: 1.25, "a": 2.0}
    assert len(df) == 2
    assert pickle.loads(pickle.dumps(df)) == df


MISSING = "this Tangent has no part 'z'; it has 'a', 'b', 'inner', 'n'"


def test_missing_name():
    with pytest.raises(AttributeError, match=f"^{MISSING}$") as error:
        make().z  # noqa: B018
    assert error.value.name == "z"
    with pytest.raises(KeyError) as error:
        make()["z"]
    assert error.value.args == (MISSING,)
    with pytest.raises(AttributeError, match="no part 'z'; it has none"):
        Tangent().z  # noqa: B018
    assert getattr(make(), "z", None) is None


def test_cannot_be_changed_by_name():
    df = make()
    with pytest.raises(AttributeError, match=r"^'a' of a Tangent cannot be set; make another: Tangent\("):
        df.a = 2.0
    with pytest.raises(AttributeError, match=r"^'a' of a Tangent cannot be deleted; make another from df"):
        del df.a
    with pytest.raises(TypeError, match="item assignment"):
        df["a"] = 2.0
    df.__init__()
    assert df == make()
    with pytest.raises(TypeError, match="unhashable"):
        hash(df)


EQUAL = [
    (Tangent(a=1.0, b=2.0), Tangent(b=2.0, a=1.0)),
    (Tangent(a=1.0), Tangent(a=np.float32(1.0))),
    (Tangent(a=1.0), Tangent(a=np.array(1.0))),
    (Tangent(a=np.arange(3.0)), Tangent(a=np.arange(3))),
    (Tangent(a=Tangent(b=np.ones(2))), Tangent(a=Tangent(b=np.ones(2)))),
    (Tangent(a=(1.0, np.ones(2))), Tangent(a=(1.0, np.ones(2)))),
    (Tangent(a=NoTangent()), Tangent(a=NoTangent())),
    (Tangent(), Tangent({})),
]
UNEQUAL = [
    (Tangent(a=1.0), Tangent(a=np.nextafter(1.0, 2.0))),
    (Tangent(a=1.0), Tangent(b=1.0)),
    (Tangent(a=1.0), Tangent(a=1.0, b=1.0)),
    (Tangent(a=np.ones(2)), Tangent(a=np.ones((2, 1)))),
    (Tangent(a=np.ones(1)), Tangent(a=1.0)),
    (Tangent(a=np.array([1.0, 2.0])), Tangent(a=np.array([1.0, 3.0]))),
    (Tangent(a=np.array(1.0)), Tangent(a=NoTangent())),
    (Tangent(a=np.ones(2)), Tangent(a=NoTangent())),
    (Tangent(a=NoTangent()), Tangent(a=ZeroTangent())),
    (Tangent(a=(1.0, np.ones(2))), Tangent(a=(1.0, np.zeros(2)))),
    (Tangent(a=(1.0,)), Tangent(a=(1.0, 2.0))),
    (Tangent(a=float("nan")), Tangent(a=float("nan"))),
    (Tangent(a=np.array([np.nan])), Tangent(a=np.array([np.nan]))),
    (Tangent(a=1.0), {"a": 1.0}),
    (Tangent(a=1.0), np.array(["a"])),
]


@pytest.mark.parametrize(("left", "right"), EQUAL, ids=repr)
def test_equal(left, right):
    assert (left == right) is True
    assert (right == left) is True
    assert (left != right) is False


@pytest.mark.parametrize(("left", "right"), UNEQUAL, ids=repr)
def test_unequal_exactly_and_as_a_bool(left, right):
    assert (left == right) is False
    assert (right == left) is False
    assert (left != right) is True


def test_numpy_does_not_take_the_names_for_numbers():
    with pytest.raises(TypeError, match="unsupported operand"):
        np.float64(2.0) * make()
    with pytest.raises(TypeError, match="unsupported operand"):
        np.ones(4) - make()


@COPIES
def test_copies_are_equal(again):
    df = make()
    copied = again(df)
    assert type(copied) is Tangent
    assert copied == df
    assert copied.n is NoTangent()


def test_only_a_deep_copy_copies_arrays():
    df = make()
    assert copy.copy(df).b is df.b
    assert copy.deepcopy(df).b is not df.b


def test_repr_shows_the_parts():
    assert repr(make()) == "Tangent(a=1.5, b=array([1., 2.]), inner=Tangent(c=2.0), n=NoTangent())"
    assert repr(Tangent()) == "Tangent()"


# Thunk


@pytest.mark.parametrize("x", [1.5, None, "text", NO_TANGENT, np.arange(2), Tangent(a=1.0)], ids=repr)
def test_unthunk_leaves_anything_else(x):
    assert unthunk(x) is x


def test_resolved_once_and_not_before():
    calls = []
    thunk = Thunk(lambda: calls.append(1) or np.arange(3.0))
    assert calls == []
    value = unthunk(thunk)
    assert unthunk(thunk) is value
    assert calls == [1]


def test_thunk_of_a_thunk():
    assert unthunk(Thunk(lambda: Thunk(lambda: 2.5))) == 2.5


def test_resolved_once_by_many_threads():
    calls, values = [], []
    start = threading.Barrier(8)
    inside = threading.Event()

    def function():
        calls.append(1)
        # Stays in here for a moment, so that the others arrive before there is a value.
        inside.wait(0.05)
        return object()

    thunk = Thunk(function)

    def resolve():
        start.wait()
        values.append(unthunk(thunk))

    threads = [threading.Thread(target=resolve) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert calls == [1]
    assert len(values) == 8
    assert len(set(map(id, values))) == 1


def test_an_exception_is_passed_on_and_not_remembered():
    calls = []

    def function():
        calls.append(1)
        if len(calls) < 3:
            raise ArithmeticError(f"call {len(calls)}")
        return 2.5

    thunk = Thunk(function)
    for count in (1, 2):
        with pytest.raises(ArithmeticError, match=f"^call {count}$"):
            unthunk(thunk)
    assert unthunk(thunk) == 2.5


def test_a_thunk_that_needs_itself_is_an_error_and_does_not_hang():
    thunk = Thunk(lambda: unthunk(thunk))
    with pytest.raises(RecursionError):
        unthunk(thunk)


def test_lets_go_of_the_function():
    class Function:
        def __call__(self):
            return 1.0

    function = Function()
    gone = weakref.ref(function)
    thunk = Thunk(function)
    del function
    gc.collect()
    assert gone() is not None
    unthunk(thunk)
    gc.collect()
    assert gone() is None


def test_function_must_be_callable():
    with pytest.raises(TypeError, match=r"^Thunk: function is 1.5, must be callable without arguments; a"):
        Thunk(1.5)


def test_repr_of_a_thunk_does_not_resolve_it():
    thunk = Thunk(print)
    assert repr(thunk) == "Thunk(<built-in function print>)"
    thunk = Thunk(lambda: 1.5)
    unthunk(thunk)
    assert repr(thunk) == "Thunk(resolved: 1.5)"

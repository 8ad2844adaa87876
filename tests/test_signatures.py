"""Signatures: which are read, how, and which are refused with what reason."""

import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tmapad._errors import SignatureError
from tmapad._signatures import NUMBERS, Signature, accept, parse

DOUBLE_COMPLEX = "__pyx_t_double_complex"

# Text, and what it is: type, inputs, outputs through pointers, what follows.
ACCEPTED = [
    ("double (double)", "d", 1, 0, ""),
    ("float (float)", "f", 1, 0, ""),
    ("double (double, double, double, double, double, double)", "d", 6, 0, ""),
    ("double (double, void *)", "d", 1, 0, "void *"),
    ("double (double, const void *user_data)", "d", 1, 0, "void *"),
    ("double (double, int __pyx_skip_dispatch)", "d", 1, 0, "int"),
    ("void (double, double *, double *)", "d", 1, 2, ""),
    ("void (double const , double *, double *, void *)", "d", 1, 2, "void *"),
    ("void (double, double *restrict y)", "d", 1, 1, ""),
    (f"{DOUBLE_COMPLEX} ({DOUBLE_COMPLEX}, int __pyx_skip_dispatch)", "D", 1, 0, "int"),
    ("__pyx_t_float_complex (__pyx_t_float_complex)", "F", 1, 0, ""),
    ("double complex (double complex)", "D", 1, 0, ""),
    ("double _Complex (complex double, _Complex double)", "D", 2, 0, ""),
    ("float complex (float _Complex z)", "F", 1, 0, ""),
    ("npy_double (npy_float64, double)", "d", 2, 0, ""),
    ("npy_cdouble (npy_complex128)", "D", 1, 0, ""),
    ("npy_cfloat (npy_complex64)", "F", 1, 0, ""),
    ("__pyx_t_5numpy_float64_t (__pyx_t_5numpy_float64_t, npy_float64)", "d", 2, 0, ""),
    ("__pyx_t_5numpy_float32_t (npy_float32)", "f", 1, 0, ""),
    ("const double f(const double x, volatile double y)", "d", 2, 0, ""),
    ("  double(double,double)\t", "d", 2, 0, ""),
    ("double\n(\n  double x,\n  double y\n)", "d", 2, 0, ""),
]

# Text, and the reason that is given.
REFUSED = [
    ("", "no C signature"),
    ("double", "no C signature"),
    ("double (double", "no C signature"),
    ("double double)", "no C signature"),
    (")double (", "no C signature"),
    ("(double)", "no C signature"),
    ("double ((double))", "no C signature"),
    ("double (double) nogil", "no C signature"),
    ("double (double (*)(double))", "no C signature"),
    ("gamma", "no C signature"),
    ("double ()", "takes no numbers"),
    ("double (void)", "takes no numbers"),
    ("double (void *)", "takes no numbers"),
    ("double (int __pyx_skip_dispatch)", "takes no numbers"),
    ("void (double *)", "takes no numbers"),
    ("double (double, double, double, double, double, double, double)", "takes 7 numbers"),
    ("double (int)", "'int' is not one of the accepted types"),
    ("double (double, int)", "'int' is not one of the accepted types"),
    ("double (double, int n)", "'int' is not one of the accepted types"),
    ("double (int __pyx_skip_dispatch, double)", "'int __pyx_skip_dispatch' can only be its last argument"),
    ("double (double, int *__pyx_skip_dispatch)", "is not one of the accepted types"),
    ("double (void *, double)", "'void *' can only be its last argument"),
    ("double (double, void *, void *)", "'void *' can only be its last argument"),
    ("double (double, void)", "'void' is not one of the accepted types"),
    ("double (double, ...)", "is not one of the accepted types"),
    ("double (double,)", "'' is not one of the accepted types"),
    ("double (long double)", "long double is not supported"),
    ("long double (long double)", "long double is not supported"),
    ("long double (double)", "long double is not supported"),
    ("void (long double, long double *)", "long double is not supported"),
    ("long double complex (long double complex)", "long double is not supported"),
    ("int (double)", "'int' is not one of the accepted types"),
    ("double * (double)", "its result is 'double *'"),
    ("void * (double)", "its result is 'void *'"),
    ("double (float)", "not of one type: double, float"),
    ("double (double, float)", "not of one type: double, float"),
    (f"{DOUBLE_COMPLEX} (double)", "not of one type: double complex, double"),
    (f"double ({DOUBLE_COMPLEX})", "not of one type: double, double complex"),
    ("void (double, float *)", "not of one type: double, float"),
    ("void (double)", "neither returns a value nor writes one"),
    ("void (double, void *)", "neither returns a value nor writes one"),
    ("double (double, double *)", "returns a value and takes pointers too"),
    ("void (double, double *, double)", "'double' can only be its last argument"),
    ("void (double, const double *)", "'const double *' is not one of the accepted types"),
    ("void (double, double **)", "'double **' is not one of the accepted types"),
    ("void (double, double *y[2])", "is not one of the accepted types"),
    ("void (double, double[2])", "is not one of the accepted types"),
    (f"void (double{', double *' * 9})", "writes through 9 pointers"),
    ("void (double, double *, int __pyx_skip_dispatch)", "writes through pointers and takes 'int __pyx"),
    ("__pyx_t_3mod_real (__pyx_t_3mod_real)", "a typedef, and a capsule does not tell of what"),
    ("double complex complex (double)", "is not one of the accepted types"),
    ("unsigned double (double)", "is not one of the accepted types"),
    ("double (d\xf6uble)", r"'d\xf6uble' is not one of the accepted types"),
]


@pytest.mark.parametrize(("text", "char", "nin", "nout", "trailing"), ACCEPTED)
def test_accepted(text: str, char: str, nin: int, nout: int, trailing: str) -> None:
    signature = accept(parse(text), "f")
    assert (signature.char, signature.nin, signature.nout, signature.trailing) == (char, nin, nout, trailing)
    assert signature.text == text


@pytest.mark.parametrize(("text", "reason"), REFUSED)
def test_refused_with_a_reason_and_both_signatures(text: str, reason: str) -> None:
    with pytest.raises(SignatureError, match=re.escape(reason)) as caught:
        accept(parse(text), "some_function")
    message = str(caught.value)
    assert message.startswith(f"some_function has the signature {text!a}: ")
    assert "T (T, ...)                 with 1 to 6 arguments" in message
    assert "void (T, ..., T *, ...)" in message
    assert "every T is the same one of double, float, double complex and float complex" in message


def test_a_derivative_of_the_value_takes_one_more() -> None:
    text = "double (double, double, double, double, double, double, double)"
    assert accept(parse(text), "f", 7).nin == 7
    with pytest.raises(SignatureError, match="it takes 8 numbers") as caught:
        accept(parse(text.replace("(", "(double, ")), "f", 7)
    assert "with 1 to 7 arguments, which returns" in str(caught.value)
    assert "with 1 to 6 arguments, which writes" in str(caught.value)
    with pytest.raises(SignatureError, match="it takes 7 numbers"):
        accept(parse("void" + text[6:-1] + ", double *)"), "f", 7)


@pytest.mark.parametrize(
    ("text", "parameters"),
    [
        ("double (double x, double mean_motion)", ("x", "mean_motion")),
        ("double (double, double b)", ()),
        ("double (double x, double x)", ()),
        ("double (double lambda)", ()),
        ("void (double x, double *y)", ("x",)),
    ],
)
def test_names_of_parameters(text: str, parameters: tuple[str, ...]) -> None:
    assert accept(parse(text), "f").parameters == parameters


# What names are made of, in any order.
PIECES = st.sampled_from(
    [*NUMBERS, DOUBLE_COMPLEX, "long", "void", "int", "const", "*", "(", ")", ",", " ", "x", "[", "]"]
) | st.sampled_from(["__pyx_skip_dispatch", "__pyx_fuse_0", "...", "\x00", "\xe9", "\U0001f600", "\udc80"])
TEXT = st.text() | st.lists(PIECES, max_size=30).map("".join) | st.lists(PIECES, max_size=30).map(" ".join)


@given(TEXT)
@example("(" * 10_000)
@example("double" + " " * 100_000)
@example("double (" + "double, " * 20_000 + "double)")
@example("x" * 100_000 + " (double)")
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        signature = accept(parse(text), "f", 7)
    except SignatureError as error:
        message = str(error)
        assert message.isascii()
        assert len(message) < 2500
    else:
        assert signature.char in "fdFD"
        assert 1 <= signature.nin <= 7
        assert 0 <= signature.nout <= 8


NUMBER = st.sampled_from(list(NUMBERS))


def spelled(draw: Any, kind: str) -> str:
    """A way to write a type."""
    words = kind.split()
    words = draw(st.permutations([*words, *draw(st.lists(st.just("const"), max_size=1))]))
    return draw(st.sampled_from([" ", "\t ", "\n"])).join(words)


@given(st.data(), NUMBER, st.integers(1, 6), st.integers(0, 8), st.booleans(), st.booleans())
def test_every_way_to_write_a_signature(
    data: st.DataObject, kind: str, nin: int, nout: int, user_data: bool, named: bool
) -> None:
    parameters = [f"{spelled(data.draw, kind)}{f' x{i}' if named else ''}" for i in range(nin)]
    parameters += [f"{kind} *{f'y{j}' if named else ''}" for j in range(nout)]
    parameters += ["void*" if named else "void *"] * user_data
    text = f"{'void' if nout else kind} ({', '.join(parameters)})"
    expected = Signature(
        NUMBERS[kind],
        nin,
        nout,
        "void *" if user_data else "",
        tuple(f"x{i}" for i in range(nin)) if named else (),
        text,
    )
    assert accept(parse(text), "f") == expected

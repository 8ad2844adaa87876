"""rrule: look the rule of a callable up, and call it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tmapad._errors import NoRuleError

Rule = Callable[..., tuple[Any, Callable[..., Any]]]

_rules: dict[Any, Rule] = {}


def rrule(f: Callable[..., Any], /, *xs: Any, **keywords: Any) -> tuple[Any, Callable[..., Any]]:
    """Return ``f(*xs)`` and its pullback.

    Parameters
    ----------
    f : callable
        `tmap`, or any callable that a rule was registered for. ``rrule(tmap, f, *xs)`` takes the keywords of
        `tmap`, which hold for both passes (but ``out``), and ``wrt`` and ``residuals``:
    wrt : int, str or tuple of them, optional
        What to differentiate: positions of the mapped arguments, names of captured variables (``"a"``,
        ``"helper.a"``, also of globals). Everything else gets ``NoTangent()`` and costs nothing. By default all
        arguments, and all captured real and complex numbers and arrays of them.
    residuals : {"auto", "save", "recompute"}, optional
        "save" keeps the partial derivatives of the forward pass, "recompute" keeps the inputs. "auto" saves
        for ``value_and_derivative``, and for automatic derivatives of functions that contain a loop or call C
        code, and recomputes otherwise. The bits are the same. If inputs are changed between the passes, saved
        partials are those of the forward pass, recomputed ones those of the changed inputs. Partials in the
        elements of captured arrays are always recomputed; for "save" from copies of the inputs.

    Returns
    -------
    y
        The value.
    back : callable
        ``back(dy, out=None)`` returns the cotangents ``(NoTangent(), df, dx1, ..., dxk)``: of `tmap` itself,
        of what `f` captured, and of each argument. `dy` has the shape of `y`, and casts to its type. It may
        be called many times, from several threads.

    Raises
    ------
    NoRuleError
        If there is no rule for `f`.
    NoDerivativeError
        If the mapped function has no derivative in an argument that is to be differentiated.
    ValueError
        If captured arrays of more than 1024 numbers in all would be differentiated, and `wrt` does not name them.

    Notes
    -----
    The rules are those of ChainRules: the pullback of a holomorphic function is ``conj(f'(x)) * dy``; the cotangent of
    a real argument is real; where `dy` is 0 the cotangent is 0, whatever the derivative. See
    https://juliadiff.org/ChainRulesCore.jl for the mathematics.

    Examples
    --------
    >>> import numpy as np
    >>> from tmapad import rrule, tmap
    >>> y, back = rrule(tmap, np.square, np.array([1.0, 2.0, 3.0]))
    >>> back(np.ones(3))
    (NoTangent(), NoTangent(), array([2., 4., 6.]))
    """
    try:
        rule = _rules.get(f)
    except TypeError:  # not hashable
        rule = None
    if rule is None:
        name = getattr(f, "__qualname__", None) or repr(f)
        raise NoRuleError(
            f"there is no rule for {name:.80}: for a scalar function write rrule(tmap, {name:.80}, ...), "
            "or register a rule with rrule.register"
        )
    return rule(*xs, **keywords)


def register_rule(f: Callable[..., Any]) -> Callable[[Rule], Rule]:
    """Register a rule for any callable: a decorator.

    The rule is called with the arguments, not the function, and returns the value and a pullback, which gives
    the function's own cotangent first.

    Examples
    --------
    >>> import numpy as np
    >>> from tmapad import NoTangent, rrule
    >>> @rrule.register(np.cumsum)
    ... def cumsum_rule(x):
    ...     def cumsum_pullback(dy):
    ...         return NoTangent(), np.cumsum(dy[::-1])[::-1]
    ...     return np.cumsum(x), cumsum_pullback
    >>> y, back = rrule(np.cumsum, np.array([1.0, 2.0, 3.0]))
    >>> back(np.array([1.0, 0.0, 1.0]))
    (NoTangent(), array([2., 1., 1.]))
    """

    def decorator(rule: Rule) -> Rule:
        _rules[f] = rule
        return rule

    return decorator


rrule.register = register_rule  # type: ignore[attr-defined]

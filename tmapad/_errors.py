"""What can go wrong, as types. Wrong values, shapes and keywords are Python's ValueError and TypeError."""


class SignatureError(TypeError):
    """A native function does not have a signature that tmapad can call.

    Raised when a function is registered, never later: for a capsule, a ctypes or cffi pointer, a
    ``LowLevelCallable`` or a Cython function whose arguments or result are not among the accepted ones, and
    for a derivative that does not fit the function it belongs to. The message shows the signature given and
    those accepted.

    See Also
    --------
    NoDerivativeError : The function can be called, but not differentiated.
    """


class NoDerivativeError(TypeError):
    """A derivative was asked for that is neither registered nor known.

    Raised by ``rrule`` and ``frule`` before anything is computed, and only for arguments that are to be
    differentiated: those named by ``wrt``, or all of them. The message says how to register the derivative.
    An argument declared as not differentiable (``None`` in place of its derivative, or ``nondiff=``) raises
    nothing: its cotangent is ``NoTangent()``.

    See Also
    --------
    NoRuleError : The callable has no rule at all.
    """


class NoRuleError(TypeError):
    """There is no rule for a callable.

    Raised by ``rrule`` and ``frule`` for a callable that is neither one of tmapad's own, such as ``tmap``,
    nor a scalar function, nor one that a rule was registered for with ``rrule.register`` or
    ``frule.register``.

    See Also
    --------
    NoDerivativeError : There is a rule, but it lacks a derivative of the scalar function.
    """

"""The functions that a compiled one calls, as Numba knows them."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from numba.core import errors, types
from numba.core.datamodel import models
from numba.core.extending import register_model
from numba.core.registry import CPUDispatcher
from numba.core.typing.context import BaseContext

from tmapad.jit.written import Form


class Interface:
    """The parameters of a function, in the form in which Numba asks for them.

    It takes a keyword-only argument for the last one of those given by position.
    """

    def __init__(self, signature: inspect.Signature, name: str) -> None:
        self._signature, self._name = signature, name
        self.parameters: Mapping[str, inspect.Parameter] = {
            name: one.replace(kind=one.POSITIONAL_OR_KEYWORD) if one.kind is one.KEYWORD_ONLY else one
            for name, one in self._signature.parameters.items()
        }

    def bind(self, *args: Any, **kwargs: Any) -> inspect.BoundArguments:
        """Bind arguments as Python does.

        Raises
        ------
        TypingError
            They do not fit.
        """
        try:
            return self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise errors.TypingError(f"{self._name}() got other arguments than it takes: {error}") from None

    def of_method(self) -> "Interface":
        """Those without the first, of a function that is bound to an object."""
        _, *others = self._signature.parameters.values()
        return Interface(self._signature.replace(parameters=others), self._name)

    def __str__(self) -> str:
        return str(self._signature)


class Helper(CPUDispatcher):  # type: ignore[misc]
    """A function that is compiled along with what calls it. Its keyword-only arguments can be given by name."""

    def __init__(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        super().__init__(function, *args, **kwargs)
        self._compiler.pysig = Interface(inspect.signature(function), function.__name__)


class WrittenType(types.Callable, types.Opaque):  # type: ignore[misc]
    """The type of a `Written`."""

    def __init__(self, written: "Written") -> None:
        self._written = written
        super().__init__(written.name)

    @property
    def key(self) -> Any:
        """No two are of one type."""
        return id(self._written)

    def get_call_type(self, context: BaseContext, args: Any, kws: Any) -> Any:
        """Type a call: of what is written for these types, or of what Numba has."""
        kws = dict(kws)
        function = self._written.function_for(args, kws)
        if function is not None:
            called = types.Dispatcher(self._written.compiled(function))
        else:
            called = context.resolve_value_type(self._written.value)
        typed = called.get_call_type(context, args, kws)
        if typed is not None:
            self._written.called[typed.as_function()] = called
        return typed

    def get_call_signatures(self) -> Any:
        """The interface of a callable."""
        return [], True

    def get_impl_key(self, typed: Any) -> Any:
        """The interface of a callable."""
        return self._written.called[typed].get_impl_key(typed)


register_model(WrittenType)(models.OpaqueModel)


class Written:
    """What stands in the place of a function that is written in Python, depending on the types it is called with.

    Parameters
    ----------
    value : callable
        The function.
    form : callable
        See `written`.
    compiled : callable
        Makes a dispatcher of a Python function.

    Attributes
    ----------
    called : dict
        What was called, by Numba's signature.
    """

    def __init__(self, value: Any, form: Form, compiled: Callable[[Any], Any]) -> None:
        self.value, self.form, self.compiled = value, form, compiled
        self.name = getattr(value, "__name__", str(value))
        self.called: dict[Any, Any] = {}
        self._numba_type_ = WrittenType(self)

    def function_for(self, args: Any, kws: Any) -> Any:
        """The Python function for arguments of these types; None if Numba's own will do."""
        try:
            inspect.signature(self.form).bind(*args, **kws)
        except TypeError as error:
            raise errors.TypingError(f"{self.name}() got other arguments than it takes: {error}") from None
        return self.form(*args, **kws)

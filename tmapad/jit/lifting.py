"""Captured variables in Numba's compilation: what is read of them, at any depth, and how.

The functions that Numba compiles get other globals and other closure cells: in the place of a captured number or array
stands a `Reader`, and in the place of a module or an object, of which attributes are read, a `Space`. A pass over the
untyped IR replaces readers by calls; attributes are looked up when types are known, wherever the object was handed.
"""

import itertools
import weakref
from collections.abc import Callable
from types import CellType, FunctionType, ModuleType
from types import MethodType as BoundMethod
from typing import Any

import numpy as np
from llvmlite import ir as llvmir
from numba.core import cgutils, errors, ir, postproc, types
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.extending import intrinsic, lower_getattr_generic, models, register_model
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.np.arrayobj import make_array, populate_array
from numba.np.numpy_support import from_dtype

from tmapad.jit.captures import CaptureType, symbols
from tmapad.jit.references import ATTRIBUTE, CELL, CONTAINERS, GLOBAL, MODULE, Reference, References, python_code_of
from tmapad.jit.scalar import llvm_type

_SERIALS = itertools.count()
_CONSTANTS = (type(None), bool, int, str)
_NOT_READ = (
    "{what} is of type {type}: what is read of an object must be a number, an array of numbers, a string, a tuple of "
    "these, a function or another such object"
)


class ReaderType(types.Opaque):  # type: ignore[misc]
    """The type of a `Reader`: which capture it reads, and of what type that is."""

    def __init__(self, number: int, kind: CaptureType) -> None:
        self.number, self.kind = number, kind
        super().__init__(f"capture {number} of {kind}")

    @property
    def value_type(self) -> Any:
        """What is read, as Numba's type."""
        element = from_dtype(np.dtype(self.kind.char))
        if self.kind.ndim is None:
            return element
        return types.Array(element, self.kind.ndim, "C", readonly=True)


class Reader:
    """What stands in the place of a captured value."""

    def __init__(self, number: int, kind: CaptureType) -> None:
        self._numba_type_ = ReaderType(number, kind)


class SpaceType(types.Callable, types.Opaque):  # type: ignore[misc]
    """The type of one `Space`, which knows what there is to know of it: it has no value."""

    def __init__(self, space: "Space", serial: int, path: str) -> None:
        self._space, self._serial = weakref.ref(space), serial
        super().__init__(path)

    @property
    def key(self) -> Any:
        """No two spaces are of one type."""
        return self._serial

    def member(self, name: str) -> Any:
        """The type of an attribute."""
        return self._space().member(name)  # type: ignore[union-attr]

    def constant(self, name: str) -> Any:
        """The value of an attribute that is a constant."""
        return self._space().constant(name)  # type: ignore[union-attr]

    def get_call_type(self, context: Any, args: Any, kws: Any) -> Any:
        """Call the object's class's ``__call__``."""
        return self.member("__call__").get_call_type(context, args, kws)

    def get_call_signatures(self) -> Any:
        """The interface of a callable."""
        return self.member("__call__").get_call_signatures()

    def get_impl_key(self, signature: Any) -> Any:
        """The interface of a callable."""
        return self.member("__call__").get_impl_key(signature)


class MethodType(types.Dispatcher):  # type: ignore[misc]
    """The type of a method that is bound to an object."""

    def __init__(self, dispatcher: Any, this: SpaceType) -> None:
        self.this = this
        super().__init__(dispatcher)

    @property
    def key(self) -> Any:
        """Of the function, and the object."""
        return super().key, self.this

    def get_call_type(self, context: Any, args: Any, kws: Any) -> Any:
        """Type the call of the function with the object as first argument."""
        typed = super().get_call_type(context, (self.this, *args), kws)
        if typed is None:
            return None
        this, *others = typed.args
        return typed.replace(args=tuple(others), recvr=this, pysig=typed.pysig.of_method())


for opaque in (ReaderType, SpaceType, MethodType):
    register_model(opaque)(models.OpaqueModel)


class Space:
    """What stands in the place of a module or an object."""

    def __init__(self, value: Any, lifting: "Lifting") -> None:
        self._value, self._lifting = value, lifting
        self._kind = MODULE if isinstance(value, ModuleType) else ATTRIBUTE
        self._path = lifting.references.path_of(value)
        self._numba_type_ = SpaceType(self, next(_SERIALS), self._path or type(value).__name__)

    def found(self, name: str) -> Reference | None:
        """What is read under a name."""
        return self._lifting.references.found(self._value, self._kind, name)

    def constant(self, name: str) -> Any:
        """What is read under a name, as it is to be compiled."""
        reference = self.found(name)
        return None if reference is None else self._lifting.compiled(reference)

    def member(self, name: str) -> Any:
        """Type of what is read under a name.

        Raises
        ------
        TypingError
            There is nothing, or nothing that can be compiled.
        """
        reference = self.found(name)
        where = f"{self._path}.{name}" if self._path else name
        what = f"the {self._kind} {where!r}"
        if reference is None:
            raise errors.TypingError(f"there is no {self._kind} {where!r}")
        value = reference.value
        if reference.capture is None:
            if isinstance(value, property):
                raise errors.TypingError(f"{what} is a property: make it a method, or store its value")
            if isinstance(value, classmethod):
                raise errors.TypingError(f"{what} is a class method: make it a function")
            if self._is_method(name, value):
                method = BoundMethod(value, self._value)
                if (registered := self._lifting.replacement(method)) is not method:
                    return self._lifting.type_of(registered)
                return MethodType(self._lifting.replacement(value), self._numba_type_)
            if isinstance(value, CONTAINERS):
                raise errors.TypingError(_NOT_READ.format(what=what, type=type(value).__name__))
        try:
            return self._lifting.type_of(self._lifting.compiled(reference))
        except (ValueError, errors.NumbaError):
            raise errors.TypingError(_NOT_READ.format(what=what, type=type(value).__name__)) from None

    def _is_method(self, name: str, value: Any) -> bool:
        return (
            self._kind == ATTRIBUTE
            and python_code_of(value) is not None
            and any(vars(cls).get(name) is value for cls in type(self._value).__mro__)
        )


class Lifting:
    """What stands for what, while one function is compiled.

    Parameters
    ----------
    references : References
    replacement : callable
        Gives what is to be called in the place of a function.
    type_of : callable
        Gives Numba's type for a constant.
    """

    def __init__(
        self, references: References, replacement: Callable[[Any], Any], type_of: Callable[[Any], Any]
    ) -> None:
        self.references, self.replacement, self.type_of = references, replacement, type_of
        self._spaces: dict[int, Space] = {}

    def space(self, value: Any) -> Space:
        """What stands for a module or an object."""
        if id(value) not in self._spaces:
            self._spaces[id(value)] = Space(value, self)
        return self._spaces[id(value)]

    def reader(self, number: int) -> Reader:
        """What stands for a captured number or array."""
        return Reader(number, self.references.captures[number].type)

    def compiled(self, reference: Reference) -> Any:
        """What stands for a value; the value itself if it is a constant."""
        value = reference.value
        if reference.capture is not None:
            return self.reader(reference.capture)
        if self.references.held(value) is not None:
            return self.space(value)
        return self.replacement(value.__func__ if isinstance(value, staticmethod) else value)

    def applied(self, function: FunctionType) -> FunctionType:
        """`function`, reading what stands for the values that it reads."""
        new = {
            kind: {
                reference.key: self.compiled(reference)
                for reference in self.references.read_by(function, kind)
                if reference.capture is not None or self.references.held(reference.value) is not None
            }
            for kind in (GLOBAL, CELL)
        }
        if not any(new.values()):
            return function
        cells = tuple(
            CellType(new[CELL][name]) if name in new[CELL] else cell
            for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        )
        copy = FunctionType(
            function.__code__,
            {**function.__globals__, **new[GLOBAL]},
            function.__name__,
            function.__defaults__,
            cells,
        )
        copy.__kwdefaults__ = function.__kwdefaults__
        copy.__module__ = function.__module__
        copy.__qualname__ = function.__qualname__
        return copy


@infer_getattr
class _SpaceAttribute(AttributeTemplate):  # type: ignore[misc]
    key = SpaceType

    def generic_resolve(self, space: SpaceType, name: str) -> Any:
        found = space.member(name)
        return found.value_type if isinstance(found, ReaderType) else found


@lower_getattr_generic(SpaceType)  # type: ignore[untyped-decorator]
def _lower_attribute(context: Any, builder: Any, space: SpaceType, _: Any, name: str) -> Any:
    found = space.member(name)
    if isinstance(found, ReaderType):
        return read_capture(context, builder, found)
    if isinstance(found, types.Dummy | types.Opaque):
        return context.get_dummy_value()
    return context.get_constant_generic(builder, found, space.constant(name))


def read_capture(context: Any, builder: Any, reader: ReaderType) -> Any:
    """Emit the calls that read a captured value, and make of it what Numba takes for one of its type."""
    parts = []
    for symbol, slot in symbols(reader.number, reader.kind):
        function_type = llvmir.FunctionType(llvm_type(llvmir, slot), [])
        function = cgutils.get_or_insert_function(builder.module, function_type, symbol)
        parts.append(builder.call(function, []))
    value_type = reader.value_type
    if isinstance(value_type, types.Complex):
        number = context.make_complex(builder, value_type)
        number.real, number.imag = parts
        return number._getvalue()
    if isinstance(value_type, types.Boolean):
        return builder.icmp_unsigned("!=", parts[0], parts[0].type(0))
    return _array(context, builder, value_type, parts) if reader.kind.ndim is not None else parts[0]


def _array(context: Any, builder: Any, array_type: Any, parts: list[Any]) -> Any:
    """A contiguous array from its address and its shape."""
    address, *shape = parts
    array = make_array(array_type)(context, builder)
    itemsize = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(array_type.dtype)))
    strides = [itemsize]
    for length in shape[:0:-1]:
        strides.insert(0, builder.mul(strides[0], length))
    data = builder.inttoptr(address, array.data.type)
    populate_array(array, data=data, shape=shape, strides=strides, itemsize=itemsize, meminfo=None)
    return array._getvalue()


@intrinsic  # type: ignore[untyped-decorator]
def _read(_: Any, reader: Any) -> Any:
    """Read a captured value."""

    def code(context: Any, builder: Any, signature: Any, __: Any) -> Any:
        return read_capture(context, builder, signature.args[0])

    return reader.value_type(reader), code


@register_pass(mutates_CFG=False, analysis_only=False)
class LiftCaptures(FunctionPass):  # type: ignore[misc]
    """Read captured numbers and arrays by calls. Runs before branches on constants are cut off."""

    _name = "tmapad_lift_captures"

    def __init__(self) -> None:
        FunctionPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        """Replace readers, constant attributes of objects, and arguments that are constants."""
        changed = False
        for block in state.func_ir.blocks.values():
            body: list[Any] = []
            for statement in block.body:
                if isinstance(statement, ir.SetAttr) and _space_of(state, statement.target) is not None:
                    raise errors.UnsupportedError(
                        f"the attribute {statement.attr!r} cannot be set: what a function that is mapped reads stays "
                        "as it is",
                        statement.loc,
                    )
                if isinstance(statement, ir.Assign):
                    value = self._replaced(state, block, statement.value, body)
                    if value is not None:
                        _define(state.func_ir, statement, value)
                        changed = True
                body.append(statement)
            block.body = body
        if changed:
            postproc.PostProcessor(state.func_ir).run()
        return changed

    @staticmethod
    def _replaced(state: Any, block: Any, value: Any, body: list[Any]) -> Any:
        if isinstance(value, ir.Arg) and isinstance(state.args[value.index], types.Omitted):
            known = state.args[value.index].value
            lifting = state.pipeline.helpers.lifting
            if lifting is not None and lifting.references.held(known) is not None:
                known = lifting.space(known)
            return ir.FreeVar(value.index, value.name, known, value.loc)
        if isinstance(value, ir.Arg) and isinstance(state.args[value.index], ReaderType):
            reader = Reader(state.args[value.index].number, state.args[value.index].kind)
            return _call(state.func_ir, block, reader, value.loc, body)
        if isinstance(value, ir.Global | ir.FreeVar) and isinstance(value.value, Reader):
            return _call(state.func_ir, block, value.value, value.loc, body)
        if isinstance(value, ir.Expr) and value.op == "getattr":
            space = _space_of(state, value.value)
            reference = None if space is None else space.found(value.attr)
            if reference is not None and reference.capture is None and _is_constant(reference.value):
                return ir.FreeVar(0, value.attr, reference.value, value.loc)
        return None


def _is_constant(value: Any) -> bool:
    return all(map(_is_constant, value)) if type(value) is tuple else isinstance(value, _CONSTANTS)


def _space_of(state: Any, variable: Any) -> Space | None:
    """The module or object that a variable certainly is."""
    value = state.func_ir._definitions.get(variable.name, [])
    if len(value) != 1:
        return None
    (definition,) = value
    if isinstance(definition, ir.Var):
        return _space_of(state, definition)
    if isinstance(definition, ir.Arg):
        kind = state.args[definition.index]
        return kind._space() if isinstance(kind, SpaceType) else None
    if isinstance(definition, ir.Global | ir.FreeVar):
        return definition.value if isinstance(definition.value, Space) else None
    if isinstance(definition, ir.Expr) and definition.op == "getattr":
        space = _space_of(state, definition.value)
        reference = None if space is None else space.found(definition.attr)
        found = None if reference is None or space is None else space.constant(definition.attr)
        return found if isinstance(found, Space) else None
    return None


def _call(function_ir: Any, block: Any, reader: Reader, where: Any, body: list[Any]) -> Any:
    variables = []
    for name, value in (("read", _read), ("capture", reader)):
        variable = block.scope.redefine(f"${name}", where)
        statement = ir.Assign(ir.Global(name, value, where), variable, where)
        function_ir._definitions[variable.name] = [statement.value]
        body.append(statement)
        variables.append(variable)
    return ir.Expr.call(variables[0], (variables[1],), (), where)


def _define(function_ir: Any, statement: Any, value: Any) -> None:
    """Assign another value, and say so in the definitions that Numba keeps of variables."""
    definitions = function_ir._definitions[statement.target.name]
    definitions[:] = [value if old is statement.value else old for old in definitions]
    statement.value = value

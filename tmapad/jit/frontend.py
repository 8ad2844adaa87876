"""Python function and argument types -> scalar LLVM IR. Numba is imported here and in what this imports.

Numba types and lowers the function, with as little optimisation as it can be talked into. Everything the
function calls is then moved into it and its memory into registers: that is the form `ScalarIR` describes.
"""

import dis
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba.core import compiler, config, types
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target
from numba.np.numpy_support import as_dtype, from_dtype

from tmapad.jit import elementary
from tmapad.jit.canonical import canonical
from tmapad.jit.captures import Capture, all_symbols, as_arguments
from tmapad.jit.errors import compile_error, source_line
from tmapad.jit.forks import hold_over_forks
from tmapad.jit.ir import Module
from tmapad.jit.lines import places
from tmapad.jit.pipeline import Helpers
from tmapad.jit.references import References
from tmapad.jit.scalar import SCALAR, ScalarIR, always_inline, function_type, slots

_ERROR_MODELS = {"ieee": "numpy", "python": "python"}

hold_over_forks(global_compiler_lock)  # before LLVM's own lock, as when something is compiled

# Functions of Numba's run time that must not be called from a thread of a parallel map, and why.
_REFUSED = {
    "numba_get_py_random_state": "it draws random numbers, so its results would depend on the threads; "
    "draw them before and pass them as an argument",
    "numba_get_np_random_state": "it draws random numbers, so its results would depend on the threads; "
    "draw them before and pass them as an argument",
    "numba_gil_ensure": "it runs Python code (print, objmode or a Python callback), for which threads would "
    "have to wait for each other; leave that out of the function",
}

# Where a function that calls itself finds itself: a pointer, which Numba fills in when it loads the code.
_UNRESOLVED = ".numba.unresolved$"
_RECURSIVE = re.compile(rf'^(@"?{re.escape(_UNRESOLVED)})([^\s"]+)("?) = external global ptr.*$', re.MULTILINE)

# Captured arrays belong to no one that would be told how often they are referred to.
_NO_COUNT = re.compile(r"^ *call void @NRT_(?:inc|dec)ref\(ptr null\).*\n", re.MULTILINE)

# Numba compiles functions of its own as it needs them, and keeps them: these are ours, apart from those that
# it compiled at other settings.
_INTERNAL_FUNCTIONS: dict[Any, Any] = {}


@dataclass(frozen=True)
class Omitted:
    """An argument that is a constant: the default of one that the caller left out, or what was bound to it."""

    default: Any


@dataclass(frozen=True)
class Captured:
    """An argument whose value is that of a capture, given by its number."""

    number: int


@dataclass(frozen=True)
class Instance:
    """The first argument of a method."""

    value: Any


def scalar_ir(
    function: FunctionType,
    arguments: Sequence[str | Omitted | Captured | Instance],
    *,
    division: str = "ieee",
    out_char: str | None = None,
    opaque: bool = True,
    references: References | None = None,
    marks: bool = False,
) -> ScalarIR:
    """Compile a Python function for numbers of given types, as far as LLVM IR.

    Parameters
    ----------
    function : function
        All that it calls is compiled again, whatever Numba's decorators were told.
    arguments : sequence of str, Omitted, Captured or Instance
        For each parameter NumPy's character for the argument's type, or what is known of its value.
    division : {"ieee", "python"}
        Whether a division by zero gives an infinity or a NaN, or raises.
    out_char : str, optional
        What the result is converted to. Without it the function decides.
    opaque : bool
        Whether elementary functions are calls, as `elementary` says, of which a derivative can be taken.
    references : References, optional
        What the function reads. Its captures become arguments, after the others; without it they are constants.
    marks : bool
        Whether the instructions tell which lines they come from, for messages: see `lines`.

    Raises
    ------
    TypeError
        Numba cannot compile the function, or it returns something other than numbers, or it does what
        cannot be done in parallel.
    """
    captures = () if references is None else tuple(references.captures)
    return_type = None if out_char is None else from_dtype(np.dtype(out_char))
    in_chars = "".join(argument for argument in arguments if isinstance(argument, str))
    with _settings():
        helpers = Helpers(_options(division), opaque=opaque, references=references, marks=marks)
        in_types = tuple(_argument_type(argument, helpers) for argument in arguments)
        try:
            compiled = _compile(function, in_types, return_type, helpers)
        except Exception as error:
            if isinstance(error, MemoryError):
                raise
            raise compile_error(function, error) from None
        out_chars = _out_chars(function, compiled.signature.return_type)
        module = _linked(compiled, _wrapper(compiled, in_types, in_chars, captures, out_chars), helpers)
    llvm_text = as_arguments(_NO_COUNT.sub("", str(canonical(module))), captures, function.__name__)
    module = llvm.parse_assembly(llvm_text)
    if (refused := _refused_call(module)) is not None:
        if not marks:  # once more, to tell the line
            return scalar_ir(
                function,
                arguments,
                division=division,
                out_char=out_char,
                opaque=opaque,
                references=references,
                marks=True,
            )
        raise TypeError(f"{function.__name__} cannot be mapped: {_REFUSED[refused]}{_where_called(llvm_text, refused)}")
    in_chars += "".join(capture.chars for capture in captures)
    return ScalarIR(function.__name__, llvm_text, in_chars, out_chars, _can_raise(module), captures)


@contextmanager
def _settings() -> Iterator[None]:
    """Numba's settings while it compiles for us: no optimisation, no vector code, nothing kept for others."""
    with global_compiler_lock:
        config.reload_config()  # else Numba does, and takes the environment's word for what is set here
        context = cpu_target.target_context  # made now if it was not: it keeps the settings it was made with
        ours = {"OPT": type(config.OPT)(0), "LOOP_VECTORIZE": 0, "DISABLE_JIT": 0, "BOUNDSCHECK": None}
        saved = {name: getattr(config, name) for name in ours}
        internal = context.cached_internal_func
        try:
            vars(config).update(ours)
            context.cached_internal_func = _INTERNAL_FUNCTIONS
            yield
        finally:
            vars(config).update(saved)
            context.cached_internal_func = internal


def _options(division: str) -> dict[str, Any]:
    """What one would tell ``numba.njit``."""
    return {
        "nopython": True,
        "boundscheck": True,
        "error_model": _ERROR_MODELS[division],
        "no_cpython_wrapper": True,
        "no_cfunc_wrapper": True,
    }


def _argument_type(argument: str | Omitted | Captured | Instance, helpers: Helpers) -> Any:
    if isinstance(argument, str):
        return from_dtype(np.dtype(argument))
    if isinstance(argument, Omitted):
        return types.Omitted(argument.default)
    assert helpers.lifting is not None
    if isinstance(argument, Captured):
        return helpers.lifting.reader(argument.number)._numba_type_
    return helpers.lifting.space(argument.value)._numba_type_


def _compile(function: FunctionType, in_types: tuple[Any, ...], return_type: Any, helpers: Helpers) -> Any:
    """Numba's compilation without its last step, machine code."""
    flags = compiler.Flags()
    cpu_target.options.parse_as_flags(flags, helpers.options)
    flags.no_compile = True
    with helpers.compiling(function) as stripped:
        return compiler.compile_extra(
            cpu_target.typing_context,
            cpu_target.target_context,
            stripped,
            in_types,
            return_type,
            flags,
            locals={},
            pipeline_class=helpers.pipeline,
        )


def _out_chars(function: FunctionType, return_type: Any) -> str:
    """NumPy's characters for what a function returns: a number, or a tuple of numbers."""
    if isinstance(return_type, types.BaseTuple):
        parts = [types.unliteral(part) for part in return_type]
        if len(parts) > 1 and all(isinstance(part, types.Number | types.Boolean) for part in parts):
            return "".join(as_dtype(part).char for part in parts)
    elif isinstance(types.unliteral(return_type), types.Number | types.Boolean):
        return str(as_dtype(types.unliteral(return_type)).char)
    raise TypeError(
        f"{function.__name__} returns {_in_words(return_type)}; it must return a number, or a tuple of at "
        f"least two numbers for several results{source_line(function.__code__.co_filename, _only_return(function))}"
    )


def _only_return(function: FunctionType) -> int | None:
    """The line of the `return`, if there is one."""
    lines = {
        instruction.positions.lineno
        for instruction in dis.get_instructions(function)
        if instruction.opname in ("RETURN_VALUE", "RETURN_CONST") and instruction.positions is not None
    }
    return lines.pop() if len(lines) == 1 else None


def _in_words(return_type: Any) -> str:
    if isinstance(return_type, types.Optional):
        return f"{return_type.type} for some arguments and None for others"
    if return_type == types.none:
        return "None, or raises whatever it is given"
    return str(types.unliteral(return_type))


def _wrapper(
    compiled: Any, in_types: tuple[Any, ...], in_chars: str, captures: Sequence[Capture], out_chars: str
) -> Any:
    """IR of ``@scalar``: calls Numba's function in Numba's manner, with plain numbers on the outside."""
    context = compiled.target_context
    signature = compiled.signature
    module = context.create_module(SCALAR)
    all_chars = in_chars + "".join(capture.chars for capture in captures)
    wrapper = ir.Function(module, function_type(ir, all_chars, out_chars), SCALAR)
    named = list(all_symbols(captures))
    for argument, (symbol, _) in zip(wrapper.args[len(wrapper.args) - len(named) :], named, strict=True):
        argument.name = symbol
    wrapper.attributes.add("alwaysinline")
    # Numba puts stack slots at the end of the first block. They become registers only if no call is before.
    builder = ir.IRBuilder(wrapper.append_basic_block("entry"))
    builder.position_at_end(builder.branch(wrapper.append_basic_block("body")).operands[0])
    given = iter(wrapper.args)
    chars = iter(in_chars)
    values = [
        context.get_constant_undef(in_type)
        if isinstance(in_type, types.Opaque)  # known when it was compiled
        else _to_numba(context, builder, in_type, [next(given) for _ in slots(next(chars))])
        for in_type in in_types
    ]
    callee = context.declare_function(module, compiled.fndesc)
    status, result = context.call_conv.call_function(builder, callee, signature.return_type, signature.args, values)
    results = [status.code]
    if isinstance(signature.return_type, types.BaseTuple):
        for number, part in enumerate(signature.return_type):
            results += _from_numba(builder, part, builder.extract_value(result, number))
    else:
        results += _from_numba(builder, signature.return_type, result)
    returned = ir.Constant(wrapper.function_type.return_type, ir.Undefined)
    for number, value in enumerate(results):
        returned = builder.insert_value(returned, value, number)
    builder.ret(returned)
    return module


def _to_numba(context: Any, builder: Any, number_type: Any, parts: list[Any]) -> Any:
    if isinstance(number_type, types.Complex):
        value = context.get_constant_undef(number_type)
        for number, part in enumerate(parts):
            value = builder.insert_value(value, part, number)
        return value
    (value,) = parts
    if isinstance(number_type, types.Boolean):
        return builder.icmp_unsigned("!=", value, value.type(0))
    return value


def _from_numba(builder: Any, number_type: Any, value: Any) -> list[Any]:
    if isinstance(number_type, types.Complex):
        return [builder.extract_value(value, number) for number in range(2)]
    if isinstance(types.unliteral(number_type), types.Boolean):
        return [builder.zext(value, ir.IntType(8))]
    return [value]


def _linked(compiled: Any, wrapper: Any, helpers: Helpers) -> Any:
    """One module of the wrapper, the function and all it calls; only the wrapper can be seen from outside."""
    library = compiled.library
    library.add_ir_module(wrapper)
    module = library._final_module
    for callee in dict.fromkeys(library._linking_libraries):
        module.link_in(callee._get_module_for_linking(), preserve=True)
    if any(variable.name.startswith(_UNRESOLVED) for variable in module.global_variables):
        present = {function.name for function in module.functions if not function.is_declaration}
        for name, callee in helpers.compiled():
            if name not in present:
                recursive = callee._get_module_for_linking().clone()
                recursive.get_function(name).linkage = "external"  # nothing refers to it by its own name
                module.link_in(recursive)
    inlined = []
    for function in module.functions:
        if not function.is_declaration and function.name != SCALAR:
            function.linkage = "internal"
            inlined.append(function.name)
    for variable in module.global_variables:
        if not variable.is_declaration:
            variable.linkage = "internal"
    text = _RECURSIVE.sub(r'\1\2\3 = internal constant ptr @"\2"', always_inline(str(module), inlined))
    if not helpers.opaque:
        return llvm.parse_assembly(text)
    module = llvm.parse_assembly(elementary.opaque(text))
    elementary.define(module)
    return module


def _refused_call(module: Any) -> str | None:
    names = [called.name for called in module.functions if called.is_declaration]
    return next((name for name in names if name in _REFUSED), None)


def _where_called(llvm_text: str, name: str) -> str:
    """The line, to end a message with, where a function is called; empty if it is not called from ``@scalar``."""
    function = Module.read(llvm_text, SCALAR).function
    known = places(function)
    calls = (known.get(id(one)) for one in function.instructions() if one.callee == name)
    return source_line(*next((place for place in calls if place is not None), ("", None)))


def _can_raise(module: Any) -> bool:
    """Whether the status that ``@scalar`` returns can be anything but 0, as far as is seen without effort."""
    instructions = {
        instruction.name: instruction
        for block in module.get_function(SCALAR).blocks
        for instruction in block.instructions
    }
    (result,) = (one.operands for one in instructions.values() if one.opcode == "ret")
    status = _first_inserted(instructions, next(result))
    pending, seen = [status], set()
    while pending:
        value = pending.pop()
        if value.is_constant:
            if value.get_constant_value() != 0:
                return True
        elif value.name not in seen:
            seen.add(value.name)
            source = instructions.get(value.name)
            if source is None or source.opcode != "phi":
                return True
            pending += source.operands
    return False


def _first_inserted(instructions: dict[str, Any], aggregate: Any) -> Any:
    """The value at the start of a chain of insertions: those into results put the status first."""
    inserted = aggregate
    while not aggregate.is_constant:
        aggregate, inserted = instructions[aggregate.name].operands
    return inserted


def declared_types(function: FunctionType, signature: Any) -> str:
    """Types that ``numba.cfunc`` was told, in NumPy's form.

    Raises
    ------
    TypeError
        They are not all numbers.
    """
    types_ = [*signature.args, signature.return_type]
    if not all(isinstance(one, types.Number | types.Boolean) for one in types_):
        raise TypeError(
            f"{function.__name__} is declared as {signature.return_type}{signature.args}; a numba.cfunc that is "
            "mapped must take and return numbers"
        )
    *in_chars, out_char = (as_dtype(one).char for one in types_)
    return f"{''.join(in_chars)}->{out_char}"

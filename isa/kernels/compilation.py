"""Kernels from Python to machine code, with numba: the only file that loads it."""

from __future__ import annotations

from collections.abc import Sequence
from types import FunctionType
from typing import Any

from llvmlite import binding as llvm
from numba import njit, typeof
from numba.core import types
from numba.core.dispatcher import Dispatcher

from tilewright.isa.kernels.fingerprint import OPTIONS, PART
from tilewright.isa.kernels.machine_code import target_machine
from tilewright.isa.kernels.store import StoredKernel

LETTERS: dict[types.Type, str] = {types.int64: "q", types.uint64: "Q", types.boolean: "?"}
"""Results of functions, as `struct` reads them."""


def compile_kernel(function: FunctionType, symbol: str, arguments: tuple[Any, ...]) -> StoredKernel:
    """The machine code of a function for arguments like these, under the name `symbol`."""
    dispatcher = njit(**OPTIONS)(_with_parts(function, {}))
    signature = tuple(typeof(argument) for argument in arguments)
    dispatcher.compile(signature)
    [result] = dispatcher.overloads.values()
    passed = ["ptr", "ptr", *(each for argument in signature for each in _passed(argument))]
    name = result.fndesc.llvm_func_name
    module = llvm.parse_assembly(dispatcher.inspect_llvm(signature) + _entry(symbol, name, passed))
    found = [str(argument.type) for argument in module.get_function(name).arguments]
    assert found == passed, f"numba passes {found}, expected {passed}"
    for other in module.functions:  # how Python would call it, which is not done here
        if not other.is_declaration and other.name != symbol:
            other.linkage = "internal"
    _drop_unused(module)
    needed = [each.name for each in module.functions if each.is_declaration and not each.name.startswith("llvm.")]
    assert not needed, f"{symbol} calls {', '.join(needed)}"
    return StoredKernel(symbol, _letters(result.signature.return_type), target_machine().emit_object(module))


def _with_parts(function: FunctionType, parts: dict[FunctionType, Dispatcher]) -> FunctionType:
    """The function with the parts that it calls as numba's functions, of which `parts` has those so far."""
    known = dict(function.__globals__)
    for name in function.__code__.co_names:
        part = known.get(name)
        if isinstance(part, FunctionType) and hasattr(part, PART):
            if part not in parts:
                parts[part] = njit(**OPTIONS, forceinline=True)(_with_parts(part, parts))
            known[name] = parts[part]
    copy = FunctionType(function.__code__, known, function.__name__, function.__defaults__)
    copy.__module__ = function.__module__
    return copy


def _entry(symbol: str, name: str, passed: Sequence[str]) -> str:
    """A function that takes where the result goes and where all numbers stand, and passes them to numba's.

    To pass two addresses takes Python a microsecond; a hundred numbers take it fifty.
    """
    lines, arguments = [], ["ptr %result", "ptr null"]
    for at, type in enumerate(passed[2:]):
        lines += [f"%place{at} = getelementptr i64, ptr %values, i64 {at}", f"%value{at} = load i64, ptr %place{at}"]
        if type != "i64":
            lines.append(f"%as{at} = {'inttoptr' if type == 'ptr' else 'trunc'} i64 %value{at} to {type}")
        arguments.append(f"{type} %{'value' if type == 'i64' else 'as'}{at}")
    call = f'%status = call i32 @"{name}"({", ".join(arguments)})'
    body = "\n".join([*lines, call, "ret i32 %status"])
    return f'\ndefine i32 @"{symbol}"(ptr %result, ptr %values) {{\n{body}\n}}\n'


def _drop_unused(module: llvm.ModuleRef) -> None:
    passes = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(module, llvm.create_pass_builder(target_machine(), llvm.create_pipeline_tuning_options()))


def _passed(argument: types.Type) -> list[str]:
    """What is passed for an argument, in LLVM's types."""
    match argument:
        case types.Array():
            return ["ptr", "ptr", "i64", "i64", "ptr", *["i64"] * (2 * argument.ndim)]
        case types.Tuple() | types.UniTuple() | types.NamedTuple() | types.NamedUniTuple():
            return [each for of in tuple(argument) for each in _passed(of)]
        case types.Record():
            return ["ptr"]
        case types.Boolean():
            return ["i8"]
    return ["i64"]


def _letters(result: types.Type) -> str:
    """A result, as `struct` reads it: letters in order, each aligned to its size, as LLVM lays out a structure."""
    match result:
        case types.NoneType():
            return ""
        case types.Tuple() | types.UniTuple() | types.NamedTuple() | types.NamedUniTuple():
            return "".join(_letters(each) for each in tuple(result))
        case types.Literal():
            return _letters(types.unliteral(result))
    return LETTERS[result]

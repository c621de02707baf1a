"""Kernels from Python to machine code, with numba: the only file that loads it."""

from __future__ import annotations

from types import FunctionType
from typing import Any

from llvmlite import binding as llvm
from numba import njit, typeof
from numba.core import types
from numba.core.dispatcher import Dispatcher

from tilewright.isa.kernels.fingerprint import OPTIONS, PART
from tilewright.isa.kernels.machine_code import target_machine
from tilewright.isa.kernels.store import Kept

LETTERS: dict[types.Type, str] = {types.int64: "q", types.uint64: "Q", types.boolean: "?"}
"""Results of functions, as `struct` reads them."""


def compile_kernel(function: FunctionType, symbol: str, arguments: tuple[Any, ...]) -> Kept:
    """The machine code of a function for arguments like these, under the name `symbol`."""
    dispatcher = njit(**OPTIONS)(_with_parts(function, {}))
    signature = tuple(typeof(argument) for argument in arguments)
    dispatcher.compile(signature)
    [result] = dispatcher.overloads.values()
    module = llvm.parse_assembly(dispatcher.inspect_llvm(signature))
    entry = module.get_function(result.fndesc.llvm_func_name)
    for other in module.functions:  # how Python would call it, which is not done here
        if not other.is_declaration and other.name != entry.name:
            other.linkage = "internal"
    entry.name = symbol
    _drop_unused(module)
    _check(module, symbol, signature)
    return Kept(symbol, _letters(result.signature.return_type), target_machine().emit_object(module))


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


def _drop_unused(module: llvm.ModuleRef) -> None:
    passes = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(module, llvm.create_pass_builder(target_machine(), llvm.create_pipeline_tuning_options()))


def _check(module: llvm.ModuleRef, symbol: str, signature: tuple[types.Type, ...]) -> None:
    """Hold the function to what its caller assumes: the arguments that it takes, and that it needs nothing of numba."""
    found = [str(argument.type) for argument in module.get_function(symbol).arguments]
    expected = ["ptr", "ptr", *(each for argument in signature for each in _passed(argument))]
    assert found == expected, f"numba passes {found}, expected {expected}"
    needed = [each.name for each in module.functions if each.is_declaration and not each.name.startswith("llvm.")]
    assert not needed, f"{symbol} calls {', '.join(needed)}"


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

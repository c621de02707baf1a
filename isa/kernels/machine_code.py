"""Object files as functions of this process, and what processor they are for. Needs llvmlite, but not numba."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from importlib.metadata import version

from llvmlite import binding as llvm


@cache
def processor() -> str:
    """What code depends on that is not of its source: the processor, and who compiles for it."""
    features = llvm.get_host_cpu_features().flatten()
    return " ".join([llvm.get_process_triple(), llvm.get_host_cpu_name(), features, version("numba")])


@cache
def target_machine() -> llvm.TargetMachine:
    """This computer, as code that is made in memory sees it."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    is_x86 = target.name.startswith("x86")  # where code in memory cannot be independent of its position
    return target.create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=3,
        reloc="static" if is_x86 else "default",
        codemodel="jitdefault",
        jit=True,
    )


@cache
def _engine() -> llvm.ExecutionEngine:
    """Holds all code of this process."""
    return llvm.create_mcjit_compiler(llvm.parse_assembly(""), target_machine())


def function(symbol: str, code: bytes) -> Callable[[int, int], int]:
    """The function of an object file: it takes the addresses of its result and of the numbers it is called with."""
    engine = _engine()
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    made = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64, ctypes.c_int64)
    return made(engine.get_function_address(symbol))

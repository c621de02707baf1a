"""Writes a bundle: all files of a folder at once, or none."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from string import Template
from typing import Any

from numpy.typing import NDArray

from tilewright.bundle.c_text import require_name
from tilewright.bundle.network_c import (
    constants_of,
    data_source,
    network_header,
    network_source,
    ports_of,
)
from tilewright.bundle.registers_c import registers_header, registers_source
from tilewright.bundle.registers_py import program_python, registers_python
from tilewright.bundle.registers_svd import registers_svd
from tilewright.bundle.vector_c import random_inputs, vector_header, vector_source
from tilewright.errors import InputError
from tilewright.isa.program.program import Program as Binary
from tilewright.program import Program

DRIVER = Path(__file__).with_name("driver")
"""Files that are the same for every network, with `${name}` in some of them."""

MOST_SHOWN = 5


def bundle_files(
    program: Program,
    name: str,
    inputs: Mapping[str, NDArray[Any]] | None = None,
    seed: int = 0,
    data_apart: bool = False,
) -> dict[str, bytes]:
    """The files of a bundle by name.

    The test vector's inputs are the given arrays, or drawn from `seed`. With `data_apart`, program and weights are
    files that an assembler includes, not C text. Raises InputError for a network of which a part runs on the host, a
    name that C cannot have, an input or output that C cannot have, and arrays that are not the inputs'.
    """
    require_name(name)
    if program.host_nodes:
        raise InputError(_host_nodes(program))
    binary = program.binary
    ports = ports_of(binary)
    given = dict(random_inputs(binary, seed) if inputs is None else inputs)
    outputs = program.run(given).outputs
    files: dict[str, str | bytes] = {
        "tilewright_registers.h": registers_header(binary.machine),
        "tilewright_registers.c": registers_source(),
        f"{name}.h": network_header(binary, name, ports),
        f"{name}.c": network_source(binary, name, ports, not data_apart),
        "test_vector.h": vector_header(ports),
        "test_vector.c": vector_source(name, ports, given, outputs),
    }
    if data_apart:
        files[f"{name}_data.S"] = data_source(name)
        files |= {f"{name}_{what}.bin": content for what, content in constants_of(binary).items()}
    head = _head(binary)
    made = {file: text if isinstance(text, bytes) else (head + text).encode() for file, text in files.items()}
    others = {
        "tilewright.svd": registers_svd(binary.machine),
        "tilewright_registers.py": registers_python(binary.machine),
        f"{name}_program.py": program_python(binary),
    }
    return {**made, **{file: text.encode() for file, text in others.items()}, **_driver_files(name, data_apart)}


def _driver_files(name: str, data_apart: bool) -> dict[str, bytes]:
    """What is the same for every network, but for its name."""
    words = {
        "name": name,
        "NAME": name.upper(),
        "data": f" {name}_data.o" if data_apart else "",
        "sources": f"{name}.c {name}_data.S" if data_apart else f"{name}.c",
        "languages": "C ASM" if data_apart else "C",
    }
    texts = {file.name: file.read_text() for file in sorted(DRIVER.iterdir()) if file.is_file()}
    return {file: (Template(t).substitute(words) if "${" in t else t).encode() for file, t in texts.items()}


def _head(program: Binary) -> str:
    """The first line of each generated file: what made it, and of what. It is the user's to license."""
    model = program.metadata.get("model", "a program")
    made_of = "".join(c if c.isprintable() and c.isascii() else "?" for c in model).replace("*/", "* /")
    return f"/* Made by Tilewright {version('tilewright')}: {made_of} for the machine {program.machine.name}. */\n"


def _host_nodes(program: Program) -> str:
    nodes = program.host_nodes
    shown = "; ".join(f"{node.name} ({node.op_type}): {node.reason}" for node in nodes[:MOST_SHOWN])
    more = f"; and {len(nodes) - MOST_SHOWN} more" if len(nodes) > MOST_SHOWN else ""
    return (
        f"{len(nodes)} node{'s run' if len(nodes) > 1 else ' runs'} on the host, for which a bundle has no code: "
        f"{shown}{more}. Take a machine that has an instruction for it, or cut the network there"
    )

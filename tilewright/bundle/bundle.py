"""Writes a bundle: all files of a folder at once, or none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from tilewright.bundle.parts_c import CProgram, parts_header, parts_network, parts_source
from tilewright.bundle.registers_c import registers_header, registers_source
from tilewright.bundle.registers_py import program_python, registers_python
from tilewright.bundle.registers_svd import registers_svd
from tilewright.bundle.vector_c import random_inputs, vector_header, vector_source
from tilewright.isa.program.partitioned import Partitioned
from tilewright.isa.program.program import Program as Binary
from tilewright.program import Program

DRIVER = Path(__file__).with_name("driver")
"""Files that are the same for every network, with `${name}` in some of them."""

PARTS = Path(__file__).with_name("driver_parts")
"""Files of a network in parts, beside those or in place of them."""


def bundle_files(
    program: Program,
    name: str,
    inputs: Mapping[str, NDArray[Any]] | None = None,
    seed: int = 0,
    data_apart: bool = False,
) -> dict[str, bytes]:
    """The files of a bundle by name.

    The test vector's inputs are the given arrays, or drawn from `seed`. With `data_apart`, program and weights are
    files that an assembler includes, not C text. Raises InputError for a node of the host that has no C, a name that C
    cannot have, an input or output that C cannot have, and arrays that are not the inputs'.
    """
    require_name(name)
    network = program.network
    given = dict(random_inputs(network, seed) if inputs is None else inputs)
    if isinstance(network, Partitioned):
        planned = parts_network(network, name)
        ends, is_exact = planned.ends, planned.functions.is_exact
        own = {f"{name}.h": parts_header(planned), f"{name}.c": parts_source(planned)}
        parts = planned.parts
    else:
        parts = (CProgram(name, network, ports_of(network)),)
        ends, is_exact, own = parts[0].ports, True, {}
    outputs = program.run(given).outputs
    files: dict[str, str | bytes] = {
        "tilewright_registers.h": registers_header(program.machine),
        "tilewright_registers.c": registers_source(),
        **own,
        **{file: content for part in parts for file, content in _part_files(part, data_apart).items()},
        "test_vector.h": vector_header(ends, is_exact),
        "test_vector.c": vector_source(name, ends, given, outputs, is_exact),
    }
    head = _head(network)
    made = {file: text if isinstance(text, bytes) else (head + text).encode() for file, text in files.items()}
    others = {
        "tilewright.svd": registers_svd(program.machine),
        "tilewright_registers.py": registers_python(program.machine),
        **{f"{part.name}_program.py": program_python(part.program) for part in parts},
    }
    return {
        **made,
        **{file: text.encode() for file, text in others.items()},
        **_driver_files(name, [part.name for part in parts], isinstance(network, Partitioned), data_apart),
    }


def _part_files(part: CProgram, data_apart: bool) -> dict[str, str | bytes]:
    """The files of one program."""
    files: dict[str, str | bytes] = {
        f"{part.name}.h": network_header(part.program, part.name, part.ports),
        f"{part.name}.c": network_source(part.program, part.name, part.ports, not data_apart),
    }
    if data_apart:
        files[f"{part.name}_data.S"] = data_source(part.name)
        files |= {f"{part.name}_{what}.bin": content for what, content in constants_of(part.program).items()}
    return files


def _driver_files(name: str, parts: Sequence[str], is_in_parts: bool, data_apart: bool) -> dict[str, bytes]:
    """What is the same for every network, but for its name and its programs' names."""
    units = [name, *parts, "tilewright_host"] if is_in_parts else list(parts)
    data = [f"{part}_data" for part in parts] if data_apart else []
    words = {
        "name": name,
        "NAME": name.upper(),
        "objects": " ".join(f"{unit}.o" for unit in [*units, *data]),
        "sources": " ".join([*(f"{unit}.c" for unit in units), *(f"{unit}.S" for unit in data)]),
        "languages": "C ASM" if data_apart else "C",
    }
    folders = (DRIVER, PARTS) if is_in_parts else (DRIVER,)
    texts = {file.name: file.read_text() for of in folders for file in sorted(of.iterdir()) if file.is_file()}
    return {file: (Template(t).substitute(words) if "${" in t else t).encode() for file, t in texts.items()}


def _head(network: Binary | Partitioned) -> str:
    """The first line of each generated file: what made it, and of what. It is the user's to license."""
    model = network.metadata.get("model", "a program")
    made_of = "".join(c if c.isprintable() and c.isascii() else "?" for c in model).replace("*/", "* /")
    return f"/* Made by Tilewright {version('tilewright')}: {made_of} for the machine {network.machine.name}. */\n"

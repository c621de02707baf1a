"""Which parts of a pass's text belong to a layer: its operations, and the definitions that they name.

A part is a line with what is nested in it. It belongs to a layer if it is the layer's nest, cover or operation; at the
level of graphs, if it computes one of the layer's ONNX nodes. In assembly, parts are instructions.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.errors import InputError

if TYPE_CHECKING:
    from tilewright.isa.program.program import Layer

NUMBER = re.compile(r"\blayer = (\d+)")
NEST = re.compile(r'\{(?:name|nest) = "((?:[^"\\]|\\.)*)"')
NODES = re.compile(r"\bnodes = \[([^\]]*)\]")
QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
DEFINED = re.compile(r"^ *(%\S+) = ")
USED = re.compile(r"%[^\s,()]+")
SERVES = re.compile(r" layer\((\d+)\)$")

INDENT = re.compile(r"^( {2,4})(?=[%\"])")
NESTS_INSIDE = '  "nest.program"() ({'
"""The nests stand inside a selection, one step further in."""


@dataclass(frozen=True, slots=True)
class DumpPart:
    """Lines of a text; `layers`: the positions of those that it belongs to. `defines`: a name of the text, or empty."""

    text: str
    layers: frozenset[int]
    defines: str


def layer_text(parts: Sequence[DumpPart], layer: int) -> str:
    """The parts of a layer, and the definitions of the names that they use, in order."""
    own = [part for part in parts if layer in part.layers]
    used = {name for part in own for name in USED.findall(part.text)}
    return "".join(part.text for part in parts if layer in part.layers or (part.defines in used and not part.layers))


def position_of(name: str, layers: Sequence[Layer]) -> int | None:
    """The position of a layer among those of a program; None if it is in another one."""
    return next((position for position, layer in enumerate(layers) if layer.name == name), None)


def require_layer(name: str, programs: Sequence[Sequence[Layer]]) -> None:
    """Raise InputError if no program has a layer of this name."""
    names = [layer.name for layers in programs for layer in layers]
    if name not in names:
        raise InputError(f"no layer {name!r}; there are: {', '.join(names)}")


def parts_of(text: str, layers: Sequence[Layer], is_assembly: bool) -> list[DumpPart]:
    """The text cut into parts; what belongs to no part, such as the first and last line, is left out."""
    if is_assembly:
        return _instructions(text, len(layers))
    names = {layer.name: position for position, layer in enumerate(layers)}
    by_node: dict[str, set[int]] = {}
    for position, layer in enumerate(layers):
        for node in layer.nodes:
            by_node.setdefault(node, set()).add(position)
    return [
        DumpPart(part, _layers_of(part, names, by_node), match[1] if (match := DEFINED.match(part)) else "")
        for part in _cut(text)
    ]


def _cut(text: str) -> list[str]:
    """Each operation with its region: from a line at the indentation of operations to before the next one."""
    cut: list[list[str]] = []
    step = 2
    for line in text.splitlines(keepends=True):
        if line.rstrip() == NESTS_INSIDE:
            step = 4
        elif line.startswith("  })") and step == 4:
            step = 2
        elif (match := INDENT.match(line)) and len(match[1]) == step:
            cut.append([line])
        elif line.startswith("  ") and cut:
            cut[-1].append(line)
    return ["".join(lines) for lines in cut]


def _layers_of(part: str, names: dict[str, int], by_node: dict[str, set[int]]) -> frozenset[int]:
    number = NUMBER.search(part)
    if number is not None:
        return frozenset({int(number[1])})
    if "graph." not in part and "onnx." not in part:
        named = NEST.search(part)
        return frozenset({names[named[1]]} if named is not None and named[1] in names else ())
    nodes = NODES.search(part)
    found = [] if nodes is None else [node.partition(" ")[2] for node in QUOTED.findall(nodes[1])]
    return frozenset(position for node in found for position in by_node.get(node, ()))


def _instructions(text: str, count: int) -> list[DumpPart]:
    """Instructions stand below the label of the layer that they serve, or say which other one."""
    parts: list[DumpPart] = []
    above = -1
    for line in text.splitlines(keepends=True):
        if line.startswith("  "):
            other = SERVES.search(line.rstrip())
            served = int(other[1]) if other else above
            parts.append(DumpPart(line, frozenset({served} if 0 <= served < count else ()), ""))
        elif line.strip() and not line.startswith((".", "#")):
            above += 1
            parts.append(DumpPart(line, frozenset({above}), ""))
    return parts

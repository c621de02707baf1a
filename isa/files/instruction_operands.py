"""The operands of an instruction in a machine file: memories, loops and blocks, and the widths of their fields."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tilewright.isa.errors import IsaError, did_you_mean, short
from tilewright.isa.files.expression import MAX_EXPRESSION_CHARACTERS, evaluate_node
from tilewright.isa.files.instruction_context import MachineSizes
from tilewright.isa.files.keys import FIELD_BITS, OPERAND
from tilewright.isa.files.reader import ValueReader
from tilewright.isa.files.yaml_tree import Tree, Where
from tilewright.isa.language.numeric import IntegerType, parse_type
from tilewright.isa.machine.encoding import Operand
from tilewright.isa.machine.machine import Engine
from tilewright.isa.machine.memory import BYTE, BYTE_BITS, DRAM, integer_element


class OperandReader:
    """Reads operands, noting complaints in the shared reader."""

    def __init__(self, reader: ValueReader, machine: MachineSizes) -> None:
        self._reader = reader
        self._machine = machine

    def read(self, tree: Tree | None, path: str, loops: Sequence[str]) -> tuple[Operand, ...]:
        """Every operand of `from` or `to` that is right; `loops` are the names of the instruction's loops."""
        operands = []
        for name, child in self._reader.open_mapping(tree, path).items():
            operand = self._read_operand(name, child, f"{path}.{name}", loops)
            if operand is not None:
                operands.append(operand)
        return tuple(operands)

    def check_reach(
        self,
        keys: Mapping[str, Tree],
        path: str,
        engine: Engine,
        sources: Sequence[Operand],
        destinations: Sequence[Operand],
        where: Where | None,
    ) -> None:
        """Complain of operands in memories that the engine has no port to; `keys` are those of the instruction.

        `where`: the place to name; None: that of the operand.
        """
        for key, operands, reach, verb in (
            ("from", sources, engine.reads, "read"),
            ("to", destinations, engine.writes, "write"),
        ):
            for operand in operands:
                if operand.memory not in reach:
                    children = keys[key].value
                    assert isinstance(children, Mapping), "it holds the operand"
                    self._reader.complain(
                        children[operand.name].where if where is None else where,
                        f"{path}.{key}.{operand.name}",
                        f"the {engine.name} engine does not {verb} {operand.memory}; it {verb}s {', '.join(reach)}: "
                        f"add it to engines.{engine.name}.{verb}s",
                    )

    def read_widths(self, tree: Tree | None, path: str, operands: Sequence[Operand]) -> dict[str, int]:
        """Explicit widths of base and stride fields; none may be too narrow for its memory."""
        widths: dict[str, int] = {}
        if tree is None:
            return widths
        if not isinstance(tree.value, Mapping):
            self._reader.complain(tree.where, path, f"expected a mapping from field to bits, not {tree.kind}")
            return widths
        needed = self._field_bits(operands)
        for name, child in tree.value.items():
            if name not in needed:
                self._reader.complain(
                    child.where,
                    path,
                    f"unknown field {name!r}{did_you_mean(name, list(needed))}; expected {', '.join(needed)}",
                )
                continue
            bits, operand = needed[name]
            width = self._reader.integer(child, f"{path}.{name}", FIELD_BITS)
            if width < bits:
                self._reader.complain(
                    child.where,
                    f"{path}.{name}",
                    f"{width} bits are too narrow for {operand.memory}; expected at least {bits}, or leave it out",
                )
            widths[name] = max(width, bits)
        return widths

    def _field_bits(self, operands: Sequence[Operand]) -> dict[str, tuple[int, Operand]]:
        """The bits that each base and stride field needs, and the operand that it is for."""
        needed: dict[str, tuple[int, Operand]] = {}
        for operand in operands:
            address = self._machine.address_bits(operand.memory)
            needed[f"{operand.name}.base"] = (address, operand)
            needed.update({f"{operand.name}.{loop}": (address + 1, operand) for loop in operand.loops})
        return needed

    def _read_operand(self, name: str, tree: Tree, path: str, loops: Sequence[str]) -> Operand | None:
        text = self._reader.word(tree, path)
        if not isinstance(tree.value, str):
            return None
        try:
            said, element_type = _split_type(text, self._reader.types)
            place, block, over = self._parse(said, loops)
        except IsaError as error:
            self._reader.complain(tree.where, path, str(error))
            return None
        self._check_loops(tree, path, over, loops)
        places = [DRAM, *self._machine.memories]
        if place not in places:
            self._reader.complain(
                tree.where, path, f"unknown memory {place!r}{did_you_mean(place, places)}; expected {', '.join(places)}"
            )
            return None
        memory = self._machine.memories.get(place)
        if memory is not None and self._machine.is_array_known and not 1 <= block <= memory.stretch_words:
            self._reader.complain(
                tree.where,
                path,
                f"a block of {block} words; expected 1 to {memory.stretch_words}, the words of a bank of {place}",
            )
            return None
        element = memory.element if memory is not None else BYTE
        if element_type is not None:
            element = integer_element(element_type)
            if memory is None or BYTE_BITS * memory.word_bytes % element.bits:
                message = f"no word of {place} is whole {element_type}; leave out `as {element_type}`"
                self._reader.complain(tree.where, path, message)
                return None
        return Operand(name, place, tuple(loop for loop in loops if loop in over), block, element)

    def _parse(self, text: str, loops: Sequence[str]) -> tuple[str, int, list[str]]:
        """Memory, words in a block and loops strided over: of `act`, `act[]`, `act[c, x]`, `rows // lanes * act[c, x]`.

        Raises IsaError for anything else.
        """
        fault = IsaError(f"{short(text)} is not an operand; expected memory, memory[loops] or words * memory[loops]")
        if len(text) > MAX_EXPRESSION_CHARACTERS or not OPERAND.may_be(text):
            raise fault
        moving = text.strip()
        still = re.search(r"\s*\[\s*\]$", moving)
        try:
            node = ast.parse(moving[: still.start()] if still else moving, mode="eval").body
            block = 1
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
                block, node = evaluate_node(node.left, self._reader.names), node.right
            over = [] if still else list(loops)
            if isinstance(node, ast.Subscript) and not still:
                items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
                over = [item.id if isinstance(item, ast.Name) else ast.unparse(item) for item in items]
                node = node.value
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise fault from None
        if not isinstance(node, ast.Name):
            raise fault
        return node.id, block, over

    def _check_loops(self, tree: Tree, path: str, over: Sequence[str], loops: Sequence[str]) -> None:
        for loop in over:
            if loop not in loops:
                self._reader.complain(
                    tree.where,
                    path,
                    f"unknown loop {loop!r}{did_you_mean(loop, list(loops))}; expected {', '.join(loops)}",
                )
        if len(set(over)) != len(over):
            self._reader.complain(tree.where, path, "a loop is listed twice")


def _split_type(text: str, types: Mapping[str, IntegerType]) -> tuple[str, IntegerType | None]:
    """An operand without `as int4`, and that type; raises IsaError for one that there is not."""
    said, separator, name = text.rpartition(" as ")
    return (said, parse_type(name.strip(), types)) if separator else (text, None)


def with_dram_elements(operands: Sequence[Operand]) -> tuple[Operand, ...]:
    """The same operands, those in DRAM with the element of the on-chip operand at the other end."""
    on_chip = [operand.element for operand in operands if operand.memory != DRAM]
    if not on_chip:
        return tuple(operands)
    return tuple(replace(operand, element=on_chip[0]) if operand.memory == DRAM else operand for operand in operands)

"""Level 3: engine operations on buffers that have sizes and lifetimes but no addresses yet.

An operation is an ISA instruction whose bases are `buffer + offset` and whose waits are still open. Operations are in
an order that gives the right result when executed one after the other; scheduling may only overlap them. Waits count
the instructions of each engine, so that a program has a most length.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeVar, cast

from tilewright.compiler.errors import TooLong
from tilewright.isa.machine.engine import Engine
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.program import Layer, Tensor

Fact = TypeVar("Fact")
Known = TypeVar("Known")

Asked = Callable[["TileProgram"], object]
"""What is asked of a program once."""

WORKSPACE = "workspace"
"""The DRAM region for all tensors but constants, inputs and outputs. The compiler chooses their addresses."""


@dataclass(frozen=True, slots=True)
class TileBuffer:
    """A piece of memory, alive from the first operation that names it to the last.

    `place` is an on-chip memory of the machine (`size` in words) or a DRAM region (`size` in bytes). A buffer in
    `weights`, `inputs` or `outputs` stands for bytes at a fixed `offset` of that region; elsewhere `offset` is None
    and the allocator chooses. `alignment` (words or bytes): the chosen address is a multiple of it, and no
    aligned group of that many words of the buffer lies across two banks. `is_in_bank`: nor does the buffer itself.
    """

    name: str
    place: str
    size: int
    alignment: int = 1
    offset: int | None = None
    is_in_bank: bool = False


class BufferAddress(NamedTuple):
    """A place in a buffer: words on chip, bytes in DRAM. It may be negative or beyond as long as no access is."""

    buffer: str
    offset: int


class TileOperation(NamedTuple):
    """One engine operation. `fields` are instruction fields by name, without bases, regions and waits."""

    mnemonic: str
    fields: Mapping[str, int]
    bases: Mapping[str, BufferAddress]  # by operand
    layer: int  # index into the program's layers


@dataclass(frozen=True)
class TileProgram:
    """A network as engine operations; `weights` is the content of the weights region.

    `inputs` and `outputs` have their final offsets. `layers[i].first_instruction` is set at emission and 0 here.
    """

    name: str
    machine: Machine
    buffers: Mapping[str, TileBuffer]
    operations: tuple[TileOperation, ...]
    weights: bytes
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    input_bytes: int
    output_bytes: int
    layers: tuple[Layer, ...]
    remarks: Mapping[str, str] = field(default_factory=dict)  # what a user should know, by what it is about
    _of_each: dict[Asked, Sequence[object]] = field(default_factory=dict, init=False, repr=False, compare=False)
    _of_order: dict[Asked, object] = field(default_factory=dict, init=False, repr=False, compare=False)

    def of_each(self, fact: Callable[[TileProgram], Sequence[Fact]]) -> Sequence[Fact]:
        """What a function says of each operation, asked once. It must not depend on the order of the operations."""
        if fact not in self._of_each:
            self._of_each[fact] = fact(self)
        return cast(Sequence[Fact], self._of_each[fact])

    def of_order(self, fact: Callable[[TileProgram], Known]) -> Known:
        """What a function says of the operations in their order, asked once: a search orders the same ones many times.

        It must not depend on the remarks.
        """
        if fact not in self._of_order:
            self._of_order[fact] = fact(self)
        return cast(Known, self._of_order[fact])

    def with_remarks(self, remarks: Mapping[str, str]) -> TileProgram:
        """The same with further remarks, and with what is known of its operations."""
        remarked = replace(self, remarks={**self.remarks, **remarks})
        remarked._of_each.update(self._of_each)
        remarked._of_order.update(self._of_order)
        return remarked

    def in_order(self, order: Sequence[int]) -> TileProgram:
        """The same operations in another order, with what is known of each."""
        moved = replace(self, operations=tuple([self.operations[index] for index in order]))
        moved._of_each.update({fact: [known[index] for index in order] for fact, known in self._of_each.items()})
        return moved


def engines(program: TileProgram) -> list[Engine]:
    """The engine of each operation."""
    of_format = {mnemonic: format.engine for mnemonic, format in program.machine.formats.items()}
    return [of_format[operation.mnemonic] for operation in program.operations]


def forms(program: TileProgram) -> list[int]:
    """A number for each operation; those with the same number have the same mnemonic and fields."""
    numbers: dict[tuple[str, tuple[tuple[str, int], ...]], int] = {}
    known: dict[tuple[str, int], int] = {}  # by identity: the fields of operations that are alike are mostly one object
    found = []
    for mnemonic, fields, _, _ in program.operations:
        number = known.get((mnemonic, id(fields)))
        if number is None:
            number = numbers.setdefault((mnemonic, tuple(fields.items())), len(numbers))
            known[mnemonic, id(fields)] = number
        found.append(number)
    return found


def require_countable(tiles: TileProgram) -> None:
    """Raises TooLong for a program of which an engine has more instructions than a wait can count."""
    limit = tiles.machine.max_instructions_per_engine
    if all(count <= limit for count in Counter(tiles.of_each(engines)).values()):
        return
    counts = _instructions_by_layer(tiles)
    total: Counter[Engine] = Counter()
    for layer, added in zip(tiles.layers, counts, strict=True):
        total.update(added)
        engine = next((engine for engine in tiles.machine.engines.values() if total[engine] > limit), None)
        if engine is not None:
            starts, alone = tuple(_starts(tiles, counts)), _too_long_alone(tiles, counts)
            raise too_long(tiles.machine, alone or layer.name, engine, starts)


def too_long(machine: Machine, layer: str, engine: Engine, starts: Sequence[tuple[str, ...]]) -> TooLong:
    """The error for a program that becomes too long in a layer, by the instructions of an engine."""
    return TooLong(
        layer,
        f"the program has more than {machine.max_instructions_per_engine} instructions for {engine}, which "
        f"wait_bits = {machine.wait_bits} cannot count",
        "use a machine with wider wait counts",
        starts,
    )


def _instructions_by_layer(tiles: TileProgram) -> list[Counter[Engine]]:
    """How many instructions each engine has in each layer."""
    counts: list[Counter[Engine]] = [Counter() for _ in tiles.layers]
    for operation in tiles.operations:
        counts[operation.layer][tiles.machine.format(operation.mnemonic).engine] += 1
    return counts


def _too_long_alone(tiles: TileProgram, counts: Sequence[Counter[Engine]]) -> str:
    """The first layer that is too long by itself; empty if there is none."""
    limit = tiles.machine.max_instructions_per_engine
    layers = zip(tiles.layers, counts, strict=True)
    return next((layer.name for layer, own in layers if max(own.values(), default=0) > limit), "")


def _starts(tiles: TileProgram, counts: Sequence[Counter[Engine]]) -> Iterator[tuple[str, ...]]:
    """The nodes of each layer at which another program has to begin; none if a layer alone is too long."""
    limit = tiles.machine.max_instructions_per_engine
    total: Counter[Engine] = Counter()
    if any(count > limit for added in counts for count in added.values()):
        return
    for layer, added in zip(tiles.layers, counts, strict=True):
        total = total + added
        if any(count > limit for count in total.values()):
            yield tuple(str(node) for node in layer.nodes)
            total = added

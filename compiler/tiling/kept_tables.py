"""Tables that are still on chip are not loaded again.

Heads of an attention look up the same exponentials, and layers the same reciprocals. Each nest brings the tables that
it needs. Of those with the same content, this keeps the first one and its loads, where there is room for it until the
last reader is done. Example, in a memory of two tables: of `e g e g`, two heads with exponentials `e` and guesses `g`,
`e g` is left.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tilewright.compiler.tile.program import BufferAddress, TileBuffer, TileOperation
from tilewright.compiler.tiling.builder import WEIGHTS
from tilewright.isa.machine.machine import Machine


@dataclass(slots=True)
class _Table:
    """A buffer in a memory of tables: the operations that name it, first and last, and those that fill it."""

    buffer: TileBuffer
    first: int
    last: int
    loads: list[int]
    is_constant: bool = True  # nothing but loads of constants writes it


def without_second_loads(
    operations: Sequence[TileOperation], buffers: Mapping[str, TileBuffer], machine: Machine
) -> tuple[Sequence[TileOperation], Mapping[str, TileBuffer]]:
    """Operations and buffers without tables that are on chip already; the same objects if there are none."""
    instead: dict[str, str] = {}
    dropped: set[int] = set()
    if not machine.table_memories:
        return operations, buffers
    tables = _tables(operations, buffers, machine)
    for memory in machine.table_memories:
        own = [table for table in tables.values() if table.buffer.place == memory]
        for table, kept in _found_again(own, operations, buffers, machine.memories[memory].depth):
            instead[table.buffer.name] = kept.buffer.name
            dropped.update(table.loads)
    if not instead:
        return operations, buffers
    left = [_renamed(each, instead) for index, each in enumerate(operations) if index not in dropped]
    return left, {name: buffer for name, buffer in buffers.items() if name not in instead}


def _tables(
    operations: Sequence[TileOperation], buffers: Mapping[str, TileBuffer], machine: Machine
) -> dict[str, _Table]:
    """What lies in the memories of tables, by name, in the order in which operations name it first."""
    memories, found = set(machine.table_memories), dict[str, _Table]()
    written = {name: format.destination for name, format in machine.formats.items()}
    named = {name: [o for o in format.operands if o.memory in memories] for name, format in machine.formats.items()}
    for index, operation in enumerate(operations):
        for operand in named[operation.mnemonic]:
            name = operation.bases[operand.name].buffer
            table = found.setdefault(name, _Table(buffers[name], index, index, []))
            table.last = index
            if operand is written[operation.mnemonic]:
                table.loads.append(index)
                others = [base.buffer for at, base in operation.bases.items() if at != operand.name]
                table.is_constant &= bool(others) and all(buffers[other].place == WEIGHTS for other in others)
    return found


def _found_again(
    tables: Sequence[_Table], operations: Sequence[TileOperation], buffers: Mapping[str, TileBuffer], depth: int
) -> Iterator[tuple[_Table, _Table]]:
    """Tables of one memory that need no loads of their own, each with the one that is kept for it."""
    known: dict[Hashable, _Table] = {}
    alive: list[_Table] = []
    for table in tables:
        content = _content(table, operations, buffers)
        kept = known.get(content) if table.is_constant else None
        is_there = kept is not None and max(kept.loads) < table.first
        if kept is not None and is_there and _has_room(kept, table.first, alive, depth):
            kept.last = max(kept.last, table.last)
            yield table, kept
        else:
            known[content] = table
            alive.append(table)


def _content(table: _Table, operations: Sequence[TileOperation], buffers: Mapping[str, TileBuffer]) -> Hashable:
    """Equal for tables of the same words: how they are filled, and from which bytes."""
    loads = []
    for mnemonic, fields, bases, _ in (operations[index] for index in table.loads):
        places = [(operand, (buffers[base.buffer].offset or 0) + base.offset) for operand, base in bases.items()]
        loads.append((mnemonic, tuple(fields.items()), tuple(places)))
    return table.buffer.size, table.buffer.alignment, tuple(loads)


def _has_room(kept: _Table, until: int, alive: Sequence[_Table], depth: int) -> bool:
    """Whether a table fits beside all that is alive up to an operation; all of one size, so that no gaps are lost."""
    start = kept.last + 1
    beside = [other for other in alive if other is not kept and other.first < until and start <= other.last]
    if any(other.buffer.size != kept.buffer.size for other in beside):
        return False
    begins = {max(start, other.first) for other in beside}
    most = max((sum(other.first <= begin <= other.last for other in beside) for begin in begins), default=0)
    return (most + 1) * kept.buffer.size <= depth


def _renamed(operation: TileOperation, instead: Mapping[str, str]) -> TileOperation:
    """The operation with other buffers in the place of some."""
    if not any(base.buffer in instead for base in operation.bases.values()):
        return operation
    bases = {
        operand: BufferAddress(instead.get(base.buffer, base.buffer), base.offset)
        for operand, base in operation.bases.items()
    }
    return operation._replace(bases=bases)

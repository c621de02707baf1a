"""Memories of tables, which a machine's lookups read: what its instructions, of all engines, must agree on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tilewright.isa.language.operations import Op
from tilewright.isa.machine.encoding import InstructionFormat
from tilewright.isa.machine.memory import Memory
from tilewright.isa.templates.table import facet_of
from tilewright.isa.timing import in_pipeline, operator_starts


def table_violations(formats: Sequence[InstructionFormat], memories: Mapping[str, Memory]) -> Iterator[tuple[str, str]]:
    """(mnemonic, what is wrong) of instructions that cannot share a memory with the lookups in it."""
    first: dict[str, tuple[InstructionFormat, int]] = {}
    for format in formats:
        starts = operator_starts(in_pipeline(format.statement.expr), format.engine.pipeline) if format.tables else {}
        for node, stage in starts.items():
            if node.op is not Op.LUT:
                continue
            name = format.operand(node.name).memory
            other, other_stage = first.setdefault(name, (format, stage))
            if memories[name].banks != 1:
                yield format.mnemonic, f"{name} has {memories[name].banks} banks; a memory of tables has 1"
            if stage != other_stage:
                yield (
                    format.mnemonic,
                    f"looks up in {name} at stage {stage}, {other.mnemonic} at stage {other_stage}; {name} gives each "
                    "lane one element a cycle: put one of the tables into a memory of its own",
                )
    for format in formats:
        reads = [*format.streams, *([format.destination] if facet_of(format.engine.template).adds_in_memory else [])]
        for operand in reads:
            if operand.memory in first:
                yield (
                    format.mnemonic,
                    f"reads {operand.memory} as {operand.name}, but it is a memory of tables: "
                    f"{first[operand.memory][0].mnemonic} looks up in it, and nothing else can read it",
                )

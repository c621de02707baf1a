"""What a memory with one port a bank, or with its words spread over banks, can serve: what instructions ask of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tilewright.isa.machine.encoding import InstructionFormat
from tilewright.isa.machine.engine import Template
from tilewright.isa.machine.memory import Memory
from tilewright.isa.templates.systolic import systolic_weights
from tilewright.isa.templates.table import facet_of


def memory_port_violations(
    formats: Sequence[InstructionFormat], memories: Mapping[str, Memory]
) -> Iterator[tuple[str, str]]:
    """(mnemonic, what is wrong) of instructions whose accesses a memory's ports or banks cannot serve."""
    for format in formats:
        for table in format.tables:
            if memories[table.memory].has_one_port:
                yield format.mnemonic, f"looks up in {table.memory} in any cycle: a memory of tables needs ports: 2"
        yield from _blocks_over_banks(format, memories)
        if format.engine.template is Template.SYSTOLIC:
            sums = memories[format.destination.memory]
            if sums.has_one_port and sums.name == systolic_weights(format).memory:
                yield (
                    format.mnemonic,
                    f"{format.engine} reads its weights and writes its sums in {sums.name}, and asks for neither; "
                    "it needs ports: 2, or a memory for each",
                )


def _blocks_over_banks(format: InstructionFormat, memories: Mapping[str, Memory]) -> Iterator[tuple[str, str]]:
    whole = {*format.tables, facet_of(format.engine.template).row_by_row(format)}
    for operand in format.operands:
        memory = memories.get(operand.memory)
        if memory and memory.is_interleaved and operand.block > 1 and operand not in whole:
            yield (
                format.mnemonic,
                f"moves {operand.block} words of {operand.name} at once, but the words of {memory.name} are "
                "interleaved: expected one word; give it interleave: none, or words as wide as its blocks",
            )

"""Memories that engines cannot share: an array never asks for the ports of its sums and weights, it takes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilewright.isa.machine.encoding import InstructionFormat
from tilewright.isa.machine.engine import Engine, Template
from tilewright.isa.templates.systolic import systolic_weights


def shared_ports(formats: Sequence[InstructionFormat]) -> Iterator[tuple[str, str]]:
    """(mnemonic, what is wrong) of arrays that would take the same port in one cycle, and of shared tables."""
    owners: dict[tuple[str, str], Engine] = {}
    for format in formats:
        if format.engine.template is Template.SYSTOLIC:
            what, memories = "sums or weights", [format.destination.memory, systolic_weights(format).memory]
        else:
            what, memories = "tables", [table.memory for table in format.tables]
        for memory in dict.fromkeys(memories):
            owner = owners.setdefault((what, memory), format.engine)
            if owner is not format.engine:
                yield (
                    format.mnemonic,
                    f"{owner} and {format.engine} both have {what} in {memory}, which they read without asking; "
                    f"give {format.engine} a memory of its own",
                )

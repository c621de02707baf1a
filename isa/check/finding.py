"""What the checker finds wrong with a program: a kind, a place and a message."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from enum import Enum

from tilewright.isa.program.program import Program


class FindingCode(Enum):
    """What is wrong; the value is how reports spell it."""

    COUNT = "count"  # more instructions of an engine than wait counts can tell apart
    WAIT = "wait"  # a wait for an instruction that is not earlier: a deadlock
    ADDRESS = "address"  # an access outside an on-chip memory, or a block across two banks
    REGION = "region"  # an access outside a DRAM region, or a store into constant data
    FEEDBACK = "feedback"  # an instruction that reads what it wrote itself, or adds two sums into one word
    UNWRITTEN = "unwritten"  # a read of words that nothing has written
    RACE = "race"  # two accesses to a word that no wait puts in order
    LAYERS = "layers"  # the table of layers does not describe the instructions
    HOST = "host"  # what the host computes of a network in parts is not what its file says
    TENSOR = "tensor"  # an input or output outside its region, or an output that is never written


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault of a program: where, and what to do. `instruction` is None when it is the program's as a whole."""

    code: FindingCode
    instruction: int | None
    layer: str
    message: str

    def __str__(self) -> str:
        where = "program" if self.instruction is None else f"instruction {self.instruction}"
        layer = f" (layer {self.layer})" if self.layer else ""
        return f"{where}{layer}: {self.code.value}: {self.message}"


def program_finding(code: FindingCode, message: str) -> Finding:
    """A finding about the program as a whole."""
    return Finding(code, None, "", message)


def instruction_finding(program: Program, code: FindingCode, index: int, message: str) -> Finding:
    """A finding about an instruction, with the layer that it serves."""
    return Finding(code, index, _layer_name(program, index), message)


def _layer_name(program: Program, index: int) -> str:
    """The name of the layer that an instruction serves, or nothing."""
    if index < len(program.provenance) and 0 <= program.provenance[index] < len(program.layers):
        return program.layers[program.provenance[index]].name
    position = bisect_right(program.layers, index, key=lambda layer: layer.first_instruction)
    return program.layers[position - 1].name if position else ""

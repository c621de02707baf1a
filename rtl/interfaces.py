"""The signatures between units: instructions into engines, accesses to memory ports, faults and activity out."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Value, signed, unsigned
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out, Signature

from tilewright.isa.machine.engine import Engine
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import Memory
from tilewright.isa.timing import next_start
from tilewright.rtl.kept_bits import KeptBits

FAULT_ADDRESS_BITS = 64
FAULT_INDEX_BITS = 32


class Activity(enum.Enum, shape=3):  # type: ignore[call-arg]
    """What an engine does in a cycle, as docs/microarchitecture.md defines it; NONE: nothing in hand."""

    NONE = 0
    BUSY = 1
    STALL_PORT = 2
    STALL_DRAM = 3
    STALL_WEIGHTS = 4


def index_bits(machine: Machine) -> int:
    """Width of an instruction's index in the program, which is as long as all engines' wait counts can tell."""
    return min(FAULT_INDEX_BITS, machine.wait_bits + (len(machine.engines) - 1).bit_length())


class StartedInstruction(data.StructLayout):
    """An instruction as an engine takes it: its encoded bits and its index in the program."""

    def __init__(self, machine: Machine) -> None:
        bits = unsigned(8 * machine.longest_instruction_bytes)
        super().__init__({"bits": bits, "index": unsigned(index_bits(machine))})


class KeptInstruction(data.StructLayout):
    """An instruction as a queue keeps it: the bits that are needed behind it, and its index in the program."""

    def __init__(self, machine: Machine, kept: KeptBits) -> None:
        super().__init__({"bits": unsigned(len(kept.places)), "index": unsigned(index_bits(machine))})


def instruction_stream(machine: Machine) -> stream.Signature:
    """Instructions whose waits are satisfied; `ready` means that the engine takes the instruction in this cycle."""
    return stream.Signature(StartedInstruction(machine))


FAULT_LAYOUT = data.StructLayout(
    {"code": unsigned(4), "instruction": unsigned(FAULT_INDEX_BITS), "address": signed(FAULT_ADDRESS_BITS)}
)


class FaultSignature(Signature):
    """`valid` for a cycle with the first fault of a unit."""

    def __init__(self) -> None:
        super().__init__({"valid": Out(1), "payload": Out(FAULT_LAYOUT)})


class ReadSignature(Signature):
    """An access that reads `block` consecutive words; `data` holds them the cycle after `granted`, first word lowest.

    From the engine's side. `address` was checked by the engine; it is unsigned and in range while `valid`.
    """

    def __init__(self, memory: Memory, block: int = 1) -> None:
        super().__init__(
            {
                "valid": Out(1),
                "address": Out(unsigned(memory.address_bits)),
                "granted": In(1),
                "data": In(unsigned(8 * memory.word_bytes * block)),
            }
        )


class WriteSignature(Signature):
    """An access that writes `block` consecutive words in the cycle in which it is `granted`, first word lowest.

    With a mask, it writes those whose bit in `words` is set: the first, or several from it on.
    """

    def __init__(self, memory: Memory, block: int = 1, has_mask: bool = False) -> None:
        super().__init__(
            {
                "valid": Out(1),
                **({"words": Out(unsigned(block))} if has_mask else {}),
                "address": Out(unsigned(memory.address_bits)),
                "data": Out(unsigned(8 * memory.word_bytes * block)),
                "granted": In(1),
            }
        )


class LookupSignature(Signature):
    """Every lane reads an element of a memory of tables; `data` is for the addresses of the cycle before.

    From the engine's side; lane 0 lowest. Which words the addresses are in was checked by the engine. Where words have
    more elements than there are lanes, element l of `data` is of the word at the address of lane l % lanes. With
    `has_enable`, `data` changes only in the cycle after `enable`.
    """

    def __init__(self, memory: Memory, lanes: int, has_enable: bool = False) -> None:
        super().__init__(
            {
                **({"enable": Out(1)} if has_enable else {}),
                "address": Out(unsigned(memory.address_bits * lanes)),
                "data": In(unsigned(8 * memory.word_bytes)),
            }
        )


def takes_next(engine: Engine, is_active: Value, ends: Value) -> Value:
    """Whether an engine is free for an instruction: none is active, or in this cycle it does its last where it may.

    With `pipeline.start` it may not: then the next one starts from registers.
    """
    return ~is_active if next_start(engine.pipeline) else ~is_active | ends


def members_of(unit: wiring.Component) -> dict[str, Any]:
    """The members of a component by name, for those whose names follow from a machine."""
    return {name: getattr(unit, name) for name in unit.signature.members}


def engine_members(machine: Machine) -> dict[str, In | Out]:
    """The members that every engine has besides its memory and bus ports.

    `halt` freezes the engine: while it is set nothing is issued, granted, written or retired.
    """
    return {
        "instruction": In(instruction_stream(machine)),
        "retire": Out(1),
        "activity": Out(Activity),
        "fault": Out(FaultSignature()),
        "halt": In(1),
    }

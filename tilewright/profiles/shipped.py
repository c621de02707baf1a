"""Which shipped machines are the profiled one with more instructions, where layers hardly use the array."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.isa.files.loader import load_machine, shipped_machines
from tilewright.isa.machine.encoding import InstructionFormat
from tilewright.isa.machine.machine import Machine
from tilewright.simulator.run_profile import Resource, RunProfile
from tilewright.terminal.tables import percent

HARDLY_USED = 0.25
"""Layers that the array bounds, and that use less of it, are those that another instruction may serve better."""

WORTH_SAYING = 0.1
"""Nothing is said where they take a smaller share of the cycles."""

NAMED = 3


def with_more_instructions(machine: Machine) -> dict[str, tuple[str, ...]]:
    """Shipped machines with the same lanes, engines and memories and all instructions of `machine`: what they add."""
    found: dict[str, tuple[str, ...]] = {}
    for name in shipped_machines():
        other = load_machine(name)
        more = tuple(each for each in other.formats if each not in machine.formats)
        if more and _has_all(other, machine) and _is_as_large(machine, other):
            found[name] = more
    return found


def _has_all(other: Machine, machine: Machine) -> bool:
    """Whether a machine has each instruction of another: the name, the loops and the operands, of whatever widths."""
    return all(
        name in other.formats and _shape(other.formats[name]) == _shape(own) for name, own in machine.formats.items()
    )


def _shape(instruction: InstructionFormat) -> tuple[object, ...]:
    operands = tuple((operand.name, operand.memory) for operand in instruction.operands)
    return tuple(loop.name for loop in instruction.loops), operands


def _is_as_large(machine: Machine, other: Machine) -> bool:
    depths = {name: memory.depth for name, memory in machine.memories.items()}
    return (
        machine.lanes == other.lanes
        and machine.engines.keys() == other.engines.keys()
        and machine.products_a_cycle == other.products_a_cycle
        and all(name in other.memories and other.memories[name].depth == depth for name, depth in depths.items())
    )


def shipped_advice(profile: RunProfile, machine: Machine) -> tuple[str, ...]:
    """A possibility, and how to measure it; nothing where all layers use the array, or no machine is as this one."""
    poor = [
        one for one in profile.layers if one.bound == Resource.COMPUTE and one.macs and one.utilisation < HARDLY_USED
    ]
    cycles = sum(layer.cycles for layer in poor)
    if not profile.cycles or cycles < WORTH_SAYING * profile.cycles:
        return ()
    others = with_more_instructions(machine)
    if not others:
        return ()
    dearest = sorted(poor, key=lambda layer: -layer.cycles)[:NAMED]
    names = ", ".join(layer.name for layer in dearest) + (f" and {len(poor) - NAMED} more" if len(poor) > NAMED else "")
    added = ", ".join(f"{name} ({_listed(more)})" for name, more in others.items())
    machines = " ".join(f"--isa {name}" for name in (machine.name, *others))
    return (
        f"{percent(cycles / profile.cycles)} are in layers that leave most of the array empty: {names}. Other "
        f"shipped machines have the same array and further instructions, perhaps for such layers: {added}. To measure "
        f"what they bring: tilewright compare NET.onnx {machines} --by layer",
    )


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{len(names)} more"

"""Every proof of some machines; hardware that several machines share is proved once."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

from isa.machine import Machine
from rtl.proof.bursts import prove_bursts
from rtl.proof.datapath import datapath_key, prove_datapath
from rtl.proof.mma import mma_engine
from rtl.proof.nest import vector_addresses
from rtl.proof.queues import dispatch_key, prove_dispatch, prove_queues
from rtl.proof.result import Proof


def all_proofs(machines: Sequence[Machine]) -> Iterator[tuple[str, Proof]]:
    """(names of the machines, proof), as they are done."""
    for group in groups(machines, [datapath_key(machine) for machine in machines]):
        yield from ((names(group, machines), proof) for proof in prove_datapath(group[0]))
    for group in groups(machines, [bus_key(machine) for machine in machines]):
        for subject in (vector_addresses, mma_engine):
            yield from ((names(group, machines), proof) for proof in subject(group[0]).proofs())
        for engine in ("load", "store"):
            yield from ((names(group, machines), proof) for proof in prove_bursts(group[0], engine))
    for group in groups(machines, [dispatch_key(machine) for machine in machines]):
        proofs = [*prove_queues(group[0]), *prove_dispatch(group[0])]
        yield from ((names(group, machines), proof) for proof in proofs)


def groups(machines: Sequence[Machine], keys: Sequence[Hashable]) -> list[list[Machine]]:
    """Machines with equal keys together, in their order."""
    found: dict[Hashable, list[Machine]] = {}
    for machine, key in zip(machines, keys, strict=True):
        found.setdefault(key, []).append(machine)
    return list(found.values())


def names(group: Sequence[Machine], machines: Sequence[Machine]) -> str:
    if len(group) == len(machines) > 1:
        return f"all {len(machines)}"
    return group[0].name + (f" and {len(group) - 1} more" if len(group) > 1 else "")


def bus_key(machine: Machine) -> Hashable:
    """What the address generators and bursts of a machine depend on."""
    instructions = tuple((of.mnemonic, of.loops, of.fields, of.operands) for of in machine.formats.values())
    sizes = tuple((m.name, m.word_bytes, m.depth, m.banks) for m in machine.memories.values())
    return machine.dram, machine.instruction_bytes, sizes, instructions

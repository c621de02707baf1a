"""Every proof of some machines; hardware that several machines share is proved once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any

from tilewright.isa.machine.engine import Engine, Template
from tilewright.isa.machine.machine import Machine
from tilewright.rtl.bus import read_channels, read_clients
from tilewright.rtl.proof.array import array, reduced_arrays
from tilewright.rtl.proof.assembler import assembler
from tilewright.rtl.proof.bytes import REDUCED_WINDOWS, window
from tilewright.rtl.proof.datapath import datapath_key, prove_datapath
from tilewright.rtl.proof.engines import subjects_of
from tilewright.rtl.proof.fetch import fetch, read_channel
from tilewright.rtl.proof.ports import arbiter, memory_ports, ported_memories
from tilewright.rtl.proof.queues import (
    byte_queue,
    dispatch,
    dispatch_key,
    inner_queues,
    instruction_queues,
    shown_queue,
    shown_queues,
)
from tilewright.rtl.proof.result import Proof, Subject

Named = tuple[str, Proof]


def all_proofs(machines: Sequence[Machine]) -> Iterator[Named]:
    """(names of the machines, proof), as they are done."""
    yield from datapath_proofs(machines)
    yield from engine_proofs(machines)
    for group in groups(machines, [dispatch_key(machine) for machine in machines]):
        for subject in (*instruction_queues(group[0]), assembler(group[0]), dispatch(group[0])):
            yield from named(subject, group, machines)
    yield from shared(machines, inner_queues, byte_queue)
    yield from shared(machines, shown_queues, shown_queue)
    yield from shared(machines, lambda machine: REDUCED_WINDOWS, lambda sizes: window(*sizes))
    yield from shared(machines, reduced_arrays, lambda shape: array(*shape))
    yield from port_proofs(machines)


def datapath_proofs(machines: Sequence[Machine]) -> Iterator[Named]:
    """Those of vector engines; of engines with the same lanes, once."""
    users: dict[Hashable, dict[str, tuple[Machine, Engine]]] = {}
    for machine in machines:
        for engine in machine.of(Template.VECTOR):
            users.setdefault(datapath_key(machine, engine), {}).setdefault(machine.name, (machine, engine))
    for found in users.values():
        group, first = [machine for machine, _ in found.values()], next(iter(found.values()))
        yield from ((names(group, machines), proof) for proof in prove_datapath(*first))


def engine_proofs(machines: Sequence[Machine]) -> Iterator[Named]:
    """Address generators, bursts and everything else of the engines and the bus, for each machine of its own sizes."""
    for group in groups(machines, [bus_key(machine) for machine in machines]):
        machine = group[0]
        for engine in machine.engines.values():
            for subject in subjects_of(machine, engine):
                yield from named(subject, group, machines)
    clients = [[read_clients(machine, port) for port in read_channels(machine)] for machine in machines]
    for group in groups(machines, [(machine.dram, *own) for machine, own in zip(machines, clients, strict=True)]):
        channels = [read_channel(group[0], port) for port in read_channels(group[0])]
        for subject in (fetch(group[0]), *channels):
            yield from named(subject, group, machines)


def port_proofs(machines: Sequence[Machine]) -> Iterator[Named]:
    memories = {machine.name: ported_memories(machine) for machine in machines}
    yield from shared(
        machines,
        lambda machine: {pair for memory in memories[machine.name] for pair in memory.arbiters},
        lambda pair: arbiter(*pair),
    )
    of_key = {memory.key: memory for found in memories.values() for memory in found}
    yield from shared(
        machines,
        lambda machine: dict.fromkeys(memory.key for memory in memories[machine.name]),
        lambda key: memory_ports(of_key[key]),
    )


def named(subject: Subject, group: Sequence[Machine], machines: Sequence[Machine]) -> Iterator[Named]:
    return ((names(group, machines), proof) for proof in subject.proofs())


def shared(
    machines: Sequence[Machine], keys_of: Callable[[Machine], Iterable[Hashable]], subject: Callable[[Any], Subject]
) -> Iterator[Named]:
    """The proofs of each subject that some of the machines have, by the keys of what they have."""
    users: dict[Hashable, list[Machine]] = {}
    for machine in machines:
        for key in keys_of(machine):
            users.setdefault(key, []).append(machine)
    for key, group in users.items():
        yield from named(subject(key), group, machines)


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
    instructions = tuple(
        (of.engine.name, of.mnemonic, of.loops, of.fields, of.operands) for of in machine.formats.values()
    )
    sizes = tuple((m.name, m.word_bytes, m.depth, m.banks, m.ports, m.interleave) for m in machine.memories.values())
    engines = tuple((engine.name, engine.settings) for engine in machine.engines.values())
    return machine.dram, machine.longest_instruction_bytes, engines, sizes, instructions

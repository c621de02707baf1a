"""Memory ports: at most one requester is granted, somebody always is, nobody waits for ever; the words are right."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Sequence
from functools import partial

import z3

from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import BYTE, Memory
from tilewright.isa.machine.pipeline import Pipeline
from tilewright.isa.timing import memory_read
from tilewright.rtl.arbiter import Arbiter
from tilewright.rtl.memory import BankedMemory, Requester
from tilewright.rtl.ports import MemoryPort, built_memory, read_ports, write_ports
from tilewright.rtl.proof.engine import INDUCTIVE, claims_of_whole
from tilewright.rtl.proof.logic import all_of, any_of
from tilewright.rtl.proof.nest import bank_of
from tilewright.rtl.proof.netlist import SubmoduleNets, netlist
from tilewright.rtl.proof.numbers import number
from tilewright.rtl.proof.result import Goal, Subject


@dataclasses.dataclass(frozen=True, slots=True)
class PortedMemory:
    """A memory and who reads and writes it."""

    memory: Memory
    reads: tuple[Requester, ...]
    writes: tuple[Requester, ...]
    pipeline: Pipeline = Pipeline()  # registers before and behind its banks

    @property
    def key(self) -> Hashable:
        """Those with equal keys have the same ports, but for the width of their words."""
        memory = self.memory
        registers = memory_read(self.pipeline), self.pipeline.select
        sizes = memory.depth, memory.banks, memory.ports, memory.interleave, *registers
        return *sizes, self.reads, self.writes

    @property
    def arbiters(self) -> set[tuple[int, int]]:
        """Requesters and privileged ones of its arbiters."""
        if self.memory.has_one_port:
            privileged = sum(requester.is_privileged for requester in (*self.reads, *self.writes))
            return {(len(self.reads) + len(self.writes), privileged)}
        sides = [side for side in (self.reads, self.writes) if side]
        return {(len(side), sum(requester.is_privileged for requester in side)) for side in sides}


def ported_memories(machine: Machine) -> list[PortedMemory]:
    """Every memory of a machine with its requesters."""

    def requesters(ports: Sequence[MemoryPort], memory: Memory) -> tuple[Requester, ...]:
        return tuple(port.requester for port in ports if port.memory == memory.name)

    return [
        PortedMemory(
            built_memory(machine, memory),
            requesters(read_ports(machine), memory),
            requesters(write_ports(machine), memory),
            machine.pipeline,
        )
        for memory in machine.memories.values()
    ]


def arbiter(count: int, privileged: int) -> Subject:
    claim = {f"arbiter of {count}, {privileged} privileged": partial(_turn_goals, count, privileged)}
    return Subject(netlist(Arbiter(count, privileged)), claims_of_whole(claim))


def _turn_goals(count: int, privileged: int, nets: SubmoduleNets) -> list[Goal]:
    """Of those that ask, a privileged one, else the next in turn: each miss brings one that keeps asking nearer."""
    sharing = count - privileged

    def asks(position: int) -> z3.BoolRef:
        return z3.Extract(position, position, nets.at("requests")) == 1

    def is_granted(position: int) -> z3.BoolRef:
        return z3.Extract(position, position, nets.at("grants")) == 1

    def last(cycle: int) -> z3.BitVecRef:
        return nets.natural("last_granted", cycle) if sharing > 0 else number(0)

    def distance(turn: int, cycle: int) -> z3.BitVecRef:
        """How many others are before a turn."""
        behind = number(turn) - last(cycle) - 1
        return z3.If(z3.UGT(number(turn), last(cycle)), behind, behind + sharing)

    grants, requests = nets.at("grants"), nets.at("requests")
    favoured = any_of(*(asks(position) for position in range(privileged)))
    bound = [z3.ULT(last(0), max(1, sharing))]
    goals = [
        Goal("reset", [nets.run.starts_from_reset()], last(0) == max(0, sharing - 1)),
        Goal("turn in range", bound, z3.ULT(last(1), max(1, sharing))),
        Goal("only who asks", bound, grants & ~requests == 0),
        Goal("at most one", bound, grants & (grants - 1) == 0),
        Goal("somebody", [*bound, requests != 0], grants != 0),
    ]
    for position in range(privileged):
        first = [asks(position), *(z3.Not(asks(before)) for before in range(position))]
        goals.append(Goal("privileged", first, grants == 1 << position))
    for turn in range(sharing):
        waits = [*bound, asks(privileged + turn), z3.Not(is_granted(privileged + turn))]
        nearer = z3.ULT(distance(turn, 1), distance(turn, 0))
        goals.append(Goal("no starvation", [*waits, z3.Not(favoured)], nearer))
        goals.append(Goal("turns stay", [*waits, favoured], distance(turn, 1) == distance(turn, 0)))
    return goals


def memory_ports(ported: PortedMemory) -> Subject:
    """A memory around its banks, with words of one byte: the width of words is nowhere but in their data."""
    memory = dataclasses.replace(ported.memory, element=BYTE, width=1)
    unit = BankedMemory(memory, ported.reads, ported.writes, ported.pipeline)
    ports = _Ports(memory, ported.reads, ported.writes, ported.pipeline)
    sides = {"reads": (ported.reads, ports.read_goals), "writes": (ported.writes, ports.write_goals)}
    claims = {f"{memory.name}: {side} go to one bank each": goals for side, (ports, goals) in sides.items() if ports}
    if memory.has_one_port:
        claims[f"{memory.name}: a bank reads or writes"] = ports.access_goals
    banks = [f"bank{bank}" for bank in range(memory.banks)]
    return Subject(netlist(unit, without=banks), claims_of_whole(claims, INDUCTIVE))


@dataclasses.dataclass(frozen=True, slots=True)
class _Ports:
    """Assumed: an access that is asked for is inside one bank, as the engines' proofs say."""

    memory: Memory
    reads: tuple[Requester, ...]
    writes: tuple[Requester, ...]
    pipeline: Pipeline

    def is_at(self, nets: SubmoduleNets, port: str, bank: int) -> z3.BoolRef:
        """A port asks for words of a bank."""
        address, size = nets.natural(f"{port}__address"), self.memory.bank_depth
        inside = all_of(z3.ULE(number(bank * size), address), z3.ULT(address, (bank + 1) * size))
        if self.memory.is_interleaved:
            inside = bank_of(address, self.memory) == bank
        return all_of(nets.holds(f"{port}__valid"), z3.Not(nets.holds("halt")), inside)

    def grants(self, nets: SubmoduleNets, port: str, bank: int) -> z3.BoolRef:
        return all_of(nets.holds(f"{port}__granted"), self.is_at(nets, port, bank))

    def given(self, nets: SubmoduleNets, ports: Sequence[str]) -> list[z3.BoolRef]:
        """Addresses are in the memory, and the arbiters' turns in their range, as is proved of arbiters."""
        asked = self.all_ports if self.memory.has_one_port else ports
        inside = [z3.ULT(nets.natural(f"{port}__address"), self.memory.depth) for port in asked]
        return inside + [
            self.turn_in_range(nets, side, bank) for side in self.sides for bank in range(self.memory.banks)
        ]

    @property
    def all_ports(self) -> list[str]:
        return [f"read_{reader.name}" for reader in self.reads] + [f"write_{writer.name}" for writer in self.writes]

    @property
    def sides(self) -> dict[str, tuple[Requester, ...]]:
        if self.memory.has_one_port:
            return {"access": (*self.reads, *self.writes)}
        return {"read": self.reads, "write": self.writes}

    def turn_in_range(self, nets: SubmoduleNets, side: str, bank: int) -> z3.BoolRef:
        sharing = sum(not requester.is_privileged for requester in self.sides[side])
        turn = f"{side}_arbiter{bank}.last_granted"
        return z3.ULT(nets.natural(turn), sharing) if nets.has(turn) else z3.BoolVal(True)

    def turn_goals(self, nets: SubmoduleNets, ports: Sequence[str], bank: int) -> list[Goal]:
        """Of the ports that ask for a bank, one is granted; none that asks nowhere is."""
        given = self.given(nets, ports)
        asks = [self.is_at(nets, port, bank) for port in ports]
        granted = [self.grants(nets, port, bank) for port in ports]
        pairs = [all_of(a, b) for i, a in enumerate(granted) for b in granted[:i]]
        nowhere = all_of(*(z3.Implies(nets.holds(f"{port}__granted"), nets.holds(f"{port}__valid")) for port in ports))
        return [
            Goal("at most one", given, z3.Not(any_of(*pairs))),
            Goal("somebody", [*given, any_of(*asks)], any_of(*granted)),
            Goal("only who asks", given, nowhere),
        ]

    def access_goals(self, nets: SubmoduleNets) -> list[Goal]:
        """Of a bank with one port: one access of all that ask, a read or a write, in the order of their right to it."""
        given, goals = self.given(nets, self.all_ports), []
        first = [f"read_{reader.name}" for reader in self.reads if reader.is_privileged]
        first += [f"write_{writer.name}" for writer in self.writes]
        for bank in range(self.memory.banks):
            goals += self.turn_goals(nets, self.all_ports, bank)
            unit = nets.part(f"bank{bank}")
            both = all_of(unit.holds("read"), unit.at("write_words") != 0)
            goals.append(Goal("read or write", given, z3.Not(both)))
            for position, port in enumerate(first):
                before = [z3.Not(self.is_at(nets, other, bank)) for other in first[:position]]
                wins = [*given, *before, self.is_at(nets, port, bank)]
                goals.append(Goal("in order", wins, nets.holds(f"{port}__granted")))
        return goals

    def place(self, nets: SubmoduleNets, port: str, bank: int) -> z3.BitVecRef:
        if self.memory.is_interleaved:
            return z3.LShR(nets.natural(f"{port}__address"), self.memory.banks.bit_length() - 1)
        return nets.natural(f"{port}__address") - bank * self.memory.bank_depth

    def read_goals(self, nets: SubmoduleNets) -> list[Goal]:
        """Each bank's read port serves one reader, from the place of its word; the data come when the bank has them."""
        ports, goals = [f"read_{reader.name}" for reader in self.reads], []
        given = self.given(nets, ports)
        for bank in range(self.memory.banks):
            goals += [] if self.memory.has_one_port else self.turn_goals(nets, ports, bank)
            unit = nets.part(f"bank{bank}")
            read = memory_read(self.pipeline)
            for port in ports:
                data, comes = nets.at(f"{port}__data", read), unit.at("read_data", read - self.pipeline.select)
                same = data == z3.Extract(data.size() - 1, 0, comes)
                served = all_of(unit.holds("read"), unit.natural("read_first") == self.place(nets, port, bank), same)
                goals.append(Goal("word", [*given, self.grants(nets, port, bank)], served))
        return goals

    def written(self, nets: SubmoduleNets, writer: Requester, port: str, unit: SubmoduleNets) -> z3.BoolRef:
        """The words that a bank writes are all of the block, or those that the writer says."""
        if writer.has_mask:
            return unit.natural("write_words") == nets.natural(f"{port}__words")
        return unit.natural("write_words") == (1 << writer.block) - 1

    def write_goals(self, nets: SubmoduleNets) -> list[Goal]:
        """Each bank's write port serves one writer: all words of its block, at their place; else it writes nothing."""
        ports, goals = [f"write_{writer.name}" for writer in self.writes], []
        given = self.given(nets, ports)
        for bank in range(self.memory.banks):
            goals += [] if self.memory.has_one_port else self.turn_goals(nets, ports, bank)
            unit = nets.part(f"bank{bank}")
            nobody = z3.Not(any_of(*(self.grants(nets, port, bank) for port in ports)))
            goals.append(Goal("nothing", [*given, nobody], unit.at("write_words") == 0))
            for writer, port in zip(self.writes, ports, strict=True):
                data = nets.at(f"{port}__data")
                served = all_of(
                    self.written(nets, writer, port, unit),
                    unit.natural("write_first") == self.place(nets, port, bank),
                    data == z3.Extract(data.size() - 1, 0, unit.at("write_data")),
                )
                goals.append(Goal("word", [*given, self.grants(nets, port, bank)], served))
        return goals

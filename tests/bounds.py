"""Whether the bounds of `explore` hold: no program is faster, does fewer products, or reads fewer bytes.

python -m tests.bounds 500           # worn networks, each on a machine of its own: minutes
python -m tests.bounds 1 --first 38  # one of them again
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from tests.random_machines import random_machine
from tests.worn_networks import worn_network
from tilewright.codesign.bounds.least_cycles import least_cycles
from tilewright.codesign.bounds.needs import Needs, needs_of
from tilewright.codesign.points.evaluate import MeasuredNetwork, measure
from tilewright.codesign.points.network import Network
from tilewright.codesign.templates.vector import terms
from tilewright.compiler.arithmetic import arithmetic_of
from tilewright.isa.files.loader import load_machine, shipped_machines
from tilewright.isa.machine.engine import Template
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.program import Program
from tilewright.isa.timing import vec_beats

SMALL = ("array.rows=1", "array.cols=1", "lanes=1", "dram.bus_bytes=1")
"""Nothing of such an array and bus is ever empty, so a bound that is too high shows."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A network on a machine: what it needs, and what its programs do; nothing is done where the host does a part."""

    seed: int
    machine: str
    needs: Needs
    bound: int
    cycles: int
    products: int
    bytes_read: int

    @property
    def holds(self) -> bool:
        return (
            self.bound <= self.cycles
            and self.needs.products <= self.products
            and self.needs.weight_bytes <= self.bytes_read
        )


def trials(seeds: range) -> Iterator[Trial]:
    """Those whose network runs on their machine as a whole."""
    for seed in seeds:
        machine = machine_of(seed)
        network = Network(f"worn {seed}", worn_network(seed).SerializeToString())
        found = measure(network, machine, effort=0)
        if isinstance(found, MeasuredNetwork) and not found.host_nodes:
            yield trial(seed, network, found)


def trial(seed: int, network: Network, found: MeasuredNetwork) -> Trial:
    """What a network needs, beside what its programs do."""
    needs = needs_of(network, arithmetic_of(found.machine).weight)
    cycles, read = (
        sum(each.cycles for each in found.profiles),
        sum(each.dram_bytes.read for each in found.profiles),
    )
    products = sum(map(products_of, found.programs))
    return Trial(seed, found.machine.name, needs, least_cycles(needs, found.machine), cycles, products, read)


def machine_of(seed: int) -> Machine:
    """A shipped machine with a wide bus or small, or a random one."""
    rng = random.Random(f"bounds {seed}")
    kind = rng.randrange(4)
    if kind == 0:
        return random_machine(rng.randrange(1000))
    names = [name for name in shipped_machines() if "32" not in name]
    return load_machine(rng.choice(names), ("dram.bus_bytes=128",)) if kind == 1 else load_machine("tiny8", SMALL)


def products_of(program: Program) -> int:
    """The most products that the instructions of a program can have done."""
    machine, total = program.machine, 0
    for instruction in program.instructions:
        match instruction.engine.template:
            case Template.SYSTOLIC:
                total += prod(instruction.trips.values()) * machine.array.rows * machine.array.cols
            case Template.VECTOR:
                in_a_lane = terms(instruction.format.statement.expr)[0]
                iterations = prod(instruction.trips.values()) * vec_beats(instruction.format)
                total += iterations * machine.lanes * in_a_lane
    return total


def main() -> int:
    """Try networks one after the other; 1 if a bound does not hold."""
    parser = argparse.ArgumentParser(prog="python -m tests.bounds", description=__doc__)
    parser.add_argument("count", type=int, help="how many networks are tried")
    parser.add_argument("--first", type=int, default=0, help="the seed of the first one")
    options = parser.parse_args()
    tried, known, wrong, shares = 0, 0, 0, []
    for each in trials(range(options.first, options.first + options.count)):
        tried += 1
        known += each.bound > 0
        shares.append(each.needs.products / each.products if each.products else 0.0)
        if not each.holds:
            wrong += 1
            print(f"worn_network({each.seed}) on {each.machine}: {each}")
    print(f"{options.count} networks, {tried} as a whole on their machine, {known} with a bound: {wrong} are wrong")
    print(f"of the products that programs do, bounds count {sum(shares) / max(1, len(shares)):.0%} on average")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

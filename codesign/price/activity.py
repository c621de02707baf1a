"""Switching of mapped logic, cycle by cycle, and the energy that it takes: 64 independent runs at once, a bit each.

Gates have no delay here, so that a net switches once a cycle at most: glitches are not counted, nor are wires.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.codesign.errors import PriceError
from tilewright.codesign.price.cell_timing import Timing
from tilewright.codesign.price.process import Cell, Process
from tilewright.codesign.price.static_timing import Mapped, Net, in_order

RUNS = 64

ALL = (1 << RUNS) - 1

Stimulus = Callable[[int], Mapping[str, Sequence[int]]]
"""By cycle: for each input port, its bits, each a word of RUNS runs."""


@dataclass(frozen=True, slots=True)
class CycleEnergy:
    """Energy in pJ of one cycle of one run: of the clock's pins, and of everything that switches."""

    clock_pj: float
    switching_pj: float


class ActivityOf:
    """Simulates a module that is mapped to a process."""

    def __init__(self, module: Mapped, process: Process, timing: Timing, volts: float) -> None:
        self.module, self.timing, self.volts = module, timing, volts
        cells = {cell.name: cell for cell in process.cells}
        known = {name: facts for name, facts in module.cells.items() if facts["type"] in cells}
        if len(known) != len(module.cells):
            raise PriceError("a part whose activity is measured must be mapped as a whole")
        self.registers = [f for f in known.values() if f["type"] in process.flip_flops]
        gates = {name: f for name, f in known.items() if f["type"] not in process.flip_flops}
        self.steps = [_step(facts, cells[facts["type"]]) for facts in in_order(gates)]
        self.next_states = [_register(facts, cells[facts["type"]]) for facts in self.registers]
        self.energy_of_net = self._energies(known)
        self.clock_pj = sum(self._clock_pj(facts, cells[facts["type"]]) for facts in self.registers)

    def run(self, stimulus: Stimulus, cycles: int) -> CycleEnergy:
        """The mean over cycles, of which the first are left out: they fill the pipeline."""
        values: dict[Any, int] = {"0": 0, "1": ALL, "x": 0}
        before: dict[Any, int] = {}
        switched, counted = 0.0, 0
        for cycle in range(cycles):
            state = {net: value for take in self.next_states for net, value in take(values).items()}
            values |= state
            for port, words in stimulus(cycle).items():
                values |= dict(zip(self.module.ports[port]["bits"], words, strict=True))
            for target, function in self.steps:
                values[target] = function(values)
            if cycle >= cycles // 4:
                switched += sum(
                    energy * (values.get(net, 0) ^ before.get(net, 0)).bit_count()
                    for net, energy in self.energy_of_net.items()
                )
                counted += RUNS
            before = dict(values)
        return CycleEnergy(self.clock_pj, switched / counted)

    def _energies(self, cells: Mapping[str, Mapping[str, Any]]) -> dict[Net, float]:
        """pJ of one edge of each net: half of C·V² of the pins on it, and what these and its driver take inside."""
        energies: dict[Net, float] = {}
        for facts in cells.values():
            for pin, bits in facts["connections"].items():
                own = self.timing.pins[facts["type"], pin]
                inside = (own.rise_pj + own.fall_pj) / 2
                for net in bits:
                    if isinstance(net, int):
                        energies[net] = energies.get(net, 0.0) + inside + own.capacitance_pf * self.volts**2 / 2
        return energies

    def _clock_pj(self, facts: Mapping[str, Any], cell: Cell) -> float:
        """A cycle has both edges of the clock."""
        pins = [self.timing.pins[facts["type"], pin] for pin in cell.clocks]
        return sum(pin.rise_pj + pin.fall_pj + pin.capacitance_pf * self.volts**2 for pin in pins)


Values = Mapping[Any, int]


def _step(facts: Mapping[str, Any], cell: Cell) -> tuple[Net, Callable[[Values], int]]:
    [(pin, function)] = [(pin, of) for pin, of in cell.outputs.items() if facts["connections"].get(pin)]
    nets = {name: facts["connections"][name][0] for name in cell.inputs}
    return facts["connections"][pin][0], evaluator(function, nets)


def _register(facts: Mapping[str, Any], cell: Cell) -> Callable[[Values], dict[Net, int]]:
    """What a flip-flop holds after the clock, at each output that is used."""
    match = re.search(r"ff\((\w+),(\w+)\).* next_state=(\S+)", cell.state)
    if match is None:
        raise PriceError(f"{cell.name}: state is {cell.state!r}; expected 'ff(IQ,IQN) clocked_on=… next_state=…'")
    nets = {name: facts["connections"][name][0] for name in cell.inputs if facts["connections"].get(name)}
    following = evaluator(match[3], nets)
    outputs = [
        (facts["connections"][pin][0], function == match[2])
        for pin, function in cell.outputs.items()
        if facts["connections"].get(pin)
    ]

    def take(values: Values) -> dict[Net, int]:
        state = following(values)
        return {net: state ^ ALL if is_inverted else state for net, is_inverted in outputs}

    return take


def evaluator(function: str, nets: Mapping[str, Any]) -> Callable[[Values], int]:
    """A Liberty function of pins as one of the words on their nets. Raises PriceError for other text."""
    tokens = re.findall(r"[A-Za-z_]\w*|[01]|[!*+^&|()']", function)
    if "".join(tokens) != function.replace(" ", "") or "'" in tokens:
        raise PriceError(f"{function!r} is no function of pins; expected names, !, *, +, ^, &, | and brackets")
    words = {"!": "~", "*": "&", "+": "|", "0": "0", "1": "ALL"}
    text = "".join(f"values.get({nets[token]!r}, 0)" if token in nets else words.get(token, token) for token in tokens)
    unknown = [token for token in tokens if re.match(r"[A-Za-z_]", token) and token not in nets]
    if unknown:
        raise PriceError(f"{function!r} has {unknown[0]}, which is no pin of its cell")
    return eval(f"lambda values: ({text}) & ALL", {"ALL": ALL})  # made of the tokens above only

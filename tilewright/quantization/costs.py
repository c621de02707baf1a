"""What a network in QDQ form takes on a machine: the cycles of a run, or its energy. Choosing types asks for these."""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx

from tilewright.compiler.errors import CompileError
from tilewright.compiler.importers.input_shapes import Shapes
from tilewright.errors import InputError
from tilewright.isa.machine.machine import Machine
from tilewright.quantization.mixed import Cost, NoiseBudget, Taken

if TYPE_CHECKING:
    from tilewright.codesign.points.evaluate import MeasuredNetwork

COSTS = ("cycles", "energy")
"""What may be saved."""

MICROJOULES_IN_MJ = 1e3


def budget_of(loses_db: float, machine: Machine, cost: str = "cycles", shapes: Shapes | None = None) -> NoiseBudget:
    """How much noisier the worst output may be, and a cost: `cycles`, or `energy` in microjoules.

    Raises InputError for a budget below 0 or another cost, PriceError for a machine
    whose energy is not known.
    """
    if not loses_db >= 0:
        raise InputError(f"a budget of {loses_db:g} dB; expected 0 or more")
    if cost not in COSTS:
        raise InputError(f"no cost {cost!r}; there are: {', '.join(COSTS)}")
    found = _cycles(machine, shapes or {}) if cost == "cycles" else _energy(machine, shapes or {})
    return NoiseBudget(loses_db, found, "cycles" if cost == "cycles" else "µJ", machine.name)


def _cycles(machine: Machine, shapes: Shapes) -> Cost:
    def cost(model: onnx.ModelProto) -> Taken:
        found = _measured(model, machine, shapes)
        return Taken(float(sum(each.cycles for each in found.profiles)), len(found.host_nodes))

    return cost


def _energy(machine: Machine, shapes: Shapes) -> Cost:
    """Of memories, logic and DRAM, at the figures of the shipped process."""
    from tilewright.codesign.points.evaluate import figures
    from tilewright.codesign.points.priced import price_of

    price = price_of(machine, with_clock=False).price

    def cost(model: onnx.ModelProto) -> Taken:
        found = _measured(model, machine, shapes)
        energy = figures(found, price)
        if energy.on_chip_mj is None or energy.dram_mj is None:
            raise CompileError(machine.name, "its energy is not known", remedy="Let cycles count")
        return Taken((energy.on_chip_mj + energy.dram_mj) * MICROJOULES_IN_MJ, len(found.host_nodes))

    return cost


def _measured(model: onnx.ModelProto, machine: Machine, shapes: Shapes) -> MeasuredNetwork:
    from tilewright.codesign.points.evaluate import Failure, measure
    from tilewright.codesign.points.network import Network

    network = Network("the quantised model", model.SerializeToString(deterministic=True), shapes)
    found = measure(network, machine)
    if isinstance(found, Failure):
        raise CompileError(machine.name, found.reason)
    return found

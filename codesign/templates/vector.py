"""What vector engines cost: their lanes, what controls them, and the terms of their statements when multiplied out."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.codesign.templates.facet import Facet, LayerWork, LogicEnergy
from tilewright.isa.language.expressions import Expr
from tilewright.isa.language.operations import Op
from tilewright.isa.machine.engine import Engine, Vector
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.demands import iterations_of
from tilewright.isa.templates.datapath_schedule import bind, schedule
from tilewright.isa.timing import vec_beats, vec_operands, vec_stages


class VectorFacet(Facet):
    """Every lane computes in every iteration."""

    def units(self, machine: Machine, engine: Engine) -> Mapping[str, str]:
        return {engine.name: f"{engine} control", f"{engine}.datapath": lanes_of(engine)}

    def energy(
        self, engine: Engine, figures: LogicEnergy, iterations: int, areas_um2: Mapping[str, float]
    ) -> tuple[str, float]:
        lanes = lanes_of(engine)
        return lanes, figures.lane_pj_per_iteration_per_um2 * iterations * areas_um2.get(lanes, 0.0)

    def cycles_in_flight(self, machine: Machine, engine: Engine, work: LayerWork) -> int:
        """From the first iteration of each instruction to the result of its last one."""
        beats = sum(iterations_of(each) * vec_beats(each.format) for each in work.instructions)
        through = vec_operands(machine) + vec_stages(machine, engine)
        return work.at_most(beats + len(work.instructions) * through)

    def multipliers(self, machine: Machine, engine: Engine) -> Mapping[str, int]:
        in_a_lane = sum(unit.op is Op.MUL for unit in bind(schedule(machine.formats_of(engine))))
        return {lanes_of(engine): in_a_lane * _width(engine)}

    def products_a_cycle(self, machine: Machine, engine: Engine) -> int:
        own = machine.formats_of(engine)
        return _width(engine) * max((terms(format.statement.expr)[0] for format in own), default=0)


def _width(engine: Engine) -> int:
    """How many lanes an engine has."""
    assert isinstance(engine.settings, Vector)
    return engine.settings.lanes


def lanes_of(engine: Engine) -> str:
    """What a report calls the lanes."""
    return f"{engine} lanes"


def terms(expr: Expr) -> tuple[int, int]:
    """How many terms the sum has that an expression is when multiplied out: those with an operand, and the others.

    Each of the former may be a product of a network. `(a + p.bias) * p.scale + zero` has 2 and 1. Of what is no sum or
    product, such as a maximum, each argument's terms count; a shift's are those of what it shifts. A dot product is one
    product of each row of its tile.
    """
    match expr.op:
        case Op.SOURCE | Op.LUT:
            return 1, 0
        case Op.CONST | Op.IMMEDIATE:
            return 0, 1
        case Op.MUL | Op.DOT:
            (a, a_others), (b, b_others) = map(terms, expr.args)
            return a * b + a * b_others + a_others * b, a_others * b_others
    found = [terms(arg) for arg in (expr.args[:1] if expr.op.facts.is_shift else expr.args)]
    return sum(own for own, _ in found), sum(others for _, others in found)

"""A tree across lanes gives the sum of its values, or the largest: every node is that of the two below it.

Sum and maximum are associative, so what is left is that each lane is below the root once, which the goals spell out:
node n of a stage is of the nodes 2n and 2n + 1 of the stage before, or of node 2n alone if that is the last.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import z3

from tilewright.isa.language.operations import ACROSS_LANES, Op
from tilewright.isa.machine.engine import Engine
from tilewright.isa.machine.machine import Machine
from tilewright.isa.templates.datapath_schedule import Unit, bind, schedule
from tilewright.rtl.lane_tree import LaneTree
from tilewright.rtl.layout import integer_shape
from tilewright.rtl.proof.logic import all_of
from tilewright.rtl.proof.meaning import as_integer, integer
from tilewright.rtl.proof.netlist import NetlistRun, netlist
from tilewright.rtl.proof.result import Goal, Proof, prove

COMBINE: Mapping[Op, Callable[[z3.BitVecRef, z3.BitVecRef], z3.BitVecRef]] = {
    Op.LANES_SUM: lambda a, b: a + b,
    Op.LANES_MAX: lambda a, b: z3.If(a >= b, a, b),
}


def prove_lane_trees(machine: Machine, engine: Engine) -> list[Proof]:
    """A proof for each tree of a vector engine's datapath, at its width."""
    units = bind(schedule(machine.formats_of(engine)))
    lanes, in_parts = engine.vector.lanes, engine.vector.parts > 1
    return [prove_lane_tree(unit, lanes, unit.stages - in_parts) for unit in units if unit.op in ACROSS_LANES]


def prove_lane_tree(unit: Unit, lanes: int, stages: int) -> Proof:
    """The tree of a unit in so many stages; where words come in parts, the unit's last stage is not the tree's."""
    shape = integer_shape(unit.argument_range(0))
    tree = LaneTree(unit.op, lanes, stages, shape, integer_shape(unit.range))

    def goals() -> list[Goal]:
        run = NetlistRun(netlist(tree))
        word = run.at("values", 0)
        below = [
            as_integer(z3.Extract((lane + 1) * shape.width - 1, lane * shape.width, word), shape.signed)
            for lane in range(lanes)
        ]
        found = []
        for stage in range(stages):
            nodes = -(-len(below) // 2)
            for node in range(nodes):
                pair = below[2 * node : 2 * node + 2]
                expected = COMBINE[unit.op](*pair) if len(pair) == 2 else pair[0]
                value = as_integer(run.at(f"level{stage}_{node}", 1), shape.signed)
                found.append(Goal(f"node {node} of stage {stage}", [], value == expected))
            below = [as_integer(run.at(f"level{stage}_{node}", 0), shape.signed) for node in range(nodes)]
        assert len(below) == 1
        root, result = below[0], as_integer(run.at("result", 0), unit.range.is_signed)
        in_range = all_of(root >= integer(unit.range.low), root <= integer(unit.range.high))  # as the lanes' values are
        return [*found, Goal("the result", [in_range], result == root)]

    return prove(f"{unit.op.value} of {lanes} lanes of {shape.width} bits", "all inputs, node by node", goals)

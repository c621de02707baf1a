"""A statement and the narrower expression that the datapath computes for it have the same value for all inputs."""

from __future__ import annotations

import z3

from tilewright.isa.language.expressions import Expr
from tilewright.isa.language.narrowing import EVERYTHING, demands
from tilewright.isa.language.numeric import Interval
from tilewright.isa.language.operations import Op
from tilewright.isa.timing import pipeline_nodes
from tilewright.rtl.proof.logic import all_of
from tilewright.rtl.proof.meaning import WIDTH, Meaning, integer, nearest
from tilewright.rtl.proof.product import PRODUCT
from tilewright.rtl.proof.result import Goal


def narrowing_goals(expr: Expr) -> list[Goal]:
    """Node by node: one that every other may need every value of is equal; below a clamp, one that saturates need not.

    What is shown to be equal counts from then on as one number, the same for both sides and any in the node's range.
    """
    return _Comparison(expr).goals()


class _Comparison:
    def __init__(self, expr: Expr) -> None:
        self.nodes = pipeline_nodes(expr)
        self.demands = demands(expr)
        self.said, self.computed = Meaning({}, PRODUCT), Meaning({}, PRODUCT)
        self.equal: set[Expr] = set()
        self.given: list[z3.BoolRef] = []

    def goals(self) -> list[Goal]:
        return [goal for node in self.nodes for goal in self.goals_of(node)]

    def goals_of(self, node: Expr) -> list[Goal]:
        new = self.nodes[node]
        goals = []
        if node.op is Op.ROUND_SHIFT and new.type is not None:
            self.saturate(node, new)
            return []
        if node.op in (Op.MUL, Op.DOT) and new.op is not Op.MUL:
            laws = self.laws(node)
            goals = [Goal(f"{node} from halves", [*self.given, *laws], self.said.of(node) == self.computed.of(new))]
        elif any(arg not in self.equal for arg in node.args):
            if self.demands[node] != EVERYTHING:
                return []
            goals = [Goal(f"{node} after narrowing", list(self.given), self.said.of(node) == self.computed.of(new))]
        self.share(node, new)
        return goals

    def share(self, node: Expr, new: Expr) -> None:
        """From here on the two are one number: they were shown to be equal, or are the same of equal arguments."""
        number = z3.BitVec(f"value {len(self.equal)}", WIDTH)
        self.said.known[node] = self.computed.known[new] = number
        self.given.append(within(number, node.range))
        self.equal.add(node)

    def saturate(self, node: Expr, new: Expr) -> None:
        """Both shift the same; then one takes the nearest value of its type."""
        assert all(arg in self.equal for arg in node.args) and new.type is not None
        number = z3.BitVec(f"shifted {len(self.said.known)}", WIDTH)
        self.said.known[node], self.computed.known[new] = number, nearest(number, new.type)
        self.given.append(within(number, node.range))

    def laws(self, node: Expr) -> list[z3.BoolRef]:
        """Of the product of a statement, cut where the datapath cuts it."""
        wide, narrow = sorted(node.args, key=lambda arg: -arg.range.bits)
        x, y = self.said.of(wide), self.said.of(narrow)
        return split(x, y, wide.range.bits // 2, wide.range, narrow.range)


def split(x: z3.BitVecRef, y: z3.BitVecRef, at: int, range_x: Interval, range_y: Interval) -> list[z3.BoolRef]:
    """Laws of x·y for factors in their ranges: with x = low + high·2**at, x·y = low·y + high·y·2**at.

    Besides: the order of factors does not matter, and the bounds of all three products.
    """
    low, high = x & integer((1 << at) - 1), x >> at
    parts = PRODUCT(low, y), PRODUCT(high, y)
    return [
        PRODUCT(x, y) == parts[0] + (parts[1] << at),
        PRODUCT(y, x) == PRODUCT(x, y),
        PRODUCT(y, low) == parts[0],
        PRODUCT(y, high) == parts[1],
        within(PRODUCT(x, y), products(range_x, range_y)),
        within(parts[0], products(Interval(0, (1 << at) - 1), range_y)),
        within(parts[1], products(Interval(range_x.low >> at, range_x.high >> at), range_y)),
    ]


def products(a: Interval, b: Interval) -> Interval:
    """A product is greatest and least at the ends of its factors' intervals."""
    corners = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
    return Interval(min(corners), max(corners))


def within(value: z3.BitVecRef, interval: Interval) -> z3.BoolRef:
    return all_of(value >= integer(interval.low), value <= integer(interval.high))

"""Prices of a machine whose sizes change, fitted: what has more operators costs more, in proportion.

A queue that takes 3,000 gates by the count of its operators and 3,300 when synthesised is taken to cost 1.1 times its
count at every other depth and width, too.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.codesign.price.known import Logic
from tilewright.codesign.price.netlist import Bill
from tilewright.codesign.price.operators import Count, Sketch
from tilewright.codesign.price.synthesis import Cost


def counted(bills: Mapping[str, Bill[Sketch]]) -> dict[str, Count]:
    """What the sketches of each bill count up to."""
    return {name: Count.of([(times, each.count) for times, each in bill]) for name, bill in bills.items()}


def fitted(counts: Mapping[str, Count], known: Logic) -> dict[str, Cost]:
    """A cost for each count, from what that of the same name cost; a new one costs as much as all on average.

    A module with nothing in it, such as counters that count nothing, has a count but is in no netlist.
    """
    all_known, all_counted = sum(known.costs.values(), Cost()), sum(each.gates for each in known.counts.values())
    usual = all_known.area_um2 / all_counted
    costs = {}
    for name, count in counts.items():
        then = known.counts.get(name)
        if then == count:
            costs[name] = known.costs.get(name, Cost())
        elif then is not None and then.gates:
            costs[name] = _scaled(known.costs[name], then, count)
        else:
            costs[name] = Cost(count.gates * usual, count.flip_flops)
    return costs


def _scaled(cost: Cost, then: Count, now: Count) -> Cost:
    ratio = now.flip_flops / then.flip_flops if then.flip_flops else 1
    flip_flops = cost.flip_flops * ratio if then.flip_flops else now.flip_flops
    gating = (each * ratio for each in (cost.gated, cost.clocked, cost.clock_gates))
    return Cost(cost.area_um2 * now.gates / then.gates, flip_flops, *gating)

"""Whether a part of the machine is worth what passes between it and the host.

No clock of the host is known. But passing a value takes the host at least as long as an operation on it: so a part
with fewer operations than values that pass is done sooner where these values are.
"""

from __future__ import annotations

from collections.abc import Collection
from math import prod

from tilewright.compiler.fitting import Covered
from tilewright.compiler.partition.parts import Part
from tilewright.compiler.partition.source import Source
from tilewright.compiler.select.cover import Selection
from tilewright.isa.language.operations import Op

ONLY_MOVES = "only moves or quantises data between nodes of the host, which is not worth the transfer"


def why_not_worth(source: Source, part: Part, covered: Covered, of_host: Collection[str]) -> str:
    """Why a part of the machine is left to the host; empty if it is worth it.

    `of_host` are the tensors that parts of the host read or make. What the network itself takes and gives passes in any
    case.
    """
    computed, passed = operations(covered), passed_values(source, part, of_host)
    if computed == 0:
        return ONLY_MOVES
    if computed >= passed:
        return ""
    few = f"its segment has only {computed:,} operations"
    return f"{few}, not worth the transfer of {passed:,} values from and to the host"


def operations(covered: Covered) -> int:
    """How often the machine computes something: iterations of all loop nests that do more than copy."""
    assert isinstance(covered.value, Selection)
    computing = (nest for nest in covered.value.program.nests if nest.expr.op is not Op.SOURCE)
    return sum(prod(loop.trip for loop in nest.loops) for nest in computing)


def passed_values(source: Source, part: Part, of_host: Collection[str]) -> int:
    """How many values pass between a part and the host's."""
    ends = {*source.inputs, *source.outputs}
    between = [name for name in (*part.inputs, *part.outputs) if name in of_host and name not in ends]
    return sum(prod(source.graph.tensors[name].shape) for name in between)

"""A rule of graphs about what the host does: it orders elements behind inputs and before outputs, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilewright.compiler.graph.graph import Graph, Operator
from tilewright.compiler.rules import Rule, RuleViolation

BEHIND_INPUTS = ("quantize", "reshape", "transpose")
BEFORE_OUTPUTS = ("dequantize", "reshape", "transpose")
"""What may lie between a transposition of the host's and the host."""


def _ends(graph: Graph) -> Iterator[RuleViolation]:
    for operator in graph.operators:
        if (
            operator.kind == "transpose"
            and not _is_behind_input(operator, graph)
            and not _is_before_outputs(operator, graph)
        ):
            place = f"{operator.kind} {operator.name!r}"
            fact = f"it lies between operators that compute, or other readers of {operator.inputs[0]!r} too"
            yield RuleViolation(
                operator.outputs[0], place, fact, "one at an input that has no other reader, or at outputs"
            )


def _is_behind_input(operator: Operator, graph: Graph) -> bool:
    """Whether an operator's operand is an input, in whatever shape, and nothing else reads that."""
    name = operator.inputs[0]
    while name not in graph.inputs:
        producer = graph.producers.get(name)
        if producer is None or producer.kind not in BEHIND_INPUTS or graph.uses[name] > 1:
            return False
        name = producer.inputs[0]
    return graph.uses[name] == 1


def _is_before_outputs(operator: Operator, graph: Graph) -> bool:
    """Whether only outputs depend on an operator, in whatever shape."""
    readers = graph.readers.get(operator.outputs[0], ())
    return all(each.kind in BEFORE_OUTPUTS and _is_before_outputs(each, graph) for each in readers)


END_RULES: Sequence[Rule[Graph]] = (
    Rule("ends", "A transposition is the host's: it alone reads an input, or only outputs read it.", _ends),
)

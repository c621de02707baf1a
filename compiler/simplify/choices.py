"""Where with a computed condition, as products with its truth and with the opposite of it.

    quantize(Where(c, x, y))   →   quantize(quantize(c · x) + quantize((1 - c) · y))

All are quantised as the result, and one of the two terms is zero: so the sum is exact, and the result is x or y in the
steps of the result, as before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tilewright.compiler.errors import CompileError
from tilewright.compiler.graph.graph import Operator
from tilewright.compiler.simplify.rewrite import GraphView, Replacement
from tilewright.compiler.simplify.truths import Truths


def choice(operator: Operator, view: GraphView) -> Replacement | None:
    """The rule above. Raises CompileError for a condition that is not computed from quantised tensors."""
    condition, *chosen = operator.inputs
    steps = _steps_after(operator.outputs[0], view)
    if steps is None or view.constant(condition) is not None:
        return None
    truths = Truths(f"{operator.name}.chosen", operator.nodes, view)
    first = truths.of(condition)
    if first is None:
        raise CompileError(
            operator,
            f"its condition {condition!r} is not computed in a way that the machine has instructions for",
            expected="comparisons of tensors that are quantised alike, or with one number, and And, Or, Xor and Not of "
            "them",
        )
    terms = []
    for truth, name in ((first, chosen[0]), (truths.opposite(first), chosen[1])):
        value = name if view.constant(name) is None else truths.quantized(name, steps)
        terms.append(truths.quantized(truths.operator("Mul", (truth, value)), steps))
    made = replace(operator, kind="onnx.Add", inputs=tuple(terms), nodes=truths.nodes)
    return Replacement((*truths.operators, made), truths.tensors, truths.constants)


def _steps_after(name: str, view: GraphView) -> tuple[str, str] | None:
    """Scale and zero point with which all users quantise a tensor; None if one does not."""
    users: Sequence[Operator] = view.users(name)
    if not users or name in view.outputs:
        return None
    for user in users:
        if user.kind != "onnx.QuantizeLinear" or user.inputs[0] != name or len(user.inputs) < 3:
            return None
    scale, zero = users[0].inputs[1:3]
    if any(user.inputs[1:3] != (scale, zero) for user in users):
        return None
    values = view.constant(scale), view.constant(zero)
    return (scale, zero) if all(value is not None and value.size == 1 for value in values) else None


CHOICE_FORMS = {"onnx.Where": (choice,)}
"""Tried before all other rules."""

"""The activations of LSTM, GRU and RNN (ONNX opset 22, attribute `activations`), as ONNX operators.

Names are compared without case. Each takes its alpha and beta, if it has them, from the node's lists, in order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.compiler.errors import CompileError, NodeName
from tilewright.quantization.recurrent.writer import RecurrenceStep


@dataclass(frozen=True, slots=True)
class RecurrentActivation:
    """An activation of the specification; `alpha` and `beta` are its defaults."""

    name: str
    takes_alpha: bool = False
    takes_beta: bool = False
    alpha: float | None = None
    beta: float | None = None

    @property
    def is_operator(self) -> bool:
        """Whether ONNX has an operator of this name, with these attributes."""
        return self.name not in ("Affine", "ScaledTanh")


ACTIVATIONS = {
    activation.name.lower(): activation
    for activation in (
        RecurrentActivation("Relu"),
        RecurrentActivation("Tanh"),
        RecurrentActivation("Sigmoid"),
        RecurrentActivation("Softsign"),
        RecurrentActivation("Softplus"),
        RecurrentActivation("LeakyRelu", takes_alpha=True, alpha=0.01),
        RecurrentActivation("ThresholdedRelu", takes_alpha=True, alpha=1.0),
        RecurrentActivation("Elu", takes_alpha=True, alpha=1.0),
        RecurrentActivation("HardSigmoid", takes_alpha=True, takes_beta=True, alpha=0.2, beta=0.5),
        RecurrentActivation("Affine", takes_alpha=True, takes_beta=True),
        RecurrentActivation("ScaledTanh", takes_alpha=True, takes_beta=True),
    )
}
"""Name in lower case → the activation."""


def read_activations(
    place: NodeName, names: Sequence[str], alphas: Sequence[float], betas: Sequence[float]
) -> tuple[RecurrentActivation, ...]:
    """The activations with their numbers; raises CompileError for a name or number that there is not."""
    rest_alphas, rest_betas = iter(alphas), iter(betas)
    found = []
    for name in names:
        if name.lower() not in ACTIVATIONS:
            known = ", ".join(activation.name for activation in ACTIVATIONS.values())
            raise CompileError(place, f"unknown activation {name!r}", expected=f"one of: {known}")
        kind = ACTIVATIONS[name.lower()]
        alpha = _next(place, kind.name, "alpha", rest_alphas, kind.alpha) if kind.takes_alpha else None
        beta = _next(place, kind.name, "beta", rest_betas, kind.beta) if kind.takes_beta else None
        found.append(RecurrentActivation(kind.name, kind.takes_alpha, kind.takes_beta, alpha, beta))
    for name, rest in (("activation_alpha", rest_alphas), ("activation_beta", rest_betas)):
        if (left := len(list(rest))) > 0:
            fact = f"{name} has {left} more number{'s' * (left != 1)} than its activations take"
            raise CompileError(place, fact, expected="one for each activation that has it")
    return tuple(found)


def _next(place: NodeName, name: str, part: str, rest: Iterator[float], default: float | None) -> float:
    value = next(rest, default)
    if value is None:
        raise CompileError(place, f"activation {name} has no {part}", expected=f"a number in activation_{part}")
    return value


def write_activation(step: RecurrenceStep, part: str, activation: RecurrentActivation, x: str) -> str:
    """Write activation(x); the name of its result."""
    alpha, beta = activation.alpha, activation.beta
    if activation.is_operator:
        numbers = {"alpha": alpha, "beta": beta}
        given = {name: value for name, value in numbers.items() if value is not None}
        return step.node(activation.name, part, [x], **given)
    alphas, betas = (step.constant(f"{part}/{n}", np.array(v)) for n, v in (("alpha", alpha), ("beta", beta)))
    if activation.name == "Affine":
        return step.node("Add", part, [step.node("Mul", f"{part}/scaled", [x, alphas]), betas])
    tanh = step.node("Tanh", f"{part}/tanh", [step.node("Mul", f"{part}/scaled", [x, betas])])
    return step.node("Mul", part, [tanh, alphas])

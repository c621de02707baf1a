"""The operators that have C: a row each. One that is not here, or has an attribute that no row names, is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tilewright.bundle.nodes.code import CNode, Code, NoCode
from tilewright.bundle.nodes.elementwise import DEFAULTS, EXPRESSIONS, clip, dequantize, elementwise, power, quantize
from tilewright.bundle.nodes.movement import move
from tilewright.bundle.nodes.reductions import KINDS, arg_max, gemm, layer_normalization, matmul, reduce, softmax

Writer = Callable[[CNode, Code], list[str]]
"""The statements of a node. Raises NoCode for a form of the operator that has none."""


@dataclass(frozen=True, slots=True)
class COperator:
    """How an operator becomes C; `is_exact` where its results are those of ONNX Runtime to the last bit."""

    write: Writer
    attributes: frozenset[str] | None = frozenset()  # those that are read; None: all
    is_exact: bool = True


INEXACT = ("Exp", "Sigmoid", "Tanh", "Erf")
"""Expressions with a function that ONNX Runtime approximates otherwise."""

MOVES = "Concat DepthToSpace Expand Flatten Gather Identity Reshape Slice SpaceToDepth Split Squeeze Tile Transpose"

REDUCED = frozenset({"axes", "keepdims", "noop_with_empty_axes"})

OPERATORS: Mapping[str, COperator] = {
    **{
        name: COperator(elementwise, frozenset(DEFAULTS.get(name, ())), is_exact=name not in INEXACT)
        for name in EXPRESSIONS
    },
    **{name: COperator(move, None) for name in [*MOVES.split(), "Unsqueeze"]},
    **{name: COperator(reduce, REDUCED, is_exact=name.endswith(("Max", "Min", "MaxPool"))) for name in KINDS},
    "ArgMax": COperator(arg_max, frozenset({"axis", "keepdims", "select_last_index"})),
    "Clip": COperator(clip),
    "DequantizeLinear": COperator(dequantize, frozenset({"axis"})),
    "Gemm": COperator(gemm, frozenset({"alpha", "beta", "transA", "transB"}), is_exact=False),
    "LayerNormalization": COperator(layer_normalization, frozenset({"axis", "epsilon", "stash_type"}), is_exact=False),
    "MatMul": COperator(matmul, is_exact=False),
    "Pow": COperator(power),
    "QuantizeLinear": COperator(quantize, frozenset({"axis", "saturate"})),
    "Softmax": COperator(softmax, frozenset({"axis"}), is_exact=False),
}
"""By ONNX's name, of its own domain."""


def operator_of(node: CNode) -> COperator:
    """The row of a node's operator. Raises NoCode if there is none, or an attribute is not one that it reads."""
    found = OPERATORS.get(node.op_type)
    if found is None:
        raise NoCode(f"the operators that have it are {', '.join(sorted(OPERATORS))}")
    others = set() if found.attributes is None else node.attributes.keys() - found.attributes
    if others:
        raise NoCode(f"it has the attribute {', '.join(sorted(others))}")
    return found

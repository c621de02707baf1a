"""Cycles that no program for a machine can beat: by the products that a network needs, and the weights that it reads.

Both hold for a network of which all nodes run on the machine. A product is counted where the operator's window is
inside the tensor: what padding multiplies by zero may be left out by a program, and is left out here.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import onnx
from onnx import helper, numpy_helper, shape_inference

from tilewright.compiler.importers.fatal import require_harmless
from tilewright.isa.language.expressions import walk
from tilewright.isa.language.operations import Op
from tilewright.isa.machine.machine import Machine, Template

PASSING = frozenset({"QuantizeLinear", "DequantizeLinear", "Identity", "Reshape", "Flatten", "Transpose"})
"""Operators behind which a tensor is still the same weights, or still padded."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What any program of a network must do: products, and bytes of weights to read."""

    products: int
    weight_bytes: int


NOTHING = Needs(0, 0)


def least_cycles(needs: Needs, machine: Machine) -> int:
    """A lower bound of the cycles of a network on a machine, if no node of it runs on the host."""
    engines = products_a_cycle(machine)
    beats = -(-needs.weight_bytes // machine.dram.bus_bytes)
    return max(-(-needs.products // engines) if engines else 0, beats)


def products_a_cycle(machine: Machine) -> int:
    """The most products that all engines together can do in a cycle."""
    total = 0
    for template, formats in machine.formats_by_template.items():
        for engine in {format.engine for format in formats}:
            own = [format for format in formats if format.engine == engine]
            if template is Template.SYSTOLIC:
                total += machine.rows * machine.cols
            elif template is Template.VECTOR:
                total += machine.lanes * max(
                    sum(node.op is Op.MUL for node in walk(format.statement.expr)) for format in own
                )
    return total


def needs_of(content: bytes) -> Needs:
    """What a model needs; nothing is known of one that cannot be read here."""
    try:
        model = onnx.ModelProto.FromString(content)
        require_harmless(model, "the model")
        return _Model(shape_inference.infer_shapes(model)).needs()
    except Exception:  # a bound is no place to find fault with a model: the compiler says what is wrong with it
        return NOTHING


class _Model:
    def __init__(self, model: onnx.ModelProto) -> None:
        graph = model.graph
        self._nodes = list(graph.node)
        self._outputs = {value.name for value in graph.output}
        self._makers = {name: node for node in graph.node for name in node.output}
        self._weights = {tensor.name: tensor for tensor in graph.initializer}
        values = [*graph.input, *graph.value_info, *graph.output]
        self._shapes = {value.name: _shape(value) for value in values}
        self._shapes |= {name: tuple(tensor.dims) for name, tensor in self._weights.items()}

    def needs(self) -> Needs:
        """Of different operators whose results are used, and of different weights."""
        products = 0
        weights: dict[bytes, int] = {}
        for node in self._different(self._used()):
            operands = _operands(node)
            if operands is None or not all(self._varies(name) for name in operands[:1]):
                continue
            products += self._products(node, *operands)
            constant = self._constant(operands[1])
            if constant is not None and constant.data_type in (onnx.TensorProto.INT8, onnx.TensorProto.UINT8):
                array = numpy_helper.to_array(constant)
                weights[hashlib.sha256(array.tobytes()).digest()] = array.size
        return Needs(products, sum(weights.values()))

    def _used(self) -> Iterator[onnx.NodeProto]:
        wanted = set(self._outputs)
        for node in reversed(self._nodes):
            if wanted & set(node.output):
                wanted |= set(node.input)
                yield node

    @staticmethod
    def _different(nodes: Iterator[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
        """One of those that compute the same: a program may compute it once."""
        seen = set()
        for node in nodes:
            facts = (node.op_type, tuple(node.input), *sorted(a.SerializeToString() for a in node.attribute))
            if facts not in seen:
                seen.add(facts)
                yield node

    def _constant(self, name: str) -> onnx.TensorProto | None:
        while name not in self._weights:
            maker = self._makers.get(name)
            if maker is None or maker.op_type not in PASSING:
                return None
            name = maker.input[0]
        return self._weights[name]

    def _varies(self, name: str) -> bool:
        """Whether a tensor follows from the inputs, and is not the result of a Pad, which a program may take apart."""
        while name in self._makers and self._makers[name].op_type in PASSING:
            name = self._makers[name].input[0]
        maker = self._makers.get(name)
        return name not in self._weights and (maker is None or maker.op_type not in ("Pad", "Constant"))

    def _products(self, node: onnx.NodeProto, left: str, right: str) -> int:
        """Zero where a size is not known."""
        a, b, y = (self._shapes.get(name, ()) for name in (left, right, node.output[0]))
        if not (a and b and y) or min(*a, *b, *y) <= 0:
            return 0
        match node.op_type:
            case "Conv" | "QLinearConv" | "ConvInteger":
                return y[0] * math.prod(b[:2]) * _windows(node, a[2:], b[2:], y[2:])
            case "Gemm":
                is_transposed = {a.name: helper.get_attribute_value(a) for a in node.attribute}.get("transA", 0)
                return math.prod(y) * (a[0] if is_transposed else a[-1])
            case _:
                return math.prod(y) * a[-1]


def _operands(node: onnx.NodeProto) -> tuple[str, str] | None:
    """Activations and weights of an operator that multiplies them; None for others."""
    match node.op_type:
        case "Conv" | "Gemm" | "MatMul" | "ConvInteger" | "MatMulInteger":
            return node.input[0], node.input[1]
        case "QLinearConv" | "QLinearMatMul":
            return node.input[0], node.input[3]
    return None


def _windows(node: onnx.NodeProto, sizes: Sequence[int], kernel: Sequence[int], results: Sequence[int]) -> int:
    """Pairs of a result and a kernel's element that lies inside the tensor: for 3 wide and padded by 1, 2 + 3 + 2."""
    attributes: Mapping[str, object] = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    if attributes.get("auto_pad", b"NOTSET") not in (b"NOTSET", b"VALID"):
        return 0
    rank = len(sizes)
    strides, dilations = (_list(attributes.get(key), [1] * rank) for key in ("strides", "dilations"))
    pads = _list(attributes.get("pads"), [0] * 2 * rank)
    total = 1
    for at in range(rank):
        firsts = (y * strides[at] - pads[at] for y in range(results[at]))
        total *= sum(0 <= first + k * dilations[at] < sizes[at] for first in firsts for k in range(kernel[at]))
    return total


def _list(value: object, default: list[int]) -> list[int]:
    return [int(each) for each in value] if isinstance(value, list | tuple) else default


def _shape(value: onnx.ValueInfoProto) -> tuple[int, ...]:
    return tuple(size.dim_value for size in value.type.tensor_type.shape.dim)

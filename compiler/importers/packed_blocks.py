"""MatMulNBits of ONNX Runtime: a product by a matrix of few bits, packed in bytes, with a scale for each block.

It becomes a DequantizeLinear with blocks and a MatMul, which mean the same:
https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.MatMulNBits. The matrix is
[N, blocks, bytes of a block]; in a byte, the first element has the lowest bits. Without zero points, these are half of
what the bits count: 8 of four bits.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from tilewright.compiler.errors import CompileError, DamagedModel, NodeName
from tilewright.compiler.importers.opsets import WRITTEN_OPSET, convert, opset_of
from tilewright.compiler.importers.remarks import add_remarks

PACKED = "MatMulNBits"

BYTE_BITS = 8

ELEMENTS: Mapping[int, int] = {2: TensorProto.UINT4, 4: TensorProto.UINT4, 8: TensorProto.UINT8}
"""The type that elements of so many bits take; two bits have a type of their own in opset 25 only."""

WIDER = "its weights of two bits are kept as four: opsets before 25 have no type of two"

LEAST_BLOCK = 16

Constants = Mapping[str, onnx.TensorProto]


def with_plain_blocks(model: onnx.ModelProto, name: str) -> onnx.ModelProto:
    """The model with each MatMulNBits of constant weights as DequantizeLinear and MatMul, in an opset that has blocks.

    Nodes with computed weights stay. Raises CompileError for what is no such matrix, or is not done.
    """
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    if not any(_is_packed(node, constants) for node in model.graph.node):
        return model
    made = onnx.ModelProto()
    made.CopyFrom(model)
    nodes, added = [], []
    for node in made.graph.node:
        if not _is_packed(node, constants):
            nodes.append(node)
            continue
        weights = _BlockWeights(node, constants)
        added.append(weights)
        nodes += weights.product()
    del made.graph.node[:]
    made.graph.node.extend(nodes)
    made.graph.initializer.extend(tensor for weights in added for tensor in weights.stand_in())
    if opset_of(made) < WRITTEN_OPSET:
        made = convert(made, name, WRITTEN_OPSET)
    for weights in added:
        weights.put_into(made)
    add_remarks(made, {f"{PACKED} {weights.name!r}": WIDER for weights in added if weights.is_wider})
    return made


def _is_packed(node: onnx.NodeProto, constants: Constants) -> bool:
    return node.op_type == PACKED and len(node.input) > 2 and {*node.input[1:3]} <= constants.keys()


class _BlockWeights:
    """The matrix of one node: integers [K, N], scales and zero points [blocks, N]."""

    def __init__(self, node: onnx.NodeProto, constants: Constants) -> None:
        self._node = node
        said = {attribute.name: attribute.i for attribute in node.attribute}
        self._bits, self._block = said.get("bits", 4), said.get("block_size", 0)
        summed, results = said.get("K", 0), said.get("N", 0)
        if self._bits not in ELEMENTS:
            raise self._fault(f"bits = {self._bits}", f"one of {', '.join(map(str, ELEMENTS))}")
        if self._block < LEAST_BLOCK or self._block & self._block - 1:
            raise self._damage(f"block_size = {self._block}", f"a power of two, {LEAST_BLOCK} or more")
        if self._operand(4):
            raise self._fault("its rows are in another order (g_idx)", "none")
        self._blocks = -(-summed // self._block)
        self.shape = summed, results
        self.codes = self._codes(constants)
        self.scales = self._scales(constants)
        self.zeros = self._zeros(constants)

    @property
    def name(self) -> str:
        """The node's."""
        return self._node.name or self._node.output[0]

    @property
    def is_wider(self) -> bool:
        """Whether its elements take more bits than the file gives them."""
        return self._bits == 2

    def product(self) -> list[onnx.NodeProto]:
        """The MatMul, and the sum with a bias if there is one."""
        node, bias = self._node, self._operand(5)
        result = node.output[0]
        exact = f"{result}.without_bias" if bias else result
        made = [helper.make_node("MatMul", [node.input[0], self._name("real")], [exact], node.name)]
        if bias:
            made.append(helper.make_node("Add", [exact, bias], [result], f"{node.name}.bias"))
        return made

    def stand_in(self) -> list[onnx.TensorProto]:
        """A constant in place of the matrix, for as long as an older opset has no blocks."""
        return [numpy_helper.from_array(np.zeros(self.shape, self.scales.dtype), self._name("real"))]

    def put_into(self, model: onnx.ModelProto) -> None:
        """The matrix and its DequantizeLinear, in place of what stands for them."""
        graph, element = model.graph, ELEMENTS[self._bits]
        names = [self._name(part) for part in ("codes", "scales", "zeros")]
        kept = [tensor for tensor in graph.initializer if tensor.name != self._name("real")]
        del graph.initializer[:]
        graph.initializer.extend(kept)
        graph.initializer.extend(
            [
                helper.make_tensor(names[0], element, self.shape, self.codes.ravel().tolist()),
                numpy_helper.from_array(self.scales, names[1]),
                helper.make_tensor(names[2], element, self.zeros.shape, self.zeros.ravel().tolist()),
            ]
        )
        output, own = self._name("real"), self._name("weights")
        reader = helper.make_node("DequantizeLinear", names, [output], own, axis=0, block_size=self._block)
        graph.node.insert(0, reader)

    # -- what the operands hold ----------------------------------------------------------------------------------------

    def _codes(self, constants: Constants) -> NDArray[np.uint8]:
        packed = numpy_helper.to_array(constants[self._node.input[1]])
        summed, results = self.shape
        size = self._block * self._bits // BYTE_BITS
        if packed.dtype != np.uint8 or packed.size != results * self._blocks * size:
            raise self._damage(
                f"its weights are {packed.dtype}{list(packed.shape)}", f"uint8[{results}, {self._blocks}, {size}]"
            )
        codes = self._unpacked(packed.reshape(results, self._blocks * size))
        return np.ascontiguousarray(codes[:, :summed].T)

    def _scales(self, constants: Constants) -> NDArray[np.floating]:
        scales = numpy_helper.to_array(constants[self._node.input[2]])
        results = self.shape[1]
        if scales.size != results * self._blocks:
            raise self._damage(f"it has {scales.size} scales", f"{results} times {self._blocks}, one for each block")
        if not np.all(np.isfinite(scales) & (scales > 0)):
            worst = scales[~(np.isfinite(scales) & (scales > 0))].flat[0]
            raise self._damage(f"its scale is {worst}", "positive numbers")
        return np.ascontiguousarray(scales.reshape(results, self._blocks).T)

    def _zeros(self, constants: Constants) -> NDArray[np.uint8]:
        name, results = self._operand(3), self.shape[1]
        if not name:
            return np.full((self._blocks, results), 1 << self._bits - 1, np.uint8)
        if name not in constants:
            raise self._fault("its zero points are computed", "constants")
        points = numpy_helper.to_array(constants[name])
        size = -(-self._blocks * self._bits // BYTE_BITS)
        if points.dtype == np.uint8 and points.size == results * size:
            unpacked = self._unpacked(points.reshape(results, size))[:, : self._blocks]
        elif points.dtype != np.uint8 and points.size == results * self._blocks:
            unpacked = points.reshape(results, self._blocks)
        else:
            expected = f"uint8[{results}, {size}], or one of the scales' type for each block"
            raise self._damage(f"its zero points are {points.dtype}{list(points.shape)}", expected)
        is_held = (unpacked == np.rint(unpacked)) & (unpacked >= 0) & (unpacked < 1 << self._bits)
        if not np.all(is_held):
            fact = f"its zero point is {unpacked[~is_held].flat[0]}"
            raise self._fault(fact, f"integers from 0 to {(1 << self._bits) - 1}")
        return np.ascontiguousarray(unpacked.T).astype(np.uint8)

    def _unpacked(self, packed: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """[N, bytes] as [N, elements]."""
        shifts = np.arange(0, BYTE_BITS, self._bits, dtype=np.uint8)
        elements = packed[..., None] >> shifts & np.uint8((1 << self._bits) - 1)
        return elements.reshape(len(packed), -1)

    def _operand(self, position: int) -> str:
        return self._node.input[position] if position < len(self._node.input) else ""

    def _name(self, part: str) -> str:
        return f"{self._node.output[0]}.{part}"

    def _fault(self, fact: str, expected: str) -> CompileError:
        return CompileError(NodeName(self._node.name, PACKED), fact, expected=expected)

    def _damage(self, fact: str, expected: str) -> CompileError:
        return DamagedModel(NodeName(self._node.name, PACKED), fact, expected=expected)

"""A network in QDQ form with a type for each product's weights and each result, put together from networks of one type.

The networks have the same nodes and names and differ in constants alone: weights, biases, scales and zero points. So a
mixed one takes these from one or another. A product's bias is in steps of its operand and its weights, so it comes from
the network that has both of their types.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Set
from dataclasses import dataclass

import onnx
from onnx import numpy_helper

from tilewright.compiler.importers.shapes import infer_shapes
from tilewright.quantization.constants import constants_of, dequantizers
from tilewright.quantization.narrow_weights import PRODUCTS
from tilewright.quantization.qdq import dequantized_names

WEIGHTS_AND_BIAS = (1, 2)
"""The operands of a product that have another type or scale where its weights or its first operand have."""

SCALE_AND_ZERO_POINT = (1, 2)


@dataclass(frozen=True, slots=True)
class Types:
    """A wide and a narrow type of weights, and of activations; twice the same where there is nothing to choose."""

    weights: tuple[str, str]
    activations: tuple[str, str]


@dataclass(frozen=True, slots=True)
class NarrowPart:
    """What gets a type: the weights of nodes that share them, or results that have one scale."""

    nodes: tuple[str, ...]  # that read the weights, or compute the results; an input of the network by its own name
    scales: frozenset[str] = frozenset()  # of the results; none: it is weights


class Forms:
    """The networks of one type each, by their types of weights and activations, and those that mix them.

    `alike` are tensors of the float network that are the same part of each step of a recurrence: these have one type.
    """

    def __init__(
        self,
        models: Mapping[tuple[str, str], onnx.ModelProto],
        types: Types,
        floats: onnx.ModelProto,
        alike: Iterable[Collection[str]] = (),
    ) -> None:
        (wide, narrow), (fine, coarse) = types.weights, types.activations
        self._models, self._types = models, types
        base = models[narrow, fine]
        self.weights = tuple(map(NarrowPart, _layers(base, models[wide, fine])))
        self.results = _results(base, models[narrow, coarse], dequantized_names(floats, base), alike)

    @property
    def parts(self) -> tuple[NarrowPart, ...]:
        return (*self.weights, *self.results)

    @property
    def narrow(self) -> onnx.ModelProto:
        """The network of the narrow types alone."""
        return self._models[self._types.weights[1], self._types.activations[1]]

    def with_narrow(self, chosen: Collection[NarrowPart]) -> onnx.ModelProto:
        """The network in which these parts have the narrow type, all others the wide one."""
        (wide, narrow), (fine, coarse) = self._types.weights, self._types.activations
        made = onnx.ModelProto()
        made.CopyFrom(self._models[narrow, fine])
        scales = frozenset(scale for part in chosen for scale in part.scales)
        _take_steps(made, self._models[narrow, coarse], scales)
        wide_nodes = {node for part in self.weights if part not in chosen for node in part.nodes}
        coarse_nodes = set(_products_reading(made, scales))
        taken: dict[tuple[str, str], set[str]] = {}
        for node in made.graph.node:
            types = wide if node.name in wide_nodes else narrow, coarse if node.name in coarse_nodes else fine
            taken.setdefault(types, set()).add(node.name)
        taken.pop((narrow, fine), None)  # has them already
        for types, nodes in taken.items():
            _take_operands(made, self._models[types], nodes)
        if scales:
            del made.graph.value_info[:]
            return infer_shapes(made)
        return made


def _layers(narrow: onnx.ModelProto, wide: onnx.ModelProto) -> list[tuple[str, ...]]:
    """The products whose weights have another type in the two networks; those that share weights are one layer."""
    of, other = constants_of(narrow), constants_of(wide)
    readers, before = dequantizers(narrow), {node.name: node for node in wide.graph.node}
    others, found = dequantizers(wide), dict[str, list[str]]()
    for node in narrow.graph.node:
        if node.op_type not in PRODUCTS or node.name not in before:
            continue
        reader, twin = readers.get(node.input[1]), others.get(before[node.name].input[1])
        if reader is None or twin is None or reader.input[0] not in of or twin.input[0] not in other:
            continue
        if of[reader.input[0]].data_type != other[twin.input[0]].data_type:
            found.setdefault(reader.input[0], []).append(node.name)
    return [tuple(nodes) for nodes in found.values()]


def _results(
    fine: onnx.ModelProto,
    coarse: onnx.ModelProto,
    names: Mapping[str, str],
    alike: Iterable[Collection[str]],
) -> tuple[NarrowPart, ...]:
    """What has another type in the two networks, in the network's order; what has one scale, or has to have, is a part.

    `names` are tensors of the float network, and what they are behind DequantizeLinear.
    """
    of, other, readers = constants_of(fine), constants_of(coarse), dequantizers(fine)
    makers = {output: node.name for node in fine.graph.node for output in node.output}
    found: dict[str, dict[str, None]] = {}  # scale → nodes
    for node in fine.graph.node:
        if node.op_type != "QuantizeLinear" or len(node.input) < 3:
            continue
        scale, zero_point = (node.input[position] for position in SCALE_AND_ZERO_POINT)
        if zero_point in of and zero_point in other and of[zero_point].data_type != other[zero_point].data_type:
            found.setdefault(scale, {})[makers.get(node.input[0], node.input[0])] = None
    together = [{scale} for scale in found]
    for tensors in alike:
        together.append({readers[names[tensor]].input[1] for tensor in tensors if tensor in names} & found.keys())
    for node in fine.graph.node:
        if node.op_type == "Concat":
            together += _of_one_step(node, fine, of, found.keys())
    return tuple(
        NarrowPart(tuple(dict.fromkeys(node for scale in found if scale in scales for node in found[scale])), scales)
        for scales in _joined(together)
    )


def _of_one_step(
    node: onnx.NodeProto, model: onnx.ModelProto, constants: Mapping[str, onnx.TensorProto], known: Collection[str]
) -> list[set[str]]:
    """The scales of what a Concat joins and of its result, those with the same value together."""
    readers = dequantizers(model)
    scales = {readers[name].input[1] for name in node.input if name in readers}
    scales |= {each.input[1] for each in model.graph.node if each.input[:1] == node.output[:1] and len(each.input) > 2}
    values: dict[bytes, set[str]] = {}
    for scale in scales & set(known):
        values.setdefault(numpy_helper.to_array(constants[scale]).tobytes(), set()).add(scale)
    return list(values.values())


def _joined(sets: Iterable[Set[str]]) -> list[frozenset[str]]:
    """The sets, those that share a member made one; in the order of their first members."""
    found: list[set[str]] = []
    for each in filter(None, sets):
        touched = [other for other in found if other & each]
        merged = set(each).union(*touched)
        at = found.index(touched[0]) if touched else len(found)
        found = [other for other in found if not other & each]
        found.insert(at, merged)
    return list(map(frozenset, found))


def _products_reading(model: onnx.ModelProto, scales: Set[str]) -> list[str]:
    """The products whose first operand has one of these scales."""
    readers = dequantizers(model)
    products = [node for node in model.graph.node if node.op_type in PRODUCTS and node.input[0] in readers]
    return [node.name for node in products if readers[node.input[0]].input[1] in scales]


def _take_steps(made: onnx.ModelProto, other: onnx.ModelProto, scales: Set[str]) -> None:
    """Take the scales and zero points of these results from another network."""
    mine, theirs = constants_of(made), constants_of(other)
    for node in made.graph.node:
        if node.op_type == "QuantizeLinear" and node.input[1] in scales:
            for position in SCALE_AND_ZERO_POINT:
                mine[node.input[position]].CopyFrom(theirs[node.input[position]])


def _take_operands(made: onnx.ModelProto, other: onnx.ModelProto, nodes: Set[str]) -> None:
    """Take the weights and biases of some products from another network."""
    before, theirs = {node.name: node for node in other.graph.node}, dequantizers(other)
    new, readers = constants_of(other), dequantizers(made)
    for node in made.graph.node:
        if node.name not in nodes or node.op_type not in PRODUCTS:
            continue
        for position in WEIGHTS_AND_BIAS:
            if position < len(node.input) and node.input[position] in readers:
                _replace(readers[node.input[position]], theirs[before[node.name].input[position]], made, new)


def _replace(
    reader: onnx.NodeProto, other: onnx.NodeProto, made: onnx.ModelProto, new: Mapping[str, onnx.TensorProto]
) -> None:
    """Let a DequantizeLinear of constants read what another one reads, which has constants of the same names."""
    constants = constants_of(made)
    if reader.input[0] not in constants:
        return
    for name in other.input:
        (constants[name] if name in constants else made.graph.initializer.add()).CopyFrom(new[name])
    reader.input[:] = other.input
    del reader.attribute[:]
    reader.attribute.extend(other.attribute)

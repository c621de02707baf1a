"""Nodes that the compiler takes together: what passes between them stays float.

A normalisation in seven nodes, scores and the mask of their softmax, x · sigmoid(x): eight bits after each node would
lose what the nodes together do not. The compiler's own rules say which these are, so that what stays float is one
operator of a machine and not the host's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

from tilewright.compiler.graph.graph import Graph
from tilewright.compiler.importers.control_flow import reads
from tilewright.compiler.importers.import_onnx import build_graph, is_fixed
from tilewright.compiler.importers.opsets import opset_of
from tilewright.compiler.simplify.forms import FORMS
from tilewright.compiler.simplify.full_rows import NEGLIGIBLE, is_zero_or_negligible
from tilewright.compiler.simplify.rewrite import rewrite
from tilewright.compiler.simplify.tables import FUNCTIONS
from tilewright.isa.program.stored_types import DEFAULT_TYPE
from tilewright.quantization.chosen_masks import CHOICE, chosen_values
from tilewright.quantization.ranges import Range
from tilewright.quantization.same_scale import back_through
from tilewright.quantization.samples import Samples
from tilewright.quantization.tensors import Tensors

JOINED = frozenset(("Add", "Sub", "Mul", "Div", "Max", "Min", "Pow", "Clip", "Relu"))
"""Operators that are no function worth a table by themselves, but part of one."""

CURVES = frozenset(kind.removeprefix("onnx.") for kind in FUNCTIONS) - JOINED - {"Neg", "Abs"}
"""Operators of one tensor that a machine does with a table in any case."""


def inner_tensors(model: onnx.ModelProto) -> frozenset[str]:
    """The activations that only pass between nodes which the compiler takes together; every node has a name."""
    readers = _readers(model)
    found: set[str] = set()
    for nodes in (*_forms(model), *_functions(model, readers)):
        inside = set(nodes)
        made = [name for node in model.graph.node if node.name in inside for name in node.output]
        found.update(name for name in made if readers.get(name) and readers[name] <= inside)
    return frozenset(found)


def _readers(model: onnx.ModelProto) -> Mapping[str, set[str]]:
    """The nodes that read each tensor; a result of the network has a reader without a name."""
    readers: dict[str, set[str]] = {}
    for node in model.graph.node:
        for name in reads(node):
            readers.setdefault(name, set()).add(node.name)
    for value in model.graph.output:
        readers.setdefault(value.name, set()).add("")
    return readers


# -- forms of one operator ---------------------------------------------------------------------------------------------


def _forms(model: onnx.ModelProto) -> Iterator[Sequence[str]]:
    """The nodes of each operator that the compiler finds in several nodes."""
    graph = rewrite(_known_part(model), FORMS)
    for operator in graph.operators:
        if len(operator.nodes) > 1:
            yield operator.nodes


def _known_part(model: onnx.ModelProto) -> Graph:
    """The nodes of fixed sizes without control flow; what others make is an input."""
    values = {v.name: v for v in (*model.graph.input, *model.graph.value_info, *model.graph.output)}
    fixed = {tensor.name for tensor in model.graph.initializer} | {n for n, v in values.items() if is_fixed(v)}
    part = onnx.ModelProto()
    part.CopyFrom(model)
    del part.graph.node[:], part.graph.input[:], part.graph.output[:], part.graph.value_info[:]
    part.graph.input.extend(value for value in model.graph.input if value.name in fixed)
    part.graph.value_info.extend(value for value in model.graph.value_info if value.name in fixed)
    others: list[onnx.NodeProto] = []
    for node in model.graph.node:
        is_plain = set(reads(node)) == set(node.input)
        is_known = is_plain and fixed.issuperset(filter(None, (*node.input, *node.output)))
        (part.graph.node if is_known else others).append(node)
    wanted = {name for node in others for name in reads(node)} | {value.name for value in model.graph.output}
    made = {name for node in part.graph.node for name in node.output}
    part.graph.input.extend(values[n] for node in others for n in node.output if n in fixed)
    part.graph.output.extend(values[name] for name in sorted(wanted & made))
    return build_graph(part, opset_of(model))


# -- functions of one tensor -------------------------------------------------------------------------------------------


def _functions(model: onnx.ModelProto, readers: Mapping[str, set[str]]) -> Iterator[Sequence[str]]:
    """Nodes that compute a curve of one tensor together, element by element."""
    single = {tensor.name for tensor in model.graph.initializer if _is_one_number(tensor)}
    leaves: set[str] = set()
    while True:
        roots, nodes = _roots(model, single, leaves)
        more = {
            tensor
            for tensor, root in roots.items()
            if tensor not in leaves and any(reader not in nodes.get(root, ()) for reader in readers.get(tensor, ()))
        }
        if not more:
            break
        leaves |= more
    kinds = {node.name: node.op_type for node in model.graph.node}
    for group in nodes.values():
        if len(group) > 1 and any(kinds[name] in CURVES for name in group):
            yield group


def _roots(model: onnx.ModelProto, single: set[str], leaves: set[str]) -> tuple[dict[str, str], dict[str, list[str]]]:
    """The one tensor that a tensor is computed from, beyond no leaf, and the nodes that do so for each of them."""
    roots: dict[str, str] = {}
    nodes: dict[str, list[str]] = {}
    for node in model.graph.node:
        operands = {name for name in node.input if name and name not in single}
        sources = {name if name in leaves else roots.get(name, name) for name in operands}
        if node.op_type in CURVES | JOINED and len(sources) == 1 and len(node.output) == 1:
            (root,) = sources
            roots[node.output[0]] = root
            nodes.setdefault(root, []).append(node.name)
    return roots, nodes


def _is_one_number(tensor: onnx.TensorProto) -> bool:
    return all(size == 1 for size in tensor.dims)


# -- masks that are computed -------------------------------------------------------------------------------------------

STEPS = DEFAULT_TYPE.limits[1] - DEFAULT_TYPE.limits[0]
"""Between the least and the greatest value of the default type."""

MOVES = frozenset(("Expand", "Identity", "Reshape", "Slice", "Squeeze", "Tile", "Transpose", "Unsqueeze"))
"""Operators whose result has the values of their operand."""


def with_masks(model: onnx.ModelProto, ranges: Mapping[str, Range], samples: Samples, name: str) -> dict[str, Range]:
    """The ranges for a network in which computed masks are added to scores.

    A mask is 0 or negligible in all samples. Its steps become so large that it can be nothing else; the masked scores
    have no range, and so stay float before their softmax. So do sums of several masks.
    """
    makers = {output: node for node in model.graph.node for output in node.output}
    constants = {tensor.name for tensor in model.graph.initializer if _masks_some(numpy_helper.to_array(tensor))}
    sums = _sums_before_softmax(model)
    read = {name for node in sums.values() for name in node.input} - sums.keys()
    masks = {each for each in read if each in ranges and ranges[each].high == 0 and ranges[each].low <= NEGLIGIBLE}
    if not masks:
        return dict(ranges)
    tensors = Tensors(model, sorted(masks), name)
    for feed in samples:
        masks -= {mask for mask, values in tensors(feed).items() if not is_zero_or_negligible(values)}
    changed = {tensor: each for tensor, each in ranges.items() if not _holds(tensor, masks | constants, sums)}
    for mask in masks:
        least = min(ranges[mask].low, np.float32(NEGLIGIBLE * STEPS))
        unmoved = back_through(MOVES, mask, makers)
        changed |= {tensor: Range(least, np.float32(0)) for tensor in unmoved if tensor in changed}
    return changed


def ranges_of_choices(model: onnx.ModelProto, ranges: Mapping[str, Range]) -> dict[str, Range]:
    """The ranges, that of a Where of two constants with both of them, also if no sample chose one: as no padding."""
    makers = {output: node for node in model.graph.node for output in node.output}
    tensors, found = {tensor.name: tensor for tensor in model.graph.initializer}, dict(ranges)
    for tensor in ranges:
        *_, source = back_through(MOVES, tensor, makers)
        choice = makers.get(source)
        if choice is not None and choice.op_type == CHOICE and {*choice.input[1:]} <= tensors.keys():
            both = chosen_values(choice, tensors).values()
            values = np.concatenate([each.ravel() for each in both]).astype(np.float32)
            if np.isfinite(values).all():
                found[tensor] = Range(min(values.min(), np.float32(0)), max(values.max(), np.float32(0)))
    return found


def _sums_before_softmax(model: onnx.ModelProto) -> dict[str, onnx.NodeProto]:
    """The results of Add, and of Where by a constant, that nothing but a Softmax reads, or sums for one."""
    known = {tensor.name for tensor in model.graph.initializer}
    readers, found = _readers(model), dict[str, onnx.NodeProto]()
    inside = {node.name for node in model.graph.node if node.op_type == "Softmax"}
    for node in reversed(model.graph.node):
        is_sum = node.op_type == "Add" or (node.op_type == "Where" and node.input[0] in known)
        if is_sum and readers.get(node.output[0], {""}) <= inside:
            inside.add(node.name)
            found[node.output[0]] = node
    return found


def _masks_some(value: NDArray[Any]) -> bool:
    """Whether a constant takes scores out, added to them or chosen in their place, and does nothing else to them."""
    return value.dtype.kind == "f" and bool((value <= NEGLIGIBLE).any()) and is_zero_or_negligible(value)


def _holds(tensor: str, masks: Set[str], sums: Mapping[str, onnx.NodeProto]) -> bool:
    """Whether a mask is among what a sum adds up."""
    return tensor in sums and any(name in masks or _holds(name, masks, sums) for name in sums[tensor].input)

"""If and Loop whose course is known: the branch that is taken, and the iterations one after the other.

https://onnx.ai/onnx/operators/onnx__If.html, onnx__Loop.html. Other ones stay: the host runs them. What nodes read
includes what the graphs inside them read.

Example: `y = Loop(2, true, x)` with the body `state → layer → result` becomes `x → layer → layer → y`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import AttributeProto, GraphProto, NodeProto, TensorProto, helper, numpy_helper

from tilewright.compiler.graph.graph import fresh_name
from tilewright.compiler.importers.model_checks import MOST_NODES

MOST_UNROLLED = 1_000
"""A loop becomes at most so many nodes, more than ResNet-50 has in QDQ form; a longer one stays a loop."""

AXES_ARE_AN_INPUT = 13
"""From this opset on, of Unsqueeze."""

Names = Mapping[str, str]


def without_known_control_flow(model: onnx.ModelProto, opset: int) -> onnx.ModelProto:
    """The model with the nodes of taken branches and of counted loops in their place; itself if it has none."""
    while any(node.op_type in ("If", "Loop") for node in model.graph.node):
        flat = _Flat(model, opset)
        if not flat.is_changed:
            return model
        model = flat.model
    return model


@dataclass
class _Flat:
    """A model with its outermost control flow written out, as far as its course is known."""

    given: onnx.ModelProto
    opset: int
    nodes: list[NodeProto] = field(default_factory=list)
    is_changed: bool = False

    def __post_init__(self) -> None:
        self.model = onnx.ModelProto()
        self.model.CopyFrom(self.given)
        self._known = _known_values(self.model.graph)
        self._taken = {name for graph in _graphs(self.model.graph) for name in _names(graph)}
        for node in self.given.graph.node:
            write = self._writer(node)
            if write is None:
                self.nodes.append(node)
            else:
                self.is_changed = True
                write()
        kept = GraphProto(node=self.nodes)
        self.model.graph.ClearField("node")
        self.model.graph.MergeFrom(kept)

    def _writer(self, node: NodeProto) -> Callable[[], None] | None:
        """What writes a node out; None for a node that stays."""
        bodies = {a.name: a.g for a in node.attribute if a.type == AttributeProto.GRAPH}
        if not _is_whole(node, bodies):
            return None
        if node.op_type == "If" and node.input[0] in self._known:
            branch = bodies["then_branch" if self._known[node.input[0]].item() else "else_branch"]
            return (lambda: self._take(node, branch)) if self._has_room(1, branch) else None
        if node.op_type == "Loop":
            count, body = self._count(node, bodies["body"]), bodies["body"]
            scans = len(body.output) - (len(body.input) - 1)
            if count is not None and self._is_short(count, body) and (count or not scans):
                return lambda: self._repeat(node, body, count)
        return None

    def _is_short(self, count: int, body: GraphProto) -> bool:
        """Whether a loop is written out. One with a loop inside stays."""
        nodes = [node for graph in _graphs(body) for node in graph.node]
        has_loop = any(node.op_type == "Loop" for node in nodes)
        return not has_loop and count * len(nodes) <= MOST_UNROLLED and self._has_room(count, body)

    def _has_room(self, count: int, body: GraphProto) -> bool:
        """Whether the network stays as small as a file's may be."""
        return len(self.given.graph.node) + len(self.nodes) + count * (len(body.node) + 1) <= MOST_NODES

    def _count(self, node: NodeProto, body: GraphProto) -> int | None:
        """How often a loop runs; None if that depends on data."""
        times, goes_on = (*node.input, "", "")[:2]
        if goes_on in self._known and not self._known[goes_on].item():
            return 0
        if times not in self._known or not (goes_on in self._known or not goes_on):
            return None
        return max(0, int(self._known[times].item())) if self._never_stops(body) else None

    def _never_stops(self, body: GraphProto) -> bool:
        """Whether a body's condition is the one before, or constant and true."""
        known, makers = self._known | _known_values(body), {node.output[0]: node for node in body.node if node.output}
        name = body.output[0].name
        while name in makers and makers[name].op_type == "Identity":
            name = makers[name].input[0]
        return name == body.input[1].name or (name in known and bool(known[name].item()))

    def _take(self, node: NodeProto, branch: GraphProto) -> None:
        results = self._inline(branch, {}, node.name or node.op_type)
        for result, output in zip(results, node.output, strict=True):
            self._same(result, output)

    def _repeat(self, node: NodeProto, body: GraphProto, count: int) -> None:
        states, title = list(node.input[2:]), node.name or node.op_type
        scanned: list[list[str]] = []
        for number in range(count):
            given = [self._constant(np.array(number)), self._constant(np.array(True)), *states]
            bound = dict(zip((value.name for value in body.input), given, strict=True))
            results = self._inline(body, bound, f"{title}/{number}")[1:]
            states = results[: len(states)]
            scanned.append(results[len(states) :])
        for result, output in zip(states, node.output, strict=False):
            self._same(result, output)
        for parts, output in zip(zip(*scanned, strict=True), node.output[len(states) :], strict=False):
            self._stack(parts, output)

    def _inline(self, body: GraphProto, bound: Names, title: str) -> list[str]:
        """Append a body's nodes, with its inputs `bound`; the names of its results."""
        names = dict(bound)
        for tensor in body.initializer:
            names[tensor.name] = self._fresh(f"{title}/{tensor.name}")
            kept = self.model.graph.initializer.add()
            kept.CopyFrom(tensor)
            kept.name = names[tensor.name]
        names |= {name: self._fresh(f"{title}/{name}") for node in body.node for name in node.output if name}
        for node in body.node:
            made = _renamed(node, names)
            made.name = f"{title}/{node.name or node.op_type}"
            self.nodes.append(made)
        return [names.get(value.name, value.name) for value in body.output]

    def _stack(self, parts: Sequence[str], output: str) -> None:
        """Join what each iteration gave along a new first dimension."""
        if not output:
            return
        raised = [self._fresh(f"{part}/raised") for part in parts]
        for part, result in zip(parts, raised, strict=True):
            if self.opset < AXES_ARE_AN_INPUT:
                self.nodes.append(helper.make_node("Unsqueeze", [part], [result], axes=[0]))
            else:
                self.nodes.append(helper.make_node("Unsqueeze", [part, self._constant(np.array([0]))], [result]))
        self.nodes.append(helper.make_node("Concat", raised, [output], axis=0))

    def _same(self, result: str, output: str) -> None:
        if output:
            self.nodes.append(helper.make_node("Identity", [result], [output]))

    def _constant(self, value: NDArray[Any]) -> str:
        name = self._fresh("iteration")
        self.model.graph.initializer.append(numpy_helper.from_array(value, name))
        return name

    def _fresh(self, name: str) -> str:
        made = fresh_name(name, self._taken)
        self._taken.add(made)
        return made


def _is_whole(node: NodeProto, bodies: Mapping[str, GraphProto]) -> bool:
    """Whether the bodies take and give what their node says; shape inference refuses one of which that is not true."""
    if any(body.sparse_initializer for body in bodies.values()):
        return False
    if node.op_type == "If":
        fits = [len(body.output) == len(node.output) and not body.input for body in bodies.values()]
        return len(fits) == 2 and all(fits) and len(node.input) == 1
    if node.op_type == "Loop" and "body" in bodies:
        body, states = bodies["body"], len(node.input) - 2
        results = len(body.output) - 1
        return 0 <= states == len(body.input) - 2 and states <= results and len(node.output) <= results
    return False


def _renamed(node: NodeProto, names: Names) -> NodeProto:
    """A copy of a node that reads and makes other tensors, in its bodies too."""
    made = NodeProto()
    made.CopyFrom(node)
    made.input[:] = [names.get(name, name) for name in node.input]
    made.output[:] = [names.get(name, name) for name in node.output]
    for attribute in made.attribute:
        for body in _bodies(attribute):
            _rename_outer(body, names)
    return made


def _rename_outer(body: GraphProto, names: Names) -> None:
    """Rename, in place, what a body reads from outside."""
    own = {*(value.name for value in (*body.input, *body.initializer)), *(n for node in body.node for n in node.output)}
    outer = {name: new for name, new in names.items() if name not in own}
    for node in body.node:
        node.CopyFrom(_renamed(node, outer))
    for value in body.output:
        value.name = outer.get(value.name, value.name)


def _bodies(attribute: AttributeProto) -> Iterator[GraphProto]:
    if attribute.type == AttributeProto.GRAPH:
        yield attribute.g
    yield from attribute.graphs


def _graphs(graph: GraphProto) -> Iterator[GraphProto]:
    yield graph
    for node in graph.node:
        yield from (each for a in node.attribute for body in _bodies(a) for each in _graphs(body))


def _names(graph: GraphProto) -> Iterator[str]:
    yield from (value.name for value in (*graph.input, *graph.output, *graph.initializer))
    yield from (name for node in graph.node for name in node.output)


def _known_values(graph: GraphProto) -> dict[str, NDArray[Any]]:
    """The constants of one number."""
    inputs = {value.name for value in graph.input}
    tensors = {tensor.name: tensor for tensor in graph.initializer if tensor.name not in inputs}
    for node in graph.node:
        if node.op_type == "Constant" and [a.name for a in node.attribute] == ["value"]:
            tensors[node.output[0]] = node.attribute[0].t
    single = {name: tensor for name, tensor in tensors.items() if _count(tensor) == 1}
    return {name: numpy_helper.to_array(tensor) for name, tensor in single.items()}


def _count(tensor: TensorProto) -> int:
    return int(np.prod(tensor.dims, dtype=np.int64))


GRAPHS = onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS


# -- what nodes read, and what outputs depend on -----------------------------------------------------------------------


def reads(node: onnx.NodeProto) -> Iterator[str]:
    """The tensors that a node reads, including what its subgraphs read from outside."""
    yield from filter(None, node.input)
    for attribute in node.attribute:
        if attribute.type not in GRAPHS:
            continue
        for graph in (attribute.g, *attribute.graphs):
            made = {value.name for value in (*graph.input, *graph.initializer)}
            made |= {output for inner in graph.node for output in inner.output}
            for inner in graph.node:
                yield from (name for name in reads(inner) if name not in made)
            yield from (value.name for value in graph.output if value.name not in made)


def reached(graph: onnx.GraphProto) -> set[str]:
    """The tensors that the outputs depend on, these included. Nodes come after those that make what they read."""
    found = {value.name for value in graph.output}
    for node in reversed(graph.node):
        if not found.isdisjoint(node.output):
            found.update(reads(node))
    return found


def drop_unreached_nodes(graph: onnx.GraphProto) -> None:
    """Take out the nodes that no output depends on."""
    found = reached(graph)
    kept = [node for node in graph.node if not found.isdisjoint(node.output)]
    if len(kept) < len(graph.node):
        del graph.node[:]
        graph.node.extend(kept)

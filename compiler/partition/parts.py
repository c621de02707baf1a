"""Divides a model into parts that run one after the other, in turn on the machine and on the host."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from tilewright.compiler.errors import CompileError, NodeName
from tilewright.compiler.graph.graph import Graph
from tilewright.compiler.importers.import_onnx import tensor_type
from tilewright.compiler.importers.input_shapes import require_fixed_shape
from tilewright.compiler.partition.source import Source

FREE_INITIALIZERS = 4
"""ONNX's first IR version in which an initialiser need not be an input of its graph as well; a part's never is."""


@dataclass(frozen=True)
class Part:
    """Nodes that run together, in the model's order, and the tensors that come in and go out."""

    on_machine: bool
    nodes: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def cut_into_parts(source: Source, host: Container[str], starts: Container[str] = ()) -> tuple[Part, ...]:
    """Every node that is not free, in as few parts as a greedy walk finds: what is ready on one side, then the other.

    `host` are nodes that the machine cannot do. A quantisation is done where its operand is made. A part of the machine
    also ends before each node of `starts`, which `place_to_cut` finds.
    """
    sides = _sides(source, host)
    walks = [_walk(source, sides, starts_on_machine) for starts_on_machine in (True, False)]
    groups = min(walks, key=len)
    return _with_tensors(source, [piece for group in groups for piece in _pieces(group, starts)])


def place_to_cut(source: Source, part: Part, before: Container[str]) -> str | None:
    """The last node of a part, but not its first, at which another may begin so that it holds the nodes `before`.

    Only integers pass between parts. None if there is no such place.
    """
    place = {name: number for number, name in enumerate(part.nodes)}
    end = min((number for name, number in place.items() if name in before), default=0)
    is_open = [True] * len(part.nodes)
    for name, number in place.items():
        for tensor in source.nodes[name].output:
            if not _is_integer(source, tensor):
                last = max((place.get(reader, number) for reader in _readers(source, (), [tensor])), default=number)
                is_open[number + 1 : last + 1] = [False] * (last - number)
    return next((part.nodes[number] for number in range(end, 0, -1) if is_open[number]), None)


def _is_integer(source: Source, tensor: str) -> bool:
    known = source.tensor_type(tensor)
    return known is not None and np.issubdtype(known.dtype, np.integer)


Group = tuple[bool, tuple[str, ...]]
"""Whether nodes run on the machine, and these nodes."""


def _pieces(group: Group, starts: Container[str]) -> Iterator[Group]:
    on_machine, nodes = group
    first = 0
    for number in range(1, len(nodes)):
        if on_machine and nodes[number] in starts:
            yield on_machine, nodes[first:number]
            first = number
    yield on_machine, nodes[first:]


def whole_network(source: Source) -> Part:
    """All of a network as one part of the machine, but outputs that are inputs, and inputs that no node needs."""
    nodes = tuple(name for name in source.nodes if name not in source.free)
    used = (name for name in source.inputs if name not in source.unused)
    inputs = tuple(name for name in used if name in source.readers or name not in source.outputs)
    return Part(True, nodes, inputs, tuple(name for name in source.outputs if name not in source.inputs))


def part_nodes(source: Source, part: Part) -> list[onnx.NodeProto]:
    """A part's nodes with the free ones that it reads, in the model's order."""
    included = _with_free_nodes(source, part)
    return [source.nodes[name] for name in sorted(included, key=source.positions.__getitem__)]


def part_graph(source: Source, part: Part) -> Graph:
    """A part of the machine as a graph of its own, cut out of the network's; raises CompileError for an open shape."""
    inside = set(part.nodes)
    for error in (error for name, error in source.refused.items() if name in inside):
        raise error
    for name in part.inputs:
        _require_type(source, name)
    whole, names = source.graph, [node.name for node in part_nodes(source, part)]
    operators = tuple(source.operators[name] for name in names if name in source.operators)
    tensors = (name for operator in operators for name in (*operator.inputs, *operator.outputs))
    named = dict.fromkeys([*part.inputs, *part.outputs, *filter(None, tensors)])
    return Graph(
        whole.name,
        operators,
        {name: whole.tensors[name] for name in named},
        {name: whole.constants[name] for name in named if name in whole.constants},
        part.inputs,
        {name: name for name in part.outputs},
        whole.opset,
    )


def _require_type(source: Source, name: str) -> None:
    """Raise CompileError for an input of a part that is no tensor of a fixed shape."""
    if name not in source.graph.tensors:
        value = _input_info(source, name)
        require_fixed_shape(value, "the ONNX model")
        tensor_type(value)


def part_model(source: Source, part: Part) -> onnx.ModelProto:
    """A part of the host as a model of its own, with copies of the free nodes that it reads."""
    nodes = part_nodes(source, part)
    read = dict.fromkeys(tensor for node in nodes for tensor in source.read[node.name])
    wanted = [*read, *part.outputs]
    initializers = [source.initializers[name] for name in dict.fromkeys(wanted) if name in source.initializers]
    made = {output for node in nodes for output in node.output}
    known = [source.types[name] for name in made if name in source.types and name not in part.outputs]
    graph = onnx.helper.make_graph(
        nodes,
        source.model.graph.name or "model",
        [_input_info(source, name) for name in part.inputs],
        [_output_info(source, name) for name in part.outputs],
        initializers,
        value_info=sorted(known, key=lambda value: value.name),
    )
    version = max(source.model.ir_version, FREE_INITIALIZERS)
    return onnx.helper.make_model(
        graph, opset_imports=source.model.opset_import, ir_version=version, producer_name="tilewright"
    )


def _input_info(source: Source, name: str) -> onnx.ValueInfoProto:
    """The type of a tensor that passes between parts; raises CompileError if it is unknown."""
    if name not in source.types:
        maker = source.nodes[source.producers[name]]
        raise CompileError(
            NodeName(maker.name, maker.op_type),
            f"the type of its result {name!r} is not known",
            remedy="add it to the model's value_info",
        )
    return source.types[name]


def _output_info(source: Source, name: str) -> onnx.ValueInfoProto:
    return source.types[name] if name in source.types else onnx.ValueInfoProto(name=name)


# -- which side, in which order ----------------------------------------------------------------------------------------


def _sides(source: Source, host: Container[str]) -> dict[str, bool]:
    """For every node that is not free: whether it runs on the machine."""
    sides: dict[str, bool] = {}
    for name, node in source.nodes.items():
        if _is_free(source, host, name):
            continue
        sides[name] = name not in host
        maker = source.producers.get(node.input[0]) if node.op_type == "QuantizeLinear" else None
        if maker in sides:
            sides[name] = sides[name] and sides[maker]
    for name, node in source.nodes.items():
        if sides.get(name) and node.op_type == "QuantizeLinear" and node.input[0] in source.inputs:
            readers = list(_readers(source, host, node.output))
            sides[name] = not readers or any(sides[reader] for reader in readers)
    return sides


def _is_free(source: Source, host: Container[str], name: str) -> bool:
    return name in source.free and name not in host


def _readers(source: Source, host: Container[str], tensors: Iterable[str]) -> Iterable[str]:
    """The nodes that read these tensors, directly or through free nodes."""
    for tensor in tensors:
        for reader in source.readers.get(tensor, ()):
            if _is_free(source, host, reader):
                yield from _readers(source, host, source.nodes[reader].output)
            else:
                yield reader


def _walk(source: Source, sides: dict[str, bool], on_machine: bool) -> list[Group]:
    before = {name: _makers(source, sides, source.read[name]) for name in sides}
    groups: list[Group] = []
    done: set[str] = set()
    left = list(sides)
    while left:
        taken = []
        for name in left:
            if sides[name] == on_machine and before[name] <= done:
                done.add(name)
                taken.append(name)
        if taken:
            groups.append((on_machine, tuple(taken)))
        left = [name for name in left if name not in done]
        on_machine = not on_machine
    return groups


def _makers(source: Source, sides: Container[str], tensors: Iterable[str]) -> set[str]:
    """The nodes with a side that make these tensors, directly or through free nodes."""
    found: set[str] = set()
    seen: set[str] = set()
    left = list(tensors)
    while left:
        tensor = left.pop()
        maker = source.producers.get(tensor)
        if maker is None or tensor in seen:
            continue
        seen.add(tensor)
        if maker in sides:
            found.add(maker)
        else:
            left += source.read[maker]
    return found


# -- what passes between parts -----------------------------------------------------------------------------------------


def _with_tensors(source: Source, groups: Sequence[Group]) -> tuple[Part, ...]:
    sided = {name for _, nodes in groups for name in nodes}
    made = [{output for name in nodes for output in source.nodes[name].output} for _, nodes in groups]
    roots = {name: _roots(source, sided, [name]) for name in source.outputs}
    finished = [_finished(roots, mine) for mine in made]
    read = [
        _roots(source, sided, [*outputs, *(tensor for name in nodes for tensor in source.read[name])]) - mine
        for (_, nodes), mine, outputs in zip(groups, made, finished, strict=True)
    ]
    wanted = set().union(*read)
    parts = [
        Part(
            on_machine,
            nodes,
            _in_order(source, inputs),
            tuple(dict.fromkeys([*outputs, *_in_order(source, wanted & mine)])),
        )
        for (on_machine, nodes), inputs, mine, outputs in zip(groups, read, made, finished, strict=True)
    ]
    there = {*source.inputs, *(name for part in parts for name in part.outputs)}
    left = tuple(name for name in source.outputs if name not in there)
    if left:  # constants
        parts.append(Part(False, (), _in_order(source, _roots(source, sided, left)), left))
    return tuple(parts)


def _in_order(source: Source, tensors: set[str]) -> tuple[str, ...]:
    """The tensors that are not constant, in the model's order."""
    return tuple(sorted((name for name in tensors if name in source.order), key=source.order.__getitem__))


def _finished(roots: Mapping[str, set[str]], made: set[str]) -> list[str]:
    """The model's outputs that a part makes, directly or through free nodes from their roots."""
    return [name for name, tensors in roots.items() if name in made or (tensors and tensors <= made)]


def _roots(source: Source, sided: Container[str], tensors: Iterable[str]) -> set[str]:
    """The tensors from which free nodes compute these: neither constant nor results of free nodes."""
    found: set[str] = set()
    left = list(tensors)
    while left:
        tensor = left.pop()
        maker = source.producers.get(tensor)
        if maker is not None and maker not in sided:
            left += source.read[maker]
        elif tensor not in source.initializers:
            found.add(tensor)
    return found


def _with_free_nodes(source: Source, part: Part) -> set[str]:
    """A part's nodes and the free ones that they read, and that its outputs come from."""
    included, given = set(part.nodes), set(part.inputs)
    left = [*part.outputs, *(tensor for name in part.nodes for tensor in source.read[name])]
    while left:
        tensor = left.pop()
        maker = source.producers.get(tensor)
        if maker is not None and maker not in included and tensor not in given:
            included.add(maker)
            left += source.read[maker]
    return included

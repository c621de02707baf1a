"""Each operator of an int8 network on the machine, beside unoptimised ONNX Runtime on the same inputs.

python -m tests.accuracy resnet8 mobilenetv2        # a table in Markdown, one line for each kind of operator

A network is cut behind every QuantizeLinear: what lies between quantised tensors becomes a model of its own, which is
compiled, and run in the simulator on the tensors that ONNX Runtime has at that place. So no error adds up.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

import tilewright
from tests.digits import plain_session
from tilewright.compiler.errors import CompileError

Tensors = Mapping[str, NDArray[Any]]

QUANTIZE, DEQUANTIZE = "QuantizeLinear", "DequantizeLinear"


@dataclass(frozen=True, slots=True)
class Layer:
    """What computes one quantised tensor from others: `model` has quantised tensors as its inputs and its output."""

    kind: str
    name: str
    model: onnx.ModelProto
    inputs: tuple[str, ...]
    output: str


@dataclass(frozen=True, slots=True)
class Agreement:
    """How many of a layer's values differ from ONNX Runtime's, and the largest distance in steps.

    `host`: why the machine does not compute the layer, or empty; its values are then not compared.
    """

    kind: str
    name: str
    values: int
    unequal: int
    furthest: int
    host: str = ""


def compare(model: onnx.ModelProto, isa: str, feeds: Iterable[Tensors]) -> list[Agreement]:
    """Every layer of a QDQ network, on all feeds of its inputs together."""
    found: dict[str, Agreement] = {}
    programs: dict[str, tilewright.Program | str] = {}
    for feed in feeds:
        tensors = quantised_tensors(model, feed)
        for layer in layers(model, tensors):
            if layer.name not in programs:
                programs[layer.name] = compiled(layer, isa)
            of_feed = agreement(layer, programs[layer.name], tensors)
            found[layer.name] = of_feed if layer.name not in found else _together(found[layer.name], of_feed)
    return list(found.values())


def _together(a: Agreement, b: Agreement) -> Agreement:
    return replace(a, values=a.values + b.values, unequal=a.unequal + b.unequal, furthest=max(a.furthest, b.furthest))


def compiled(layer: Layer, isa: str) -> tilewright.Program | str:
    """The layer's program, or why the machine does not compute it."""
    try:
        program = tilewright.compile(layer.model, isa, effort=0)
    except CompileError as error:
        return str(error)
    return program.host_nodes[0].reason if program.host_nodes else program


def agreement(layer: Layer, program: tilewright.Program | str, tensors: Tensors) -> Agreement:
    """What a layer's program gives on the network's own tensors, beside what the network has there."""
    if isinstance(program, str):
        return Agreement(layer.kind, layer.name, 0, 0, 0, program)
    result = program.run({name: tensors[name] for name in layer.inputs}).outputs[layer.output]
    distance = np.abs(result.astype(np.int64) - tensors[layer.output].astype(np.int64))
    return Agreement(layer.kind, layer.name, distance.size, int((distance > 0).sum()), int(distance.max(initial=0)))


def quantised_tensors(model: onnx.ModelProto, feed: Tensors) -> dict[str, NDArray[Any]]:
    """Every tensor that a QuantizeLinear makes, as ONNX Runtime computes it without optimisations."""
    exposed = onnx.ModelProto()
    exposed.CopyFrom(model)
    names = [node.output[0] for node in model.graph.node if node.op_type == QUANTIZE]
    del exposed.graph.output[:]
    exposed.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    return dict(zip(names, plain_session(exposed).run(names, dict(feed)), strict=True))


def layers(model: onnx.ModelProto, tensors: Tensors) -> list[Layer]:
    """The layers of a QDQ network in order; quantisations of its float inputs are none."""
    producer = {output: node for node in model.graph.node for output in node.output}
    cut = [node for node in model.graph.node if node.op_type == QUANTIZE]
    return [_layer(model, producer, node, tensors) for node in cut if node.input[0] in producer]


def _layer(
    model: onnx.ModelProto, producer: Mapping[str, onnx.NodeProto], quantize: onnx.NodeProto, tensors: Tensors
) -> Layer:
    """All nodes between a QuantizeLinear and the quantised tensors before it."""
    wanted, inputs, needed = [quantize], [], {*quantize.input}
    pending = [quantize.input[0]]
    seen = set(pending)
    while pending:
        node = producer[pending.pop()]
        wanted.append(node)
        needed.update(node.input)
        for name in node.input:
            if name in tensors:
                inputs.append(name)
            elif name in producer and name not in seen:
                seen.add(name)
                pending.append(name)
    nodes = [node for node in model.graph.node if any(node is one for one in wanted)]
    output = quantize.output[0]
    inputs = list(dict.fromkeys(inputs))
    graph = helper.make_graph(
        nodes,
        output,
        [_value_info(name, tensors) for name in inputs],
        [_value_info(output, tensors)],
        [tensor for tensor in model.graph.initializer if tensor.name in needed],
    )
    opsets = model.opset_import
    operators = [node for node in nodes if node.op_type not in (QUANTIZE, DEQUANTIZE)]
    kind = " + ".join(_kind(node, graph) for node in operators) or "requantisation"
    part = helper.make_model(graph, opset_imports=opsets, ir_version=model.ir_version)
    return Layer(kind, operators[-1].name if operators else quantize.name, part, tuple(inputs), output)


def _value_info(name: str, tensors: Tensors) -> onnx.ValueInfoProto:
    element = helper.np_dtype_to_tensor_dtype(tensors[name].dtype)
    return helper.make_tensor_value_info(name, element, tensors[name].shape)


def _kind(node: onnx.NodeProto, graph: onnx.GraphProto) -> str:
    """The operator, and whether a convolution is one for each channel."""
    group = next((attribute.i for attribute in node.attribute if attribute.name == "group"), 1)
    return f"{node.op_type} (groups)" if group > 1 else node.op_type


def table(found: Iterable[Agreement]) -> str:
    """A line for each kind of operator, in Markdown; what ran on the host is not counted."""
    kinds = defaultdict(list)
    for one in found:
        if not one.host:
            kinds[one.kind].append(one)
    lines = ["| operator | layers | values | equal | furthest |", "| --- | ---: | ---: | ---: | ---: |"]
    for kind, of in sorted(kinds.items()):
        values, unequal = sum(one.values for one in of), sum(one.unequal for one in of)
        equal = 100 * (1 - unequal / values)
        lines.append(f"| {kind} | {len(of)} | {values:,} | {equal:.4f} % | {max(one.furthest for one in of)} |")
    return "\n".join(lines)


def main() -> None:
    """Print the table of all networks named together."""
    from programs.networks.quantise import random_inputs
    from programs.networks.registry import int8_network

    parser = argparse.ArgumentParser(prog="python -m tests.accuracy", description="Operators beside ONNX Runtime.")
    parser.add_argument("names", nargs="+", help="networks of programs/networks, or ONNX files of one input each")
    parser.add_argument("--isa", default="base16", help="the machine; default: base16")
    parser.add_argument("--feeds", type=int, default=1, help="random inputs for each network; default: 1")
    arguments = parser.parse_args()
    found: list[Agreement] = []
    for name in arguments.names:
        model = onnx.load(name) if Path(name).suffix == ".onnx" else int8_network(name)
        feeds = [random_inputs(model, 1000 + seed) for seed in range(arguments.feeds)]
        of = compare(model, arguments.isa, feeds)
        for one in of:
            if one.furthest > 1 or one.host:
                print(f"{name}: {one}")
        found += of
    print(table(found))


if __name__ == "__main__":
    main()

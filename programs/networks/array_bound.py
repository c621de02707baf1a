"""How many cycles the array needs at the very least for a network's convolutions, and what depthwise ones are of it.

python -m programs.networks.array_bound mobilenetv2              # the row of docs/depthwise.md
python -m programs.networks.array_bound mobilenetv2 --layers     # each depthwise layer, too

The array takes a vector a cycle, so a product, with channels as lanes, takes the pixels of its result, times the tiles
that its weights fill.
`exchanged` is what each depthwise layer would take if a vector were a row of pixels of one channel: its elements have
to change lanes before and after, an element a cycle, and the row of the window is a band of the weights.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import onnx

from programs.networks.depthwise import NETWORKS, cycles_of
from programs.networks.registry import float_network
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.machine import Machine

HEADER = "| network | other layers | depthwise layers | both | cycles measured | depthwise, exchanged, at least |"


@dataclass(frozen=True, slots=True)
class ProductLayer:
    """A convolution or a dense layer: its window, its weights as a matrix, and its elements before and after."""

    name: str
    window: tuple[int, int]
    inner: int
    channels: int
    is_depthwise: bool
    read: int
    made: int

    @property
    def pixels(self) -> int:
        return self.made // self.channels

    def cycles(self, rows: int, cols: int) -> int:
        """Vectors that stream through an array of this size; a depthwise layer has one channel a row and column."""
        if self.is_depthwise:
            return self.pixels * prod(self.window) * -(-self.channels // min(rows, cols))
        return self.pixels * -(-self.inner // rows) * -(-self.channels // cols)

    def exchanged_cycles(self, rows: int, cols: int) -> int:
        """The same with pixels as lanes, the elements' change of lanes included, an element a cycle each way."""
        height, width = self.window
        results = min(cols, rows - width + 1)  # of a row of pixels that the array reads at once
        return self.read + self.made + self.made * height // results


def layers(name: str) -> Iterator[ProductLayer]:
    """The layers of a network that the array computes."""
    graph = onnx.shape_inference.infer_shapes(float_network(name)).graph
    shapes = {
        value.name: tuple(d.dim_value for d in value.type.tensor_type.shape.dim)
        for value in (*graph.input, *graph.value_info, *graph.output)
    }
    shapes |= {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type not in ("Conv", "Gemm"):
            continue
        source, weights, result = shapes[node.input[0]], shapes[node.input[1]], shapes[node.output[0]]
        groups = next((attribute.i for attribute in node.attribute if attribute.name == "group"), 1)
        height, width = weights[2:] if len(weights) == 4 else (1, 1)
        inner = prod(weights[1:])
        yield ProductLayer(
            node.name, (height, width), inner, result[1], groups == result[1], prod(source), prod(result)
        )


def row(name: str, machine: Machine, show_layers: bool) -> str:
    """A network's row in Markdown, after its depthwise layers if they are asked for."""
    size = machine.array.rows, machine.array.cols
    found = list(layers(name))
    depthwise = [layer for layer in found if layer.is_depthwise]
    if show_layers:
        for layer in depthwise:
            print(f"{layer.name:24} {layer.cycles(*size):>10,} {layer.exchanged_cycles(*size):>10,}")
    apart = sum(layer.cycles(*size) for layer in depthwise)
    others = sum(layer.cycles(*size) for layer in found) - apart
    exchanged = sum(layer.exchanged_cycles(*size) for layer in depthwise)
    measured = cycles_of(name, machine.name, ())
    return f"| `{name}` | {others:,} | {apart:,} | {others + apart:,} | {measured:,} | {exchanged:,} |"


def main() -> None:
    """Print a row for each network."""
    parser = argparse.ArgumentParser(prog="python -m programs.networks.array_bound", description="Least cycles.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"networks; default: {', '.join(NETWORKS)}")
    parser.add_argument("--isa", default="base16", help="the machine; default: base16")
    parser.add_argument("--layers", action="store_true", help="each depthwise layer, too")
    arguments = parser.parse_args()
    machine = load_machine(arguments.isa)
    print(f"{HEADER}\n| --- |{' ---: |' * 5}")
    for name in arguments.names or NETWORKS:
        print(row(name, machine, arguments.layers), flush=True)


if __name__ == "__main__":
    main()

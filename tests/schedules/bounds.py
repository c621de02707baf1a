"""The least that any schedule of a network's layers takes on a machine, from the layers' shapes and the machine alone.

python -m tests.schedules.bounds                              # entries of the table that miss what is wanted
python -m tests.schedules.bounds resnet18 vta16 --layers      # by layer

No program is compiled. Channels are lanes, and a vector gives the sums of one pixel, or of some columns whose channels
lie after each other. So, for each layer:

- `array`: each weight tile streams a vector for each pixel; the next tile takes as many cycles as the array has rows,
  so a tile takes no fewer. Depthwise layers have one channel a row and column. Of as many columns joined as take the
  fewest. Arrays that are twins divide it. Without an array, the vector engine takes a cycle for each row of a tile.
- `vector`: each word of a result is requantised once; sums of two tensors and pooling windows take words of their own.
  Where a statement reads blocks of words, a depthwise layer may take a word for each block of its window, and not the
  array.
- `DRAM`: weights are read once, and for each lane block of a product's result a word of what it is requantised with.

`all` adds up each of the three, and takes the largest; depthwise layers are divided between array and vector engine
so that this is the least. `prefetch`: when a layer begins, all that it follows from is done, and no more weights of
it and of what follows from it are on chip than their memory holds; the others are still to be read. `fill`: the
first word comes a round trip to DRAM after the start, and the last sums leave the array as late after their vector.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import prod

import onnx
from rich.console import Console
from rich.table import Table

from tests.schedules.cycles import ENTRIES, WANTED, read_table
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.engine import Template
from tilewright.isa.machine.machine import Machine
from tilewright.isa.templates.systolic import systolic_weights
from tilewright.isa.timing import dma_round_trip, mma_write, vec_beats

PRODUCTS = ("Conv", "Gemm", "MatMul")
POOLS = ("MaxPool",)
SUMS = ("Add",)


@dataclass(frozen=True, slots=True)
class LayerBound:
    """Cycles of each resource; `tapped`: of the vector engine if it computes this layer in place of the array."""

    name: str
    array: int
    vector: int
    tapped: int | None
    reads: int  # bytes of weights
    after: frozenset[int]  # the layers that it follows from, by position
    parameters: int = 0  # bytes


@dataclass(frozen=True, slots=True)
class Bound:
    """What no schedule takes less than, and by which resource."""

    cycles: int
    by: str


@dataclass(frozen=True, slots=True)
class _Node:
    """A node of the network with the shapes of what it reads and writes."""

    node: onnx.NodeProto
    sources: Sequence[tuple[int, ...]]
    constants: Sequence[bool]
    result: tuple[int, ...]

    @property
    def attributes(self) -> Mapping[str, object]:
        return {each.name: onnx.helper.get_attribute_value(each) for each in self.node.attribute}


def bound_of(layers: Sequence[LayerBound], machine: Machine) -> Bound:
    """The largest of what each resource takes."""
    fill = dma_round_trip(machine) + (mma_write(machine.array) if machine.of(Template.SYSTOLIC) else 0)
    array, vector = _of_engines(layers, machine)
    dram = _dram(layers, machine)
    found = {"array": array, "vector engine": vector, "DRAM": dram, "prefetch": _prefetch(layers, machine)}
    by = max(found, key=found.__getitem__)
    return Bound(int(found[by]) + fill, by)


def _of_engines(layers: Sequence[LayerBound], machine: Machine) -> tuple[float, float]:
    """Cycles of the arrays and of the vector engine, which does all where there is no array."""
    array, vector = _balanced(layers)
    if not machine.of(Template.SYSTOLIC):
        return 0.0, array * min(vec_beats(f) for f in machine.formats.values() if f.statement.dot is not None) + vector
    return array / (1 + len(machine.twins)), vector


def _dram(layers: Sequence[LayerBound], machine: Machine) -> int:
    return -(-sum(layer.reads + layer.parameters for layer in layers) // machine.read_bytes)


def _balanced(layers: Sequence[LayerBound]) -> tuple[float, float]:
    """Cycles of the array and of the vector engine, with any share of a layer that both can compute on either."""
    array = float(sum(layer.array for layer in layers if layer.tapped is None))
    vector = float(sum(layer.vector for layer in layers if layer.tapped is None))
    either = [(layer.array, layer.tapped) for layer in layers if layer.tapped is not None]
    vector += sum(tapped for _, tapped in either)
    for on_array, tapped in sorted(either, key=lambda each: each[0] / each[1]):
        share = min(1.0, max(0.0, (vector - array) / (on_array + tapped)))
        array, vector = array + share * on_array, vector - share * tapped
    return array, vector


def _prefetch(layers: Sequence[LayerBound], machine: Machine) -> int:
    """The largest, over all layers, of what comes before it and of the reads that cannot have been made by then."""
    memories = {systolic_weights(format).memory for format in machine.formats_of(Template.SYSTOLIC)}
    capacity = sum(machine.memories[name].depth * machine.memories[name].word_bytes for name in memories)
    found = 0
    for position in range(len(layers)):
        before = [layers[earlier] for earlier in layers[position].after]
        behind = [layer for at, layer in enumerate(layers) if at == position or position in layer.after]
        late = max(0, sum(layer.reads for layer in behind if layer.tapped is None) - capacity)
        found = max(found, int(max(_of_engines(before, machine))) + late // machine.read_bytes)
    return found


def layers_of(name: str, machine: Machine) -> list[LayerBound]:
    """The layers of a network of programs/networks, in its order."""
    nodes = _nodes(name)
    producer: dict[str, frozenset[int]] = {}
    found: list[LayerBound] = []
    for each in nodes:
        after = frozenset[int]().union(*(producer.get(tensor, frozenset()) for tensor in each.node.input))
        layer = _layer(each, after, machine)
        if layer is not None:
            after |= {len(found)}
            found.append(layer)
        for tensor in each.node.output:
            producer[tensor] = after
    return found


@cache
def _nodes(name: str) -> tuple[_Node, ...]:
    from programs.networks.registry import float_network

    graph = onnx.shape_inference.infer_shapes(float_network(name)).graph
    shapes = {
        value.name: tuple(d.dim_value for d in value.type.tensor_type.shape.dim)
        for value in (*graph.input, *graph.value_info, *graph.output)
    }
    constants = {tensor.name for tensor in graph.initializer}
    shapes |= {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    return tuple(
        _Node(node, [shapes.get(i, ()) for i in node.input], [i in constants for i in node.input], shapes[result])
        for node in graph.node
        for result in node.output[:1]
        if result in shapes
    )


def _layer(each: _Node, after: frozenset[int], machine: Machine) -> LayerBound | None:
    """What a node takes; None if it takes nothing that is counted."""
    kind, result = each.node.op_type, each.result
    words = prod(result) // result[1] * -(-result[1] // machine.lanes) if len(result) > 1 else 1
    if kind in PRODUCTS:
        return _product(each, words, after, machine)
    if kind in POOLS:
        window = each.attributes["kernel_shape"]
        return LayerBound(each.node.name, 0, words * prod(window), None, 0, after)  # type: ignore[call-overload]
    if kind in SUMS and not any(each.constants):
        return LayerBound(each.node.name, 0, words, None, 0, after)
    return None


def _product(each: _Node, words: int, after: frozenset[int], machine: Machine) -> LayerBound:
    rows, cols, result, name = machine.array.rows, machine.array.cols, each.result, each.node.name
    if each.node.op_type == "MatMul" and not any(each.constants):
        *batch, m, n = result
        inner = -(-each.sources[0][-1] // rows)
        tiles = min(m * inner * -(-n // cols), n * inner * -(-m // cols))
        return LayerBound(name, prod(batch) * tiles, 0, None, 0, after)
    weights = each.sources[1]
    reads = prod(weights)
    if each.node.op_type != "Conv":
        channels = result[-1]
        inner, pixels = prod(weights) // channels, prod(result) // channels
        tiles, blocks = -(-inner // rows) * -(-channels // cols), -(-channels // machine.lanes)
        parameters = blocks * _parameter_bytes(machine)
        return LayerBound(name, tiles * max(pixels, rows), pixels * blocks, None, reads, after, parameters)
    array = min(_vectors(each, factor, machine) for factor in _factors(result[-1]))
    words = min(prod(result) // result[1] // f * -(-f * result[1] // machine.lanes) for f in _factors(result[-1]))
    is_apart = each.attributes.get("group", 1) != 1
    taps = weights[2] * -(-weights[3] // _block(machine))
    tapped = words * taps if is_apart and _block(machine) > 1 else None
    parameters = -(-result[1] // machine.lanes) * _parameter_bytes(machine)
    return LayerBound(name, array, words, tapped, reads, after, parameters)


def _parameter_bytes(machine: Machine) -> int:
    """A word of the memory whose elements are records: what the channels of a lane block are requantised with."""
    return min((memory.word_bytes for memory in machine.memories.values() if memory.element.type is None), default=0)


def _factors(columns: int) -> list[int]:
    """How many columns may be joined to one."""
    return [factor for factor in range(1, columns + 1) if columns % factor == 0]


def _vectors(each: _Node, factor: int, machine: Machine) -> int:
    """Vectors of a convolution of which so many columns of the result, and as many or one of its input, are one."""
    _, inner, height, width = each.sources[1]
    channels, pixels = factor * each.result[1], prod(each.result) // each.result[1] // factor
    stride, dilation = (each.attributes.get(key, [1, 1])[1] for key in ("strides", "dilations"))  # type: ignore[index]
    columns = (factor - 1) * stride + width if dilation == 1 else width  # that the window of the result's columns reads
    if each.attributes.get("group", 1) == 1:
        tiles = -(-inner * height * columns // machine.array.rows) * -(-channels // machine.array.cols)
    elif factor > 1 and channels > min(machine.array.rows, machine.array.cols):
        return _vectors(each, 1, machine)
    else:
        tiles = -(-channels // min(machine.array.rows, machine.array.cols)) * height * -(-columns // factor)
    return tiles * max(pixels, machine.array.rows)


def _block(machine: Machine) -> int:
    """The most consecutive words of activations that a vector statement reads at once and multiplies."""
    return max(
        operand.block
        for format in machine.formats_of(Template.VECTOR)
        if len(format.streams) > 1
        for operand in format.streams
    )


def main() -> None:
    """Print bounds."""
    parser = argparse.ArgumentParser(prog="python -m tests.schedules.bounds", description="The least of any schedule.")
    parser.add_argument("entry", nargs="*", metavar="NETWORK MACHINE", help="default: all that miss what is wanted")
    parser.add_argument("--layers", action="store_true", help="each layer, too")
    arguments = parser.parse_args()
    if len(arguments.entry) not in (0, 2):
        parser.error("expected a network and a machine")
    entries = [(arguments.entry[0], arguments.entry[1])] if arguments.entry else missed()
    print(markdown(entries))
    if arguments.layers:
        for name, isa in entries:
            _print_layers(f"{name} on {isa}", layers_of(name, load_machine(isa)), load_machine(isa))


def missed() -> list[tuple[str, str]]:
    """The entries of the committed table that take more cycles than wanted."""
    committed = read_table()
    return [key for key in ENTRIES if key in WANTED and committed[key].fewest > WANTED[key]]


def markdown(entries: Sequence[tuple[str, str]]) -> str:
    """The table of docs/schedules.md."""
    committed = read_table()
    rows = ["| network | machine | wanted | cycles | bound | by |", "| --- | --- | ---: | ---: | ---: | --- |"]
    for key in entries:
        name, isa = key
        bound = bound_of(layers_of(name, load_machine(isa)), load_machine(isa))
        wanted = f"{WANTED[key]:,}" if key in WANTED else ""
        cycles = f"{committed[key].cycles:,}" if key in committed else ""
        rows.append(f"| {name} | `{isa}` | {wanted} | {cycles} | {bound.cycles:,} | {bound.by} |")
    return "\n".join(rows)


def _print_layers(title: str, layers: Sequence[LayerBound], machine: Machine) -> None:
    table = Table("layer", title=title)
    for column in ("array", "vector", "instead of the array", "DRAM"):
        table.add_column(column, justify="right")
    for layer in layers:
        tapped = "" if layer.tapped is None else f"{layer.tapped:,}"
        dram = _dram([layer], machine)
        table.add_row(layer.name, f"{layer.array:,}", f"{layer.vector:,}", tapped, f"{dram:,}")
    array, vector = _of_engines(layers, machine)
    table.add_row("all", f"{int(array):,}", f"{int(vector):,}", "", f"{_dram(layers, machine):,}")
    Console(width=150).print(table)


if __name__ == "__main__":
    main()

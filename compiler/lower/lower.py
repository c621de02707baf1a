"""Level 1 to level 2: each integer operator as loop nests with integer constants of the machine's widths.

The numbers are those of the plain QDQ graph: sums exact, one rounding for each operator, ties as the machine rounds.
Tensors have the integers that are stored (isa/program/stored_types.py) from here on; every tensor is [N, C, H, W].
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tilewright.compiler.errors import RAISING, Blame, CompileError
from tilewright.compiler.graph.graph import BETWEEN, JOINED, Graph, Operator, TensorType, scales_of_parts, stored_shape
from tilewright.compiler.graph.rules import WEIGHTED
from tilewright.compiler.lower.input_windows import WindowedInput, window_inputs
from tilewright.compiler.lower.lowerings import LOWERINGS
from tilewright.compiler.lower.network import LoweringNetwork, identity_index, network_of, result_loops
from tilewright.compiler.nest.expressions import source
from tilewright.compiler.nest.nest import Access, Buffer, Nest, NestProgram
from tilewright.compiler.simplify.kinds import NAMING, REORDERING
from tilewright.compiler.simplify.permute_moves import at_most_four
from tilewright.compiler.simplify.transposes import is_at_the_start
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.program import Tensor
from tilewright.isa.program.stored_types import COMPUTED, DEFAULT_TYPE, DTYPES, REALS, STORED_TYPES
from tilewright.isa.program.windows import Windows


def lower(graph: Graph, machine: Machine, blame: Blame = RAISING) -> NestProgram:
    """The nests of a simplified graph; raises CompileError for what no nest or number of the machine can express.

    If `blame` collects, what comes back is complete only when it found nothing.
    """
    graph, windowed = window_inputs(graph, machine)
    network = network_of(graph, machine)
    network.remarks |= _remark_on_columns(graph) | _remarks_on_roundings(graph) | _remarks_on_types(network)
    _name_buffers(network)
    for operator in graph.operators:
        with blame.on(operator.nodes):
            if operator.kind not in NAMING:
                _require_computed(operator, network)
            if operator.kind in LOWERINGS:
                network.nests += LOWERINGS[operator.kind](operator, network)
            elif operator.kind not in NAMING:
                raise CompileError(operator, expected=f"a simplified graph, of {', '.join((*LOWERINGS, *NAMING))}")
    network.nests += _output_copies(network)
    _drop_unread(network)
    readers = _readers(graph)
    return NestProgram(
        graph.name,
        tuple(network.nests),
        network.buffers,
        network.constants,
        network.constant_types,
        tuple(_input_tensor(name, network, windowed.get(name), readers) for name in graph.inputs),
        tuple(_output_tensor(name, tensor, network) for name, tensor in graph.outputs.items()),
        network.remarks,
    )


def _require_computed(operator: Operator, network: LoweringNetwork) -> None:
    """Raise CompileError for an operand or result of a type that the machine's activations do not hold."""
    weights = operator.inputs[1:] if operator.kind in WEIGHTED and network.floats is not None else ()
    for name in (*operator.inputs, *operator.outputs):
        if name in weights:
            continue  # integers that are to be numbers of its floats: products look at their values
        dtype = network.graph.tensors[name].dtype
        if dtype in COMPUTED and not network.computes(dtype):
            what = "a constant" if name in network.graph.constants else "an activation"
            expected = " or ".join(name for name in COMPUTED if network.computes(name))
            remedy = f"take a machine whose activations hold {dtype}"
            raise CompileError(operator, f"{what} is {dtype}", expected=expected, remedy=remedy)


# -- buffers, inputs and outputs ---------------------------------------------------------------------------------------


def _name_buffers(network: LoweringNetwork) -> None:
    """Give every quantised tensor its buffer: those the host sees have its names, a reshape shares its input's.

    A buffer has the shape in which operators compute it and read it; the host's arrays may have another.
    """
    graph = network.graph
    roots: dict[str, str] = {name: name for name in graph.inputs}
    for operator in graph.operators:
        source = operator.inputs[0]
        if operator.kind in NAMING:
            roots |= {operator.outputs[0]: roots[source]} if source in roots else {}
        else:
            roots |= {name: name for name in operator.outputs}
    shapes = _computed_shapes(roots, network)
    dtypes = {tensor: graph.tensors[tensor].dtype for tensor in roots}
    elements = {roots[tensor]: network.stored(of).element for tensor, of in dtypes.items() if of in STORED_TYPES}
    named: dict[str, str] = {name: name for name in graph.inputs}
    for name, tensor in graph.outputs.items():
        if tensor not in roots:
            raise CompileError(fact=f"output {name!r} is constant", expected="a result that depends on an input")
        named.setdefault(roots[tensor], name)
    for tensor, root in roots.items():
        network.buffer_of[tensor] = named.get(root, root)
        shape = shapes[root] if root in shapes else stored_shape(at_most_four(graph.tensors[root].shape))
        buffer = Buffer(named.get(root, root), shape, elements.get(root, network.arithmetic.activation))
        network.buffers[buffer.name] = buffer


def _remark_on_columns(graph: Graph) -> dict[str, str]:
    """Which layers have joined columns, if there are any."""
    joined = {each.name: each.attributes[JOINED] for each in graph.operators if each.attributes.get(JOINED, 1) > 1}
    if not joined:
        return {}
    counts = " or ".join(map(str, sorted(set(joined.values()))))
    names = list(joined)
    return {"columns": f"{counts} are joined to one in {_listed(names)}, so that their channels fill the array"}


def _remarks_on_types(network: LoweringNetwork) -> dict[str, str]:
    """Which layers have activations that the machine stores shifted, or in a wider type, than the model has them."""
    layers: dict[str, dict[str, None]] = {}
    for operator in network.graph.operators:
        tensors = (*operator.inputs, *operator.outputs) if operator.kind not in NAMING else ()
        for dtype in {network.graph.tensors[name].dtype for name in tensors if name not in network.graph.constants}:
            if dtype in COMPUTED and network.computes(dtype):
                layers.setdefault(dtype, {})[operator.name] = None
    remarks = {}
    for dtype, names in sorted(layers.items()):
        stored = network.stored(dtype)
        if stored.element != stored.values:
            shifted = f", {'less' if stored.offset > 0 else 'plus'} {abs(stored.offset):,}" if stored.offset else ""
            remarks[f"activations of {dtype}"] = f"are {stored.element} in memory{shifted}, in {_listed(list(names))}"
    return remarks


def _listed(names: Sequence[str]) -> str:
    """One layer's name, or how many there are and the first and the last."""
    return names[0] if len(names) == 1 else f"{len(names)} layers from {names[0]} to {names[-1]}"


def _remarks_on_roundings(graph: Graph) -> dict[str, str]:
    """Which results are rounded more often than the model says."""
    found = {each.name: each.attributes[BETWEEN] for each in graph.operators if BETWEEN in each.attributes}
    return {
        f"steps of {name}": f"is computed in several instructions with {DEFAULT_TYPE.name} between them, where the "
        f"model rounds once: up to {off:.2g} steps off before the last rounding, so that integers differ by one at most"
        for name, off in found.items()
    }


def _computed_shapes(roots: Mapping[str, str], network: LoweringNetwork) -> dict[str, tuple[int, int, int, int]]:
    """The shape in which operators compute and read each buffer; raises CompileError where a reshape lies between."""
    shapes: dict[str, tuple[int, int, int, int]] = {}
    for operator in network.graph.operators:
        for tensor in () if operator.kind in NAMING else (*operator.inputs, *operator.outputs):
            shape = network.shape(tensor) if tensor in roots else (0, 0, 0, 0)
            if tensor in roots and shapes.setdefault(roots[tensor], shape) != shape:
                reshape = _reshape_before(tensor, network)
                with RAISING.on(reshape.nodes):
                    raise CompileError(
                        reshape,
                        f"the result {list(shape)} is laid out otherwise than {list(shapes[roots[tensor]])}",
                        expected="a reshape that keeps [N, C, H, W], or one before a product with constant weights "
                        "(Gemm, MatMul)",
                    )
    return shapes


def _reshape_before(tensor: str, network: LoweringNetwork) -> Operator:
    """The operator that gave a tensor another shape; if it is as the host has it, one that gives others another."""
    if tensor not in network.graph.producers:
        return next(operator for operator in network.graph.operators if _reshapes(operator, network))
    producer = network.graph.producers[tensor]
    is_reshape = network.shape(producer.inputs[0]) != network.shape(tensor)
    return producer if is_reshape else _reshape_before(producer.inputs[0], network)


def _reshapes(operator: Operator, network: LoweringNetwork) -> bool:
    return operator.kind in NAMING and network.shape(operator.inputs[0]) != network.shape(operator.outputs[0])


def _output_copies(network: LoweringNetwork) -> list[Nest]:
    """A copy for every output whose buffer already has the name of another input or output."""
    nests = []
    for name, tensor in network.graph.outputs.items():
        held = network.buffer_of[tensor]
        if held == name:
            continue
        buffer = network.buffers[held]
        network.buffers[name] = replace(buffer, name=name)
        loops = result_loops(buffer.shape)
        reads = {"a": Access(held, identity_index())}
        copied = source("a", buffer.type.values)
        nests.append(Nest(f"{name}.copy", (), loops, reads, Access(name, identity_index()), copied, 0))
    return nests


def _drop_unread(network: LoweringNetwork) -> None:
    """Drop nests whose result nobody reads, such as channels gathered for convolutions that read them with gaps."""
    wanted = set(network.graph.outputs)
    kept = []
    for nest in reversed(network.nests):
        if nest.result.tensor in wanted:
            wanted |= {access.tensor for access in nest.reads.values()}
            kept.append(nest)
    network.nests = kept[::-1]
    read = {access.tensor for nest in kept for access in nest.reads.values()}
    network.constants = {name: value for name, value in network.constants.items() if name in read}
    network.constant_types = {name: network.constant_types[name] for name in network.constants}
    used = {*network.graph.inputs, *network.graph.outputs, *(nest.result.tensor for nest in kept)}
    network.buffers = {name: buffer for name, buffer in network.buffers.items() if name in used}


def _readers(graph: Graph) -> dict[str, list[Operator]]:
    """The operators that have a tensor as their first operand, in order."""
    readers: dict[str, list[Operator]] = {}
    for operator in graph.operators:
        for first in operator.inputs[:1]:
            readers.setdefault(first, []).append(operator)
    return readers


def _input_tensor(
    name: str, network: LoweringNetwork, windowed: WindowedInput | None, readers: Mapping[str, Sequence[Operator]]
) -> Tensor:
    graph = network.graph
    host = graph.tensors[name] if windowed is None else windowed.host
    quantizers = [operator for operator in readers.get(name, ()) if operator.kind == "quantize"]
    if host.dtype in REALS and len(quantizers) > 1:
        with RAISING.on([node for quantizer in quantizers for node in quantizer.nodes]):
            raise CompileError(
                fact=f"input {name!r} is quantised in {len(quantizers)} ways", expected="one scale and zero point"
            )
    if host.dtype in REALS and quantizers:
        quantized = quantizers[0].outputs[0]
        with RAISING.on(quantizers[0].nodes):
            _require_full_range(quantizers[0], graph.tensors[quantized])
    elif host.quantization is not None:
        quantized = name
    else:
        raise CompileError(fact=f"input {name!r} does not reach an output", remedy="remove it from the model")
    turned = next(_transposes_after(name, graph, readers), None)
    windows = None if windowed is None else windowed.windows
    return _host_tensor(name, host, quantized, turned, windows, network)


@dataclass(frozen=True, slots=True)
class _Turned:
    """How the host orders the elements of its array: seen as the shape `view`, then transposed by `axes`."""

    view: tuple[int, ...]
    axes: tuple[int, ...]


def _host_tensor(
    name: str,
    host: TensorType,
    quantized: str,
    turned: _Turned | None,
    windows: Windows | None,
    network: LoweringNetwork,
) -> Tensor:
    """An input or output: the host's array, and the quantised tensor that it is converted to or from."""
    if host.dtype not in DTYPES:
        raise CompileError(fact=f"{name!r} is {host.dtype} for the host", expected=", ".join(DTYPES))
    tensor_type = network.graph.tensors[quantized]
    assert tensor_type.quantization is not None
    scale, zero, scales = 1.0, 0, None
    if tensor_type.quantization.axis is None:
        scale, zero = network.quantization(quantized)
    else:
        scales = scales_of_parts(tensor_type.quantization, tensor_type.shape)
        scales = replace(scales, zero_points=tuple(point - network.offset(quantized) for point in scales.zero_points))
    stored = network.stored(tensor_type.dtype)
    integers = stored.stored_name if host.dtype in REALS else DEFAULT_TYPE.name
    held = "" if stored == STORED_TYPES[tensor_type.dtype] else str(stored.element)
    axes = () if turned is None else turned.axes
    view = () if turned is None or turned.view == host.shape else turned.view
    return Tensor(
        name, host.shape, _stored(name, network), host.dtype, scale, zero, 0, 0, axes, windows, integers, scales, view,
        held,
    )  # fmt: skip


def _transposes_after(name: str, graph: Graph, readers: Mapping[str, Sequence[Operator]]) -> Iterator[_Turned]:
    """The transposes between a graph's input and what computes with it."""
    for operator in readers.get(name, ()):
        if operator.inputs[:1] != (name,):
            continue
        if operator.kind == "transpose" and is_at_the_start(operator, graph):
            yield _Turned(graph.tensors[name].shape, operator.attributes["axes"])
        elif operator.kind in ("quantize", "reshape"):
            yield from _transposes_after(operator.outputs[0], graph, readers)


def _stored(name: str, network: LoweringNetwork) -> tuple[int, int, int, int]:
    n, c, h, w = network.buffers[name].shape
    return n, c, h, w


def _require_full_range(operator: Operator, tensor_type: TensorType) -> None:
    if (operator.attributes["low"], operator.attributes["high"]) != tensor_type.limits:
        raise CompileError(operator, "the input is limited before it is quantised", remedy="limit it after")


def _output_tensor(name: str, tensor: str, network: LoweringNetwork) -> Tensor:
    turned, graph = None, network.graph
    held = tensor
    path = [tensor]  # from the host inwards
    while (producer := graph.producers.get(held)) and producer.kind in ("dequantize", *REORDERING):
        if producer.kind == "transpose" and not is_at_the_start(producer, graph):
            back = tuple(int(axis) for axis in np.argsort(producer.attributes["axes"]))
            turned = _Turned(graph.tensors[held].shape, back)
        held = producer.inputs[0]
        path.append(held)
    quantized = next((name for name in path if graph.tensors[name].quantization is not None), None)
    if quantized is None:
        raise CompileError(fact=f"output {name!r} is not quantised", expected="QuantizeLinear and DequantizeLinear")
    return _host_tensor(name, graph.tensors[tensor], quantized, turned, None, network)

"""ONNX's standard backend interface, as `onnx.backend.base` states it: networks on a simulated machine and the host.

    import tilewright.onnx_backend as backend
    outputs = backend.prepare(model, "CPU", isa="base16").run([image])

A program holds weights, scales and zero points as constants, so inputs of a model that are nothing else are bound to
the values of the run: one program for each set of values. What the machine cannot do runs on the host.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx.backend.base import Backend, BackendRep, Device, DeviceType, namedtupledict

from tilewright.api import compile, machine_of  # noqa: A004
from tilewright.compiler.errors import CompileError
from tilewright.errors import InputError
from tilewright.host.model import HostModel
from tilewright.isa.files.loader import load_machine, shipped_machines
from tilewright.isa.machine.machine import Machine
from tilewright.program import Program

DEFAULT_ISA = "base16"

PARAMETERS: Mapping[str, Sequence[int]] = {
    "QuantizeLinear": (1, 2),
    "DequantizeLinear": (1, 2),
    "QLinearConv": (1, 2, 3, 4, 5, 6, 7, 8),
    "QLinearMatMul": (1, 2, 3, 4, 5, 6, 7),
    "ConvInteger": (1, 2, 3),
    "MatMulInteger": (1, 2, 3),
}
"""Operator → the operands that a program holds as constants."""


class NetworkRep(BackendRep):
    """A prepared model; its programs are compiled when the first inputs come."""

    def __init__(self, model: onnx.ModelProto, machine: Machine, on: str, host_floats: bool) -> None:
        self.model = model
        self._machine = machine
        self._on = on
        self._host_floats = host_floats
        self._compiled: dict[Any, Program | HostModel] = {}
        given = {tensor.name for tensor in model.graph.initializer}
        self._inputs = [value.name for value in model.graph.input if value.name not in given]
        self._outputs = [value.name for value in model.graph.output]

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The outputs in the model's order, also by name; `inputs` in its order, or by name. Raises InputError."""
        if kwargs:
            raise InputError(f"run takes only inputs, not {', '.join(kwargs)}")
        values = self._named(inputs)
        network = self.network(values)
        if isinstance(network, Program):
            results = network.run({value.name: values[value.name] for value in network.inputs}, on=self._on).outputs
        else:
            results = network.run(self._outputs, values)
        outputs: tuple[Any, ...] = namedtupledict("Outputs", self._outputs)(*(results[name] for name in self._outputs))
        return outputs

    def network(self, inputs: Any) -> Program | HostModel:
        """What runs for these inputs: a program (with its host nodes), or the whole model on the host."""
        values = self._named(inputs)
        bound = {name: values[name] for name in parameters(self.model) if name in values}
        key = tuple((name, *_meaning(value, name in bound)) for name, value in values.items())
        if key not in self._compiled:
            self._compiled[key] = self._compile(values, bound)
        return self._compiled[key]

    @property
    def networks(self) -> tuple[Program | HostModel, ...]:
        """Everything that ran so far."""
        return tuple(self._compiled.values())

    def _named(self, inputs: Any) -> dict[str, Any]:
        if isinstance(inputs, Mapping):
            named = dict(inputs)
        else:
            listed = list(inputs) if isinstance(inputs, list | tuple) else [inputs]
            if len(listed) != len(self._inputs):
                raise InputError(f"got {len(listed)} inputs; the model takes: {', '.join(self._inputs) or 'none'}")
            named = dict(zip(self._inputs, listed, strict=True))
        return {name: np.asarray(value) if isinstance(value, np.generic) else value for name, value in named.items()}

    def _compile(self, values: Mapping[str, Any], bound: Mapping[str, NDArray[Any]]) -> Program | HostModel:
        shapes = {
            value.name: tuple(values[value.name].shape)
            for value in self.model.graph.input
            if value.name in values and value.name not in bound and _is_open(value)
        }
        try:
            return compile(with_constants(self.model, bound), self._machine, (), shapes, host_floats=self._host_floats)
        except CompileError:
            if not self._host_floats:
                raise
            return HostModel(self.model.SerializeToString())


class TilewrightBackend(Backend):
    """The interface's functions; each takes these options beside the interface's arguments.

    `isa`: the machine, by name, path or value; `on`: what runs its programs; `host_floats`: whether the host may run
    what the machine cannot even begin, such as float models.
    """

    @classmethod
    def prepare(  # type: ignore[override]
        cls,
        model: onnx.ModelProto,
        device: str = "CPU",
        *,
        isa: str | Path | Machine = DEFAULT_ISA,
        on: str = "sim",
        host_floats: bool = True,
    ) -> NetworkRep:
        """Check a model and make it ready to run. Raises onnx.checker.ValidationError, InputError."""
        if not cls.supports_device(device):
            raise InputError(f"no device {device!r}; there is: CPU, which simulates the machine")
        onnx.checker.check_model(model)
        machine = _shipped_machine(isa) if isinstance(isa, str) and isa in shipped_machines() else machine_of(isa)
        return NetworkRep(model, machine, on, host_floats)

    @classmethod
    def run_node(  # type: ignore[override]
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[np.dtype[Any], tuple[int, ...]]] | None = None,
        opset_version: int | None = None,
        **options: Any,
    ) -> tuple[Any, ...]:
        """Run one node on arrays, in the order of its inputs; `outputs_info` is not needed."""
        model = model_of_node(node, inputs, opset_version or onnx.defs.onnx_opset_version())
        return cls.prepare(model, device, **options).run(inputs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Only CPU: the machine is simulated there."""
        try:
            return bool(Device(device).type == DeviceType.CPU)
        except AttributeError:
            return False


prepare = TilewrightBackend.prepare
run_model = TilewrightBackend.run_model
run_node = TilewrightBackend.run_node
supports_device = TilewrightBackend.supports_device
is_compatible = TilewrightBackend.is_compatible


@cache
def _shipped_machine(name: str) -> Machine:
    return load_machine(name)


def parameters(model: onnx.ModelProto) -> list[str]:
    """The inputs of a model that its nodes read only as weights, scales and zero points."""
    read: dict[str, list[bool]] = {}
    for node in model.graph.node:
        for position, name in enumerate(node.input):
            read.setdefault(name, []).append(position in PARAMETERS.get(node.op_type, ()))
    outputs = {value.name for value in model.graph.output}
    return [v.name for v in model.graph.input if v.name not in outputs and all(read.get(v.name, [False]))]


def with_constants(model: onnx.ModelProto, values: Mapping[str, NDArray[Any]]) -> onnx.ModelProto:
    """The model with some of its inputs as initialisers."""
    if not values:
        return model
    bound = onnx.ModelProto()
    bound.CopyFrom(model)
    kept = [value for value in bound.graph.input if value.name not in values]
    del bound.graph.input[:]
    bound.graph.input.extend(kept)
    bound.graph.initializer.extend(onnx.numpy_helper.from_array(value, name) for name, value in values.items())
    return bound


def model_of_node(node: onnx.NodeProto, inputs: Sequence[NDArray[Any]], opset: int) -> onnx.ModelProto:
    """A model of one node, with the types of these arrays. Raises InputError for an unknown operator."""
    names = [name for name in node.input if name]
    if len(names) != len(inputs):
        raise InputError(f"got {len(inputs)} inputs; the node takes: {', '.join(names) or 'none'}")
    given = [
        onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in zip(names, inputs, strict=True)
    ]
    try:
        schema = onnx.defs.get_schema(node.op_type, opset, node.domain)
        data = {name: onnx.numpy_helper.from_array(array) for name, array in zip(names, inputs, strict=True)}
        types = onnx.shape_inference.infer_node_outputs(schema, node, {value.name: value.type for value in given}, data)
    except (onnx.defs.SchemaError, onnx.shape_inference.InferenceError) as error:
        raise InputError(f"the node {node.op_type} cannot be run: {error}") from error
    outputs = [onnx.helper.make_value_info(name, types[name]) for name in node.output if name]
    graph = onnx.helper.make_graph([node], node.op_type, given, outputs)
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid(node.domain, opset)])


def _is_open(value: onnx.ValueInfoProto) -> bool:
    if not value.type.HasField("tensor_type"):
        return False
    tensor = value.type.tensor_type
    return not tensor.HasField("shape") or any(not size.dim_value for size in tensor.shape.dim)


def _meaning(value: Any, is_bound: bool) -> tuple[Any, ...]:
    """What of an input a program depends on."""
    if not isinstance(value, np.ndarray):
        return ()
    return value.shape, value.dtype.name, value.tobytes() if is_bound else b""

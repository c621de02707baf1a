"""Compiles a network whose every node need not run on the machine: what cannot, runs on the host, and says why."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

import onnx

from tilewright.compiler.errors import CompileError, DamagedModel
from tilewright.compiler.options import Options
from tilewright.compiler.partition.faults import find_faults
from tilewright.compiler.partition.parts import QUANTIZERS, Part, cut_into_parts, part_model
from tilewright.compiler.partition.source import Source, read_source, reads
from tilewright.compiler.pipeline import Dump, Model, compile_model
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.partitioned import HostNode, HostSegment, NpuSegment, Partitioned, Segment, Value
from tilewright.isa.program.program import Program

MOVES = (*QUANTIZERS, "Cast", "Dropout", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze")
"""Operators that compute nothing: a part of the machine's that has only these is not worth its transfers."""

NOT_WORTH = "only moves or quantises data between nodes of the host, which is not worth the transfer"


def compile_partitioned(
    model: Model,
    machine: Machine,
    options: Options | None = None,
    dump: Dump | None = None,
    host_floats: bool = False,
) -> Program | Partitioned:
    """Compile an ONNX model; a Program if the machine can do all of it, otherwise in parts on machine and host.

    Raises CompileError for a model that is wrong, and for one of which nothing can run on the machine unless
    `host_floats`: then it runs on the host as a whole.
    """
    options = options or Options()
    dumped: list[tuple[str, str]] = []
    keep = None if dump is None else lambda name, text: dumped.append((name, text))
    try:
        program = compile_model(model, machine, options, keep)
    except DamagedModel:
        raise
    except CompileError as error:
        return _compile_in_parts(model, machine, options, dump, host_floats, error)
    for name, text in dumped:
        assert dump is not None
        dump(name, text)
    return program


def _compile_in_parts(
    model: Model, machine: Machine, options: Options, dump: Dump | None, host_floats: bool, whole: CompileError
) -> Partitioned:
    """`whole` is why the machine cannot do all of it."""
    try:
        source = read_source(model.SerializeToString() if isinstance(model, onnx.ModelProto) else model, options.shapes)
    except CompileError:
        raise whole from None  # a model that is wrong
    search = _Search(source, machine, replace(options, shapes={}), whole, keeps_texts=dump is not None)
    parts, reasons = search.parts()
    reasons = {name: _reason(name, whole) for name in whole.nodes} | reasons
    if not any(part.on_machine for part in parts) and not host_floats:
        raise whole
    segments = [
        search.npu_segment(part, dump) if part.on_machine else _host_segment(source, part, parts, reasons)
        for part in parts
    ]
    return Partitioned(
        machine,
        tuple(segments),
        tuple(_value(source, name) for name in source.inputs),
        tuple(_value(source, name) for name in source.outputs),
        {"model": source.model.graph.name or "model"},
    )


class _Search:
    """Finds nodes for the host until the compiler takes every part of the machine's."""

    def __init__(
        self, source: Source, machine: Machine, options: Options, whole: CompileError, keeps_texts: bool
    ) -> None:
        """`whole` is why the machine cannot do all of it in one part."""
        self._whole = whole
        self._source = source
        self._machine = machine
        self._options = options
        self._keeps_texts = keeps_texts
        self._reasons: dict[str, str] = {name: _reason(name, error) for name, error in source.refused.items()}
        self._compiled: dict[Part, tuple[Program, list[tuple[str, str]]]] = {}

    def parts(self) -> tuple[tuple[Part, ...], dict[str, str]]:
        """The parts, all of whose programs are compiled, and why each node of the host is there."""
        while True:
            parts = cut_into_parts(self._source, self._reasons)
            if len(parts) == 1 and parts[0].on_machine:
                wrong = [self._faults_of(self._whole, parts[0], part_model(self._source, parts[0]))]
            else:
                wrong = [self._faults(part) for part in parts if part.on_machine]
            if not any(wrong):
                return parts, self._reasons
            for faults in wrong:
                self._reasons = {**faults, **self._reasons}

    def npu_segment(self, part: Part, dump: Dump | None) -> NpuSegment:
        program, dumped = self._compiled[part]
        for name, text in dumped:
            if dump is not None:
                dump(name, text)
        return NpuSegment(program)

    def _faults(self, part: Part) -> Mapping[str, str]:
        """Why nodes of a part cannot run on the machine; empty when it is compiled."""
        if part in self._compiled:
            return {}
        model = part_model(self._source, part)
        if {self._source.nodes[name].op_type for name in part.nodes} <= set(MOVES):
            found = find_faults(model, self._machine)
            return self._reasons_of(found, part) or dict.fromkeys(part.nodes, NOT_WORTH)
        error = self._compile(part, model)
        return {} if error is None else self._faults_of(error, part, model)

    def _faults_of(self, error: CompileError, part: Part, model: onnx.ModelProto) -> Mapping[str, str]:
        """The nodes behind an error of a part; raises the error when it is of none, such as what does not fit."""
        found = find_faults(model, self._machine) or dict.fromkeys(error.nodes, error)
        if not found:
            raise error
        return self._reasons_of(found, part)

    def _reasons_of(self, found: Mapping[str, CompileError], part: Part) -> dict[str, str]:
        """Reasons of nodes that are not the host's yet; an error that is of none of these is of the whole part."""
        reasons = {name: _reason(name, error) for name, error in found.items() if name in self._source.nodes}
        if not found or not reasons.keys() <= self._reasons.keys():
            return reasons
        error = next(iter(found.values()))
        return {name: _reason(name, error) for name in part.nodes}

    def _compile(self, part: Part, model: onnx.ModelProto) -> CompileError | None:
        """Compile a part, or say why not."""
        dumped: list[tuple[str, str]] = []
        keep = (lambda name, text: dumped.append((name, text))) if self._keeps_texts else None
        try:
            program = compile_model(model, self._machine, self._options, keep)
        except DamagedModel:
            raise
        except CompileError as error:
            return error
        self._compiled[part] = program, dumped
        return None


def _reason(name: str, error: CompileError) -> str:
    """An error's text without the node that it begins with, and without the list of all operators."""
    text = re.sub(rf"^node {re.escape(repr(name))}( \([\w.]+\))?: ", "", str(error))
    return text.partition("; those that have: ")[0]


# -- the host's parts --------------------------------------------------------------------------------------------------


def _host_segment(source: Source, part: Part, parts: Iterable[Part], reasons: Mapping[str, str]) -> Segment:
    from_machine = {name for other in parts if other.on_machine for name in other.outputs}
    to_machine = {name for other in parts if other.on_machine for name in other.inputs}
    model = part_model(source, part)
    named = [name for name in part.nodes if name in reasons] if part.nodes else [node.name for node in model.graph.node]
    nodes = tuple(
        HostNode(
            name,
            source.nodes[name].op_type,
            reasons.get(name, NOT_WORTH),
            _transfers(source, name, from_machine, to_machine),
        )
        for name in named
    )
    return HostSegment(model.SerializeToString(deterministic=True), part.inputs, part.outputs, nodes)


def _transfers(source: Source, name: str, from_machine: set[str], to_machine: set[str]) -> int:
    """Bytes that pass between a node and the machine; a tensor passes as the integers next to the node."""
    node = source.nodes[name]
    read = {_dequantized(source, tensor) for tensor in reads(node)} & from_machine
    made = {of for tensor in node.output for of in (tensor, *_quantized(source, tensor))} & to_machine
    return sum(map(source.bytes, read | made))


def _dequantized(source: Source, tensor: str) -> str:
    maker = source.producers.get(tensor)
    if maker is not None and source.nodes[maker].op_type == "DequantizeLinear":
        return source.nodes[maker].input[0]
    return tensor


def _quantized(source: Source, tensor: str) -> list[str]:
    readers = (source.nodes[reader] for reader in source.readers.get(tensor, ()))
    return [node.output[0] for node in readers if node.op_type == "QuantizeLinear"]


def _value(source: Source, name: str) -> Value:
    if name not in source.types or not source.types[name].type.HasField("tensor_type"):
        raise CompileError(f"{name!r} is an input or output of the model and not a tensor; expected tensors")
    of = source.types[name].type.tensor_type
    dtype = onnx.helper.tensor_dtype_to_np_dtype(of.elem_type).name
    sizes = tuple(d.dim_value if d.HasField("dim_value") else None for d in of.shape.dim)
    return Value(name, dtype, sizes)

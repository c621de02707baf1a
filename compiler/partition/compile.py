"""Compiles a network of which the machine runs what it can. The rest runs on the host, each node with its reason."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import onnx

from tilewright.compiler.errors import CompileError, DamagedModel, TooLong
from tilewright.compiler.options import Options
from tilewright.compiler.partition.faults import find_faults
from tilewright.compiler.partition.front import Front
from tilewright.compiler.partition.parts import Part, cut_into_parts, part_model, place_to_cut
from tilewright.compiler.partition.source import Source, reads
from tilewright.compiler.pipeline import Dump, Keep, Model, compile_model, keeping
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.partitioned import HostNode, HostSegment, NpuSegment, Partitioned, Segment, Value
from tilewright.isa.program.program import MODEL, Program

WITHOUT_ARITHMETIC = frozenset(
    {
        *("QuantizeLinear", "DequantizeLinear", "Cast", "Dropout", "Identity"),
        *("Flatten", "Reshape", "Squeeze", "Transpose", "Unsqueeze"),
    }
)
"""Operators that compute nothing: a part with only these is not worth sending to the machine."""

NOT_WORTH = "only moves or quantises data between nodes of the host, which is not worth the transfer"


def compile_partitioned(
    model: Model,
    machine: Machine,
    options: Options | None = None,
    dump: Dump | None = None,
    host_floats: bool = False,
    keep: Keep | None = None,
    front: Front | None = None,
    host: bool = True,
) -> Program | Partitioned:
    """Compile an ONNX model: to a Program if the machine can run all of it, otherwise to parts for machine and host.

    A network whose program would have more instructions than waits can count becomes several programs. Raises
    CompileError for an invalid model, and for one that the machine can run no part of. With `host_floats` the host runs
    all of the latter; without `host` it runs nothing, and what the machine cannot do is an error. `dump` and `keep` are
    given what each pass made, program by program. With a `front`, what does not depend on the machine is taken from
    there, or kept there for the next machine; not for `dump` and `keep`, which are given that, too.
    """
    options, kept = options or Options(), keeping(dump, keep)
    compiler = _Compiler(machine, front if front is not None else Front(), keeps_results=kept is not None)
    try:
        compiled = compiler.compile(model, options)
    except DamagedModel:
        raise
    except CompileError as error:
        if not host and not isinstance(error, TooLong):
            raise
        parts = _compile_in_parts(model, compiler, options, kept, host_floats, error)
        if not host and parts.host_nodes:
            raise
        return parts
    return compiled.shown(kept)


@dataclass(frozen=True)
class _Compiled:
    """A program and its passes' results, held back until it is certain that the program is part of the whole."""

    program: Program
    results: Sequence[tuple[str, Any]]

    def shown(self, keep: Keep | None) -> Program:
        """The program, once its passes' results are handed on."""
        for name, value in self.results:
            if keep is not None:
                keep(name, value)
        return self.program


@dataclass(frozen=True)
class _Compiler:
    """Compiles one network and its parts for one machine."""

    machine: Machine
    front: Front
    keeps_results: bool

    def compile(self, model: Model, options: Options) -> _Compiled:
        if not self.keeps_results:
            return _Compiled(self.front.compile(model, self.machine, options), ())
        results: list[tuple[str, Any]] = []
        keep = lambda name, value: results.append((name, value))  # noqa: E731
        return _Compiled(compile_model(model, self.machine, options, keep=keep), results)


def _compile_in_parts(
    model: Model, compiler: _Compiler, options: Options, keep: Keep | None, host_floats: bool, whole: CompileError
) -> Partitioned:
    """`whole` says why the machine cannot run all of it."""
    try:
        content = model.SerializeToString() if isinstance(model, onnx.ModelProto) else model
        source = compiler.front.source(content, options.shapes)
    except CompileError:
        raise whole from None  # a model that is wrong
    search = _Search(source, compiler, replace(options, shapes={}), whole)
    parts, reasons = search.parts()
    reasons = {name: whole.reason_beside(name) for name in whole.nodes} | reasons
    if not any(part.on_machine for part in parts) and not host_floats:
        raise whole
    segments = [
        search.npu_segment(part, keep) if part.on_machine else _host_segment(source, part, parts, reasons)
        for part in parts
    ]
    return Partitioned(
        compiler.machine,
        tuple(segments),
        tuple(_value(source, name) for name in source.inputs),
        tuple(_value(source, name) for name in source.outputs),
        {MODEL: source.model.graph.name or "model"},
    )


class _Search:
    """Moves nodes to the host until every machine part compiles."""

    def __init__(self, source: Source, compiler: _Compiler, options: Options, whole: CompileError) -> None:
        """`whole` says why the machine cannot run all of it in one part."""
        self._whole = whole
        self._source = source
        self._compiler = compiler
        self._machine = compiler.machine
        self._options = options
        self._reasons: dict[str, str] = {name: error.reason_beside(name) for name, error in source.refused.items()}
        self._starts: dict[str, str] = {}
        """Nodes that begin a program because one with those before them would be too long: each with that error."""
        self._compiled: dict[Part, _Compiled] = {}

    def parts(self) -> tuple[tuple[Part, ...], dict[str, str]]:
        """The parts, every program among them compiled, and the reason of each node on the host."""
        while True:
            known = len(self._starts)
            parts = cut_into_parts(self._source, self._reasons, self._starts)
            if len(parts) == 1 and parts[0].on_machine:
                wrong = [self._faults_of(self._whole, parts[0], part_model(self._source, parts[0]))]
            else:
                wrong = [self._faults(part) for part in parts if part.on_machine]
            if not any(wrong) and len(self._starts) == known:
                return parts, self._reasons
            for faults in wrong:
                self._reasons = {**faults, **self._reasons}

    def npu_segment(self, part: Part, keep: Keep | None) -> NpuSegment:
        program = self._compiled[part].shown(keep)
        if part.nodes[0] not in self._starts:
            return NpuSegment(program)
        layer = program.layers[0].name
        remarks = [f"begins another program: with what is before it, {self._starts[part.nodes[0]]}"]
        remarks += [program.metadata[layer]] if layer in program.metadata else []
        return NpuSegment(replace(program, metadata={**program.metadata, layer: "; ".join(remarks)}))

    def _faults(self, part: Part) -> Mapping[str, str]:
        """Why nodes of a part cannot run on the machine; empty when it is compiled."""
        if part in self._compiled:
            return {}
        model = part_model(self._source, part)
        if {self._source.nodes[name].op_type for name in part.nodes} <= WITHOUT_ARITHMETIC:
            found = find_faults(model, self._machine)
            return self._reasons_of(found, part) or dict.fromkeys(part.nodes, NOT_WORTH)
        error = self._compile(part, model)
        return {} if error is None else self._faults_of(error, part, model)

    def _faults_of(self, error: CompileError, part: Part, model: onnx.ModelProto) -> Mapping[str, str]:
        """The nodes at fault in a part, with reasons; raises the error if no node is, as when memory runs out.

        None is at fault in a part that is too long: it is to be cut.
        """
        if isinstance(error, TooLong) and self._cut(part, error):
            return {}
        found = find_faults(model, self._machine) or dict.fromkeys(error.nodes, error)
        if not found:
            raise error
        return self._reasons_of(found, part)

    def _cut(self, part: Part, error: TooLong) -> bool:
        """Note where a part that is too long ends instead; whether there are such places."""
        places = {place_to_cut(self._source, part, before) for before in error.starts} - {None}
        self._starts |= {place: error.fact for place in places if place is not None}
        return bool(places)

    def _reasons_of(self, found: Mapping[str, CompileError], part: Part) -> dict[str, str]:
        """Reasons of nodes that are not on the host yet. An error that names none of them counts for the whole part."""
        reasons = {name: error.reason_beside(name) for name, error in found.items() if name in self._source.nodes}
        if not found or not reasons.keys() <= self._reasons.keys():
            return reasons
        error = next(iter(found.values()))
        return {name: error.reason_beside(name) for name in part.nodes}

    def _compile(self, part: Part, model: onnx.ModelProto) -> CompileError | None:
        """Compile a part, or say why not."""
        try:
            self._compiled[part] = self._compiler.compile(model, self._options)
        except DamagedModel:
            raise
        except CompileError as error:
            return error
        return None


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
    """Bytes that pass between a node and the machine. A tensor passes in its quantised form."""
    node = source.nodes[name]
    read = {_dequantized(source, tensor) for tensor in reads(node)} & from_machine
    made = {passed for tensor in node.output for passed in (tensor, *_quantized(source, tensor))} & to_machine
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
        raise CompileError(fact=f"{name!r} is an input or output of the model and not a tensor", expected="tensors")
    tensor = source.types[name].type.tensor_type
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type).name
    sizes = tuple(d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim)
    return Value(name, dtype, sizes)

"""Compiles a network of which the machine runs what it can. The rest runs on the host, each node with its reason."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import onnx

from tilewright.compiler.errors import CompileError, FatalError, NotQuantized, TooLong, TooSmall
from tilewright.compiler.importers.narrow_weights import remarks_on_weights
from tilewright.compiler.importers.remarks import remarks_of
from tilewright.compiler.options import Options
from tilewright.compiler.partition.front import source_of
from tilewright.compiler.partition.images import ABOUT, for_batch
from tilewright.compiler.partition.parts import Part, cut_into_parts, part_model, place_to_cut, whole_network
from tilewright.compiler.partition.programs import Programs
from tilewright.compiler.partition.source import Source
from tilewright.compiler.partition.worth import ONLY_MOVES, why_not_worth
from tilewright.compiler.pipeline import Dump, Model, keeping
from tilewright.compiler.running import Keep
from tilewright.compiler.session import MemoScope, Session
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.partitioned import HostNode, HostSegment, NetworkValue, NpuSegment, Partitioned, Segment
from tilewright.isa.program.program import MODEL, Program
from tilewright.isa.rare_collection import rare_collection


@rare_collection()
def compile_partitioned(
    model: Model,
    machine: Machine,
    options: Options | None = None,
    dump: Dump | None = None,
    host_floats: bool = False,
    keep: Keep | None = None,
    session: Session | None = None,
    host: bool = True,
) -> Program | Partitioned:
    """Compile an ONNX model: to a Program if the machine can run all of it, otherwise to parts for machine and host.

    A network whose program would have more instructions than waits can count becomes several programs. Raises
    CompileError for an invalid model, and for a float one that the machine can run no part of. With `host_floats` the
    host runs all of the latter; without `host` it runs nothing, and what the machine cannot do is an error. `dump` and
    `keep` are given what each pass made, program by program. With a `session`, what does not depend on the machine or
    on the network is taken from there, or kept there for the next one.

    With a batch, a run takes as many images, or fewer where that takes fewer cycles for each, which `images` and a
    remark say; raises CompileError for a network of which it is not known that images stay apart.
    """
    options, kept = options or Options(), keeping(dump, keep)
    found = session or Session()

    def make(source: Source, kept: Keep | None) -> Program | Partitioned:
        with found.inner(MemoScope.PROGRAM) as own:
            made = _compile(source, machine, options, own, kept, host_floats, host)
        remarks = remarks_of(source.model)
        for program in [made] if isinstance(made, Program) else made.programs:
            remarks |= remarks_on_weights(source.model, program)
        return _with_remarks(made, remarks) if remarks else made

    if options.batch is None:
        return make(source_of(model, options.shapes, found), kept)
    source_of(model, options.shapes, found, options.batch)  # first of all: whether images stay apart
    made, remark = for_batch(options.batch, lambda images: source_of(model, options.shapes, found, images), make, kept)
    return _with_remarks(made, {ABOUT: remark})


def _compile(
    source: Source,
    machine: Machine,
    options: Options,
    session: Session,
    kept: Keep | None,
    host_floats: bool,
    host: bool,
) -> Program | Partitioned:
    programs = Programs(source, machine, options, session, keeps_results=kept is not None)
    whole = whole_network(source)
    try:
        programs.compile(whole)
    except FatalError:
        raise
    except CompileError as error:
        if not host and not isinstance(error, TooLong):
            raise programs.with_remedy(whole, error) from None
        # Its traceback holds this frame, and with it all programs, which hold the error.
        parts = _compile_in_parts(programs, kept, host_floats, error.with_traceback(None))
        if not host and parts.host_nodes:
            raise
        return parts
    program = programs.shown(whole, kept)
    if (whole.inputs, whole.outputs) == (source.inputs, source.outputs):
        return program
    return _partitioned(source, machine, [NpuSegment(program)])


def _with_remarks(made: Program | Partitioned, remarks: Mapping[str, str]) -> Program | Partitioned:
    """With what is to be said of the file in its first program, if there is one."""
    if isinstance(made, Program):
        return replace(made, metadata={**made.metadata, **remarks})
    segments = list(made.segments)
    for position, segment in enumerate(segments):
        if isinstance(segment, NpuSegment):
            program = segment.program
            segments[position] = NpuSegment(replace(program, metadata={**program.metadata, **remarks}))
            break
    return replace(made, segments=tuple(segments))


def _compile_in_parts(programs: Programs, keep: Keep | None, host_floats: bool, whole: CompileError) -> Partitioned:
    """`whole` says why the machine cannot run all of it."""
    source = programs.source
    search = _PartitionSearch(programs, whole)
    parts, reasons = search.parts()
    reasons = {name: whole.reason_beside(name) for name in whole.nodes} | reasons
    if isinstance(whole, NotQuantized) and not any(part.on_machine for part in parts) and not host_floats:
        raise whole
    passed = _Passed(
        {name for part in parts if part.on_machine for name in part.outputs},
        {name for part in parts if part.on_machine for name in part.inputs},
    )
    segments = [
        search.npu_segment(part, keep) if part.on_machine else _host_segment(source, part, passed, reasons)
        for part in parts
    ]
    return _partitioned(source, programs.machine, segments)


def _partitioned(source: Source, machine: Machine, segments: Sequence[Segment]) -> Partitioned:
    """The network of these parts. Inputs that no part reads, or that are outputs as they are, are its ends too."""
    return Partitioned(
        machine,
        tuple(segments),
        tuple(_value(source, name) for name in source.inputs),
        tuple(_value(source, name) for name in source.outputs),
        {MODEL: source.model.graph.name or "model"},
    )


class _PartitionSearch:
    """Moves nodes to the host until every part of the machine has instructions; only then are parts tiled."""

    def __init__(self, programs: Programs, whole: CompileError) -> None:
        """`whole` says why the machine cannot run all of it in one part."""
        self._whole = whole
        self._programs = programs
        self._source = programs.source
        self._reasons = {name: error.reason_beside(name) for name, error in self._source.refused.items()}
        self._starts: dict[str, str] = {}
        """Nodes that begin a program because one with those before them would be too long: each with that error."""

    def parts(self) -> tuple[tuple[Part, ...], dict[str, str]]:
        """The parts, every program among them compiled, and the reason of each node on the host."""
        parts = cut_into_parts(self._source, self._reasons)
        if len(parts) == 1 and parts[0].on_machine:
            self._reasons |= self._faults_of_whole(parts[0])
        while True:
            known = len(self._starts)
            parts = cut_into_parts(self._source, self._reasons, self._starts)
            on_machine = [part for part in parts if part.on_machine]
            of_host = {name for part in parts if not part.on_machine for name in (*part.inputs, *part.outputs)}
            wrong = self._faults(on_machine) or self._not_worth(on_machine, of_host) or self._failures(on_machine)
            if not wrong and len(self._starts) == known:
                return parts, self._reasons
            self._reasons = {**wrong, **self._reasons}

    def npu_segment(self, part: Part, keep: Keep | None) -> NpuSegment:
        program = self._programs.shown(part, keep)
        if part.nodes[0] not in self._starts:
            return NpuSegment(program)
        layer = program.layers[0].name
        remarks = [f"begins another program: with what is before it, {self._starts[part.nodes[0]]}"]
        remarks += [program.metadata[layer]] if layer in program.metadata else []
        return NpuSegment(replace(program, metadata={**program.metadata, layer: "; ".join(remarks)}))

    def _faults_of_whole(self, part: Part) -> Mapping[str, str]:
        """Why nodes cannot run on the machine, of a part that is all of the network but inputs that nothing reads."""
        whole = whole_network(self._source)
        is_of_nodes = self._whole.nodes or part.inputs == whole.inputs  # not of such an input
        found = self._programs.cover(whole if is_of_nodes else part).faults
        return self._reasons_of(found, part) if found else self._at_fault(self._whole, part)

    def _faults(self, parts: Sequence[Part]) -> dict[str, str]:
        """Why nodes of these parts cannot run on the machine; empty when there are instructions for all."""
        return _joined(self._reasons_of(self._programs.cover(part).faults, part) for part in parts)

    def _not_worth(self, parts: Sequence[Part], of_host: Collection[str]) -> dict[str, str]:
        """Why the nodes of parts for which there are instructions are left to the host; empty when all are worth it.

        Where nothing would stay on the machine, whatever computes something does: a network that it can do a part of
        compiles.
        """
        reasons = {part: self._why_not_worth(part, of_host) for part in parts}
        if all(reasons.values()):
            reasons = {part: reason for part, reason in reasons.items() if reason == ONLY_MOVES}
        return _joined(dict.fromkeys(part.nodes, reason) for part, reason in reasons.items() if reason)

    def _why_not_worth(self, part: Part, of_host: Collection[str]) -> str:
        covered = self._programs.cover(part).made
        return why_not_worth(self._source, part, covered, of_host) if covered is not None else ""

    def _failures(self, parts: Sequence[Part]) -> dict[str, str]:
        """Why nodes of parts for which there are instructions cannot be in a program; empty when all are compiled."""
        return _joined(self._failure(part) for part in parts)

    def _failure(self, part: Part) -> Mapping[str, str]:
        """Why nodes of a part for which there are instructions cannot be in a program; empty when it is compiled."""
        try:
            self._programs.compile(part)
        except FatalError:
            raise
        except CompileError as error:
            return self._at_fault(error, part)
        return {}

    def _at_fault(self, error: CompileError, part: Part) -> Mapping[str, str]:
        """The nodes that an error is of, with the reason; raises the error if it is of none.

        None is at fault in a part that is too long: it is to be cut. What is too large is named at once, not layer by
        layer.
        """
        if isinstance(error, TooLong) and self._cut(part, error):
            return {}
        if not error.nodes:
            raise error
        found: dict[str, CompileError] = dict.fromkeys(error.nodes, error)
        if isinstance(error, TooSmall):
            found |= self._programs.without_room(part)
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


def _joined(reasons: Iterable[Mapping[str, str]]) -> dict[str, str]:
    return {name: reason for each in reasons for name, reason in each.items()}


# -- the host's parts --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Passed:
    """The tensors that pass from the machine, and to it."""

    from_machine: set[str]
    to_machine: set[str]


def _host_segment(source: Source, part: Part, passed: _Passed, reasons: Mapping[str, str]) -> Segment:
    model = part_model(source, part)
    named = [name for name in part.nodes if name in reasons] if part.nodes else [node.name for node in model.graph.node]
    nodes = tuple(
        HostNode(
            name,
            source.nodes[name].op_type,
            reasons.get(name, ONLY_MOVES),
            _transfers(source, name, passed),
        )
        for name in named
    )
    return HostSegment(model.SerializeToString(deterministic=True), part.inputs, part.outputs, nodes)


def _transfers(source: Source, name: str, passed: _Passed) -> int:
    """Bytes that pass between a node and the machine. A tensor passes in its quantised form."""
    node = source.nodes[name]
    read = {_dequantized(source, tensor) for tensor in source.read[name]} & passed.from_machine
    made = {form for tensor in node.output for form in (tensor, *_quantized(source, tensor))} & passed.to_machine
    return sum(map(source.bytes, read | made))


def _dequantized(source: Source, tensor: str) -> str:
    maker = source.producers.get(tensor)
    if maker is not None and source.nodes[maker].op_type == "DequantizeLinear":
        return source.nodes[maker].input[0]
    return tensor


def _quantized(source: Source, tensor: str) -> list[str]:
    readers = (source.nodes[reader] for reader in source.readers.get(tensor, ()))
    return [node.output[0] for node in readers if node.op_type == "QuantizeLinear"]


def _value(source: Source, name: str) -> NetworkValue:
    if name not in source.types or not source.types[name].type.HasField("tensor_type"):
        raise CompileError(fact=f"{name!r} is an input or output of the model and not a tensor", expected="tensors")
    tensor = source.types[name].type.tensor_type
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type).name
    sizes = tuple(d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim)
    return NetworkValue(name, dtype, sizes)

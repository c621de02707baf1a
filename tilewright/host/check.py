"""Whether the host's parts of a network are what its file says of them.

A file comes from anybody, and its host parts are ONNX models, which may name other files: such a model is refused as
soon as it is read. All else that is wrong is a finding, as it is with the programs of the machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import onnx
from google.protobuf.message import DecodeError, Message

from tilewright.compiler.errors import first_line
from tilewright.compiler.importers.model_checks import require_harmless
from tilewright.compiler.importers.omissions import stand_ins
from tilewright.errors import InputError
from tilewright.isa.check.finding import Finding, FindingCode
from tilewright.isa.program.partitioned import HostSegment, NpuSegment, Partitioned, Segment


def parse_host_model(content: bytes) -> onnx.ModelProto:
    """The model of a host part, whose data is all in it.

    Raises InputError for what is not an ONNX model, and for one that has data in another file, wherever in it.
    """
    try:
        model = onnx.ModelProto.FromString(content)
    except DecodeError as error:
        raise InputError("the host's part of the network is not an ONNX model; compile the network again") from error
    for tensor in _tensors(model):
        if tensor.data_location == onnx.TensorProto.EXTERNAL or tensor.external_data:
            raise InputError(
                f"the host's part of the network has the data of tensor {tensor.name!r} in another file; "
                "such a network is not run: compile it again"
            )
    return model


def _tensors(message: Message) -> Iterator[onnx.TensorProto]:
    """Every tensor in a message: of graphs, attributes, functions, sparse tensors, and whatever ONNX may add."""
    if isinstance(message, onnx.TensorProto):
        yield message
        return
    for field, value in message.ListFields():
        if field.message_type is not None:
            for inner in [value] if isinstance(value, Message) else value:
                yield from _tensors(inner)


def host_findings(network: Partitioned) -> tuple[Finding, ...]:
    """What is wrong with the host's parts, and with what the parts give each other."""
    return tuple(Finding(FindingCode.HOST, None, "", message) for message in _faults(network))


# -- what parts give each other ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Type:
    """A tensor's element type and sizes, as far as they are known."""

    dtype: str | None
    shape: tuple[int | None, ...] | None

    def agrees_with(self, other: _Type) -> bool:
        if None not in (self.dtype, other.dtype) and self.dtype != other.dtype:
            return False
        if self.shape is None or other.shape is None:
            return True
        sizes = zip(self.shape, other.shape, strict=False)
        return len(self.shape) == len(other.shape) and all(a == b or a is None or b is None for a, b in sizes)

    def times(self, images: int) -> _Type:
        """So many of them behind each other."""
        if images == 1 or not self.shape or self.shape[0] is None:
            return self
        return _Type(self.dtype, (self.shape[0] * images, *self.shape[1:]))

    def __str__(self) -> str:
        sizes = "of any shape" if self.shape is None else str(["?" if size is None else size for size in self.shape])
        return f"{self.dtype or 'any type'} {sizes}".replace("'", "")


Types = Mapping[str, _Type]


def _faults(network: Partitioned) -> Iterator[str]:
    known: dict[str, _Type] = {value.name: _Type(value.dtype, value.shape) for value in network.inputs}
    if not network.segments:
        yield "the network has no parts"
    for number, segment in enumerate(network.segments):
        title = f"part {number}"
        try:
            reads, makes = _reads_and_makes(segment, network.images or 1)
        except InputError as error:
            yield f"{title}: {error}"
            return
        yield from (f"{title} {fault}" for fault in _own_faults(segment, reads, makes))
        yield from (f"{title} reads {fault}" for fault in _mismatches(reads, known, segment.inputs))
        for name in segment.outputs:
            if name in known:
                yield f"{title} makes {name!r}, which is there already"
        known |= {name: makes.get(name, _Type(None, None)) for name in segment.outputs}
    outputs = {value.name: _Type(value.dtype, value.shape) for value in network.outputs}
    yield from (f"the network gives {fault}" for fault in _mismatches(outputs, known, tuple(outputs)))


def _mismatches(wanted: Types, known: Types, names: Iterable[str]) -> Iterator[str]:
    for name in names:
        if name not in known:
            yield f"{name!r}, which no part before it makes"
        elif name in wanted and not wanted[name].agrees_with(known[name]):
            yield f"{name!r} as {wanted[name]}, and it is {known[name]}"


def _reads_and_makes(segment: Segment, images: int) -> tuple[Types, Types]:
    """The inputs and outputs that a part has itself; the host's are there for each of so many images.

    Raises InputError for a model that cannot be read.
    """
    if isinstance(segment, NpuSegment):
        program = segment.program
        return (
            {tensor.name: _Type(tensor.dtype, tensor.shape) for tensor in program.inputs},
            {tensor.name: _Type(tensor.dtype, tensor.shape) for tensor in program.outputs},
        )
    graph = parse_host_model(segment.onnx).graph
    return _types(graph.input, images), _types(graph.output, images)


def _types(values: Sequence[onnx.ValueInfoProto], images: int) -> dict[str, _Type]:
    return {value.name: _type(value.type).times(images) for value in values}


def _type(of_value: onnx.TypeProto) -> _Type:
    if not of_value.HasField("tensor_type"):
        return _Type(None if of_value.WhichOneof("value") is None else "no tensor", None)
    tensor = of_value.tensor_type
    try:
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type).name if tensor.elem_type else None
    except (KeyError, ValueError, TypeError):
        dtype = f"type {tensor.elem_type}"
    if not tensor.HasField("shape"):
        return _Type(dtype, None)
    return _Type(dtype, tuple(d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim))


def _own_faults(segment: Segment, reads: Types, makes: Types) -> Iterator[str]:
    """What is wrong with a part of the host's alone."""
    if not isinstance(segment, HostSegment):
        return
    model = parse_host_model(segment.onnx)
    initial = {tensor.name for tensor in model.graph.initializer}
    for name in segment.inputs:
        if name not in reads:
            yield f"has no input {name!r}"
    for name in reads.keys() - initial - set(segment.inputs):
        yield f"has an input {name!r}, which the file gives no value"
    for name in segment.outputs:
        if name not in makes:
            yield f"has no output {name!r}"
    try:
        require_harmless(model, "the host's model")
        with stand_ins(model):  # what a loop gives may have any shape
            onnx.checker.check_model(model)
    except Exception as error:  # the checker raises errors of its own, and others for texts that are not UTF-8
        yield f"is not a valid ONNX model: {first_line(error)}"

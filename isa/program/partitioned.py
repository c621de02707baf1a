"""A network that runs in turn on one machine and on the host: programs, and ONNX models that a host can run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.program import Program
from tilewright.isa.program.stored_types import SHORT

SHORT_DTYPES = (
    *SHORT,
    *("bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
    *("float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn"),
)
"""Element types that the package ml_dtypes adds to numpy's."""

VALUE_DTYPES = (
    *("bool", "object", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))),
    *("float16", "float32", "float64", "complex64", "complex128", *SHORT_DTYPES),
)
"""Element types of ONNX's tensors, as numpy calls them; an object is a text."""


@dataclass(frozen=True, slots=True)
class NetworkValue:
    """An input or output of the whole network. A size that depends on data is None."""

    name: str
    dtype: str  # of VALUE_DTYPES
    shape: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class HostNode:
    """An ONNX node that the host computes, and why; `transfer_bytes` pass between it and the machine in each run."""

    name: str
    op_type: str
    reason: str
    transfer_bytes: int


@dataclass(frozen=True)
class NpuSegment:
    """A program; its inputs and outputs are named as the network's tensors."""

    program: Program

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(tensor.name for tensor in self.program.inputs)

    @property
    def outputs(self) -> tuple[str, ...]:
        return tuple(tensor.name for tensor in self.program.outputs)


@dataclass(frozen=True)
class HostSegment:
    """A serialised ONNX model with these inputs and outputs, and what it holds of the network's nodes."""

    onnx: bytes
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[HostNode, ...]


Segment = NpuSegment | HostSegment


@dataclass(frozen=True)
class Partitioned:
    """Segments in the order in which they run; each reads the network's inputs and what segments before it made.

    `images` is as in a program. Where it is known, the host's parts are of one image, and run once for each.
    """

    machine: Machine
    segments: tuple[Segment, ...]
    inputs: tuple[NetworkValue, ...]
    outputs: tuple[NetworkValue, ...]
    metadata: Mapping[str, str] = field(default_factory=dict)
    images: int | None = None

    @property
    def programs(self) -> tuple[Program, ...]:
        """The machine's part, in order."""
        return tuple(segment.program for segment in self.segments if isinstance(segment, NpuSegment))

    @property
    def host_nodes(self) -> tuple[HostNode, ...]:
        return tuple(node for segment in self.segments if isinstance(segment, HostSegment) for node in segment.nodes)

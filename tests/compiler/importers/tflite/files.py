"""Writes TFLite files with the schema's own builder functions: tensors, operators with options, nothing else."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import flatbuffers
import numpy as np
import tflite
from numpy.typing import NDArray

TYPES = {
    np.dtype(np.float32): "FLOAT32",
    np.dtype(np.float16): "FLOAT16",
    np.dtype(np.int8): "INT8",
    np.dtype(np.uint8): "UINT8",
    np.dtype(np.int16): "INT16",
    np.dtype(np.int32): "INT32",
    np.dtype(np.int64): "INT64",
    np.dtype(np.bool_): "BOOL",
    np.dtype(np.void): "RESOURCE",
}

NEWER_TYPES = {"INT2": 19}
"""What the package does not know, by LiteRT's schema."""

PLACEHOLDER = 0x123456789ABC
"""The offset of data behind the flatbuffer, until its length is known."""


@dataclass(frozen=True)
class Tensor:
    """What the file says of a tensor; scales and zero points are lists, empty for none."""

    index: int
    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    scales: tuple[float, ...] = ()
    zeros: tuple[int, ...] = ()
    axis: int = 0
    value: NDArray[Any] | None = None
    extra: dict[str, Any] = field(default_factory=dict)
    is_outside: bool = False  # its data stands behind the flatbuffer
    kind: str = ""  # the schema's type, where `value` is bytes that hold elements of less

    def real(self, integers: NDArray[Any]) -> NDArray[np.float64]:
        """The real values of this tensor's integers."""
        if not self.scales:
            return integers.astype(np.float64)
        shape = [1] * integers.ndim
        if len(self.scales) > 1:
            shape[self.axis] = -1
        scales, zeros = (np.array(of, np.float64).reshape(shape) for of in (self.scales, self.zeros))
        return (integers.astype(np.float64) - zeros) * scales

    @property
    def reals(self) -> NDArray[np.float64]:
        """A constant's real values."""
        assert self.value is not None
        return self.real(self.value)


class TfliteFile:
    """Collects tensors and operators; `content` writes the file."""

    def __init__(self) -> None:
        self.tensors: list[Tensor] = []
        self.operators: list[tuple[str, list[int], list[int], str | None, dict[str, Any], dict[str, Any]]] = []
        self.inputs: list[Tensor] = []
        self.outputs: list[Tensor] = []
        self.others: list[TfliteFile] = []
        self.version = 3

    def other(self) -> TfliteFile:
        """Another subgraph of the file, which is filled like the first; its outputs are none."""
        self.others.append(TfliteFile())
        return self.others[-1]

    def tensor(
        self,
        name: str,
        shape: Sequence[int],
        scale: float | None = 0.05,
        zero: int = 0,
        dtype: Any = np.int8,
        **extra: Any,
    ) -> Tensor:
        """A computed tensor; `extra` are more fields of the schema's table, such as is_variable."""
        scales = () if scale is None else (float(np.float32(scale)),)
        zeros = () if scale is None else (zero,)
        return self._add(name, tuple(shape), np.dtype(dtype), scales, zeros, extra=extra)

    def input(self, *args: Any, **kwargs: Any) -> Tensor:
        self.inputs.append(self.tensor(*args, **kwargs))
        return self.inputs[-1]

    def constant(
        self,
        name: str,
        value: Any,
        scales: Any = (),
        zeros: Sequence[int] = (),
        axis: int = 0,
        is_outside: bool = False,
    ) -> Tensor:
        value = np.asarray(value)
        rounded = tuple(float(np.float32(scale)) for scale in scales)
        zeros = tuple(zeros) or (0,) * len(rounded)
        made = self._add(name, value.shape, value.dtype, rounded, zeros, axis, value)
        self.tensors[made.index] = replace(made, is_outside=is_outside)
        return self.tensors[made.index]

    def _add(self, name: str, shape: Any, dtype: Any, scales: Any, zeros: Any, axis: int = 0, value: Any = None,
             extra: Any = None) -> Tensor:  # fmt: skip
        made = Tensor(len(self.tensors), name, shape, dtype, scales, zeros, axis, value, extra or {})
        self.tensors.append(made)
        return made

    def operator(
        self, kind: str, inputs: Sequence[Tensor | None], outputs: Tensor | Sequence[Tensor], table: str | None = None,
        *, fields: Any = None, **options: Any,
    ) -> None:  # fmt: skip
        """`options` are those of the schema's `table`, as in `StrideW=2`; `fields` those of the operator itself."""
        made = [outputs] if isinstance(outputs, Tensor) else list(outputs)
        self.operators.append(
            (
                kind,
                [-1 if t is None else t.index for t in inputs],
                [t.index for t in made],
                table,
                options,
                fields or {},
            )
        )

    def content(self, *outputs: Tensor) -> bytes:
        """The bytes of a file whose results are these tensors."""
        self.outputs = list(outputs)
        b = flatbuffers.Builder(1024)
        buffers = [_table(b, "Buffer")]
        graphs = [self, *self.others]
        kinds = list(dict.fromkeys(kind for graph in graphs for kind, *_ in graph.operators))
        codes = [self._code(b, kind) for kind in kinds]
        subgraphs = [graph._subgraph(b, buffers, kinds) for graph in graphs]
        model = _table(
            b, "Model",
            Version=self.version,
            OperatorCodes=_offsets(b, "Model", "OperatorCodes", codes),
            Subgraphs=_offsets(b, "Model", "Subgraphs", subgraphs),
            Description=b.CreateString("test network"),
            Buffers=_offsets(b, "Model", "Buffers", buffers),
        )  # fmt: skip
        b.Finish(model, b"TFL3")
        outside = b"".join(t.value.tobytes() for t in self.tensors if t.value is not None and t.is_outside)
        flatbuffer = bytes(b.Output())
        return flatbuffer.replace(struct.pack("<Q", PLACEHOLDER), struct.pack("<Q", len(flatbuffer))) + outside

    def _subgraph(self, b: Any, buffers: list[int], kinds: list[str]) -> int:
        tensors = [self._tensor(b, tensor, buffers) for tensor in self.tensors]
        operators = [self._operator(b, kinds, *operator) for operator in self.operators]
        return _table(
            b, "SubGraph",
            Tensors=_offsets(b, "SubGraph", "Tensors", tensors),
            Inputs=_numbers(b, [t.index for t in self.inputs], np.int32),
            Outputs=_numbers(b, [t.index for t in self.outputs], np.int32),
            Operators=_offsets(b, "SubGraph", "Operators", operators),
            Name=b.CreateString("main"),
        )  # fmt: skip

    def _tensor(self, b: Any, tensor: Tensor, buffers: list[int]) -> int:
        buffer = 0
        if tensor.value is not None and tensor.is_outside:
            buffer = len(buffers)
            buffers.append(_table(b, "Buffer", Offset=PLACEHOLDER, Size=tensor.value.nbytes))
        elif tensor.value is not None:
            buffer = len(buffers)
            buffers.append(_table(b, "Buffer", Data=_numbers(b, np.frombuffer(tensor.value.tobytes(), np.uint8))))
        quantization = None
        if tensor.scales:
            quantization = _table(
                b, "QuantizationParameters",
                Scale=_numbers(b, tensor.scales, np.float32),
                ZeroPoint=_numbers(b, tensor.zeros, np.int64),
                QuantizedDimension=tensor.axis,
            )  # fmt: skip
        fields = {"Shape": _numbers(b, tensor.shape, np.int32), "Name": b.CreateString(tensor.name)}
        if quantization is not None:
            fields["Quantization"] = quantization
        kind = tensor.kind or TYPES[tensor.dtype]
        type_ = NEWER_TYPES.get(kind) or getattr(tflite.TensorType, kind)
        return _table(b, "Tensor", Type=type_, Buffer=buffer, **fields, **tensor.extra)

    def _code(self, b: Any, kind: str) -> int:
        builtin, _, name = kind.partition(" ")  # "CUSTOM name"
        code = getattr(tflite.BuiltinOperator, builtin)
        custom = {"CustomCode": b.CreateString(name or "Mystery")} if builtin == "CUSTOM" else {}
        return _table(b, "OperatorCode", DeprecatedBuiltinCode=min(code, 127), BuiltinCode=code, Version=1, **custom)

    def _operator(
        self, b: Any, kinds: list[str], kind: str, inputs: Any, outputs: Any, table: Any, options: Any, fields: Any
    ) -> int:
        made = dict(fields)
        if table is not None:
            options = {k: _numbers(b, v, np.int32) if isinstance(v, list) else v for k, v in options.items()}
            options = {k: b.CreateString(v) if isinstance(v, str) else v for k, v in options.items()}
            made["BuiltinOptions"] = _table(b, table, **options)
            made["BuiltinOptionsType"] = getattr(tflite.BuiltinOptions, table)
        made = {k: _numbers(b, v) if isinstance(v, np.ndarray) else v for k, v in made.items()}
        return _table(
            b, "Operator",
            OpcodeIndex=kinds.index(kind),
            Inputs=_numbers(b, inputs, np.int32),
            Outputs=_numbers(b, outputs, np.int32),
            **made,
        )  # fmt: skip


def _table(b: Any, table: str, **fields: Any) -> int:
    """A table of the schema; the offsets of what it refers to are made before."""
    getattr(tflite, f"{table}Start")(b)
    for name, value in fields.items():
        getattr(tflite, f"{table}Add{name}")(b, value)
    made: int = getattr(tflite, f"{table}End")(b)
    return made


def _numbers(b: Any, values: Any, dtype: Any = None) -> int:
    made: int = b.CreateNumpyVector(np.asarray(values, dtype))
    return made


def _offsets(b: Any, table: str, name: str, offsets: Sequence[int]) -> int:
    getattr(tflite, f"{table}Start{name}Vector")(b, len(offsets))
    for offset in reversed(offsets):
        b.PrependUOffsetTRelative(offset)
    made: int = b.EndVector()
    return made

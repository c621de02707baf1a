"""Reads a TFLite file into frozen values; everything about the container is checked here.

The container is a flatbuffer (schema: tensorflow/compiler/mlir/lite/schema/schema.fbs); the `tflite` package knows its
fields.
"""

from __future__ import annotations

import struct
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper

from tilewright.compiler.errors import CompileError
from tilewright.compiler.importers.tflite.content import FileContent
from tilewright.compiler.importers.tflite.model import (
    OperatorInfo,
    Option,
    Quantized,
    SubgraphInfo,
    TensorInfo,
    TfliteModel,
)
from tilewright.compiler.importers.tflite.schema import LIST, count_slots, enumerator, fields_of
from tilewright.compiler.importers.tflite.variables import CHANGING, resolve_variables
from tilewright.isa.machine.memory import BYTE_BITS
from tilewright.isa.program.stored_types import COMPUTED_INTEGERS, DEFAULT_TYPE, SHORT, STORED_TYPES

IDENTIFIER = b"TFL3"
"""Bytes 4 to 8 of every TFLite file."""

VERSION = 3
"""The schema's version; no other is in use."""

MAX_ELEMENTS = 2**31 - 1
"""The most elements of a tensor: TFLite itself counts with int32."""

MAX_RANK = 8
"""TFLite's kernels stop at six dimensions; more are mistakes."""

CUSTOM = "custom "
"""What kinds of operators outside TFLite's own begin with; their names follow."""

DESCRIBED = ("custom TFLite_Detection_PostProcess",)
"""Those whose options are read."""

MOST_CUSTOM_OPTIONS = 64

DTYPES = {
    **{name.upper(): STORED_TYPES[name].dtype for name in STORED_TYPES if name not in SHORT},
    **{name.upper(): np.dtype(name) for name in ("float32", "float16", "float64", "bool", "int64", "uint32", "uint64")},
    "RESOURCE": np.dtype(np.void),
}
"""Element types of the schema that have a numpy type."""

PACKED = {name: helper.tensor_dtype_to_np_dtype(TensorProto.DataType.Value(name)) for name in ("INT4", "INT2")}
"""Types of constants whose elements share bytes, the first in the lowest bits."""


def is_tflite(content: bytes) -> bool:
    """Whether a file's content says that it is a TFLite file."""
    return content[4:8] == IDENTIFIER


def read_tflite(content: bytes, name: str) -> TfliteModel:
    """The graph of a file; `name` is what messages call it.

    Raises CompileError for a damaged file, and for what no network of ours needs: sparse tensors, most element types
    below a byte.
    """
    try:
        if not is_tflite(content):
            raise CompileError(fact=f"not a TFLite file ({len(content)} bytes): bytes 4 to 8 are not {IDENTIFIER!r}")
        return _TfliteReader(FileContent(content)).model()
    except CompileError as error:
        raise error.inside(name) from error


class _TfliteReader:
    """One file's content, and what its buffers hold."""

    def __init__(self, content: FileContent) -> None:
        self._content = content
        self._buffers: dict[int, bytes | None] = {}

    def model(self) -> TfliteModel:
        import tflite

        with self._content.guarded("its header"):
            root = tflite.Model.GetRootAs(self._content.data, 0)
            version, subgraphs = root.Version(), root.SubgraphsLength()
        if version != VERSION:
            raise CompileError(fact=f"uses version {version} of the TFLite schema", expected=str(VERSION))
        if not subgraphs:
            raise CompileError(fact="an empty TFLite file: it holds no subgraph")
        with self._content.guarded("its graphs"):
            self._content.take(4 * subgraphs)
            description = self._content.text(root.Description() or b"")
        graphs = [self._subgraph(root, index, description) for index in range(subgraphs)]
        model = resolve_variables(graphs)
        given = tuple(index for index in model.inputs if model.tensors[index].value is None)
        return replace(model, inputs=given)

    def _subgraph(self, root: Any, position: int, name: str) -> SubgraphInfo:
        """The first is the network, and messages do not name it; others have a number."""
        where = "" if position == 0 else f" of subgraph {position}"
        with self._content.guarded(f"its graph{where}"):
            graph = root.Subgraphs(position)
            inputs = self._content.indices(graph.InputsAsNumpy())
            outputs = self._content.indices(graph.OutputsAsNumpy())
            tensor_count, operator_count = graph.TensorsLength(), graph.OperatorsLength()
            self._content.take(4 * (tensor_count + operator_count))
        tensors = []
        for index in range(tensor_count):
            with self._content.guarded(f"tensor {index}{where}"):
                tensors.append(self._tensor(root, graph.Tensors(index), index))
        operators = []
        for index in range(operator_count):
            with self._content.guarded(f"operator {index}{where}"):
                operators.append(self._operator(root, graph.Operators(index), index))
        found = SubgraphInfo(name, tuple(tensors), tuple(operators), inputs, outputs)
        _check_indices(found, where)
        if position == 0 and not (found.operators and found.outputs):
            raise CompileError(fact="an empty TFLite file: it holds no operators, or no outputs")
        return found

    # -- tensors -------------------------------------------------------------------------------------------------------

    def _tensor(self, root: Any, tensor: Any, index: int) -> TensorInfo:
        kind = enumerator("TensorType", tensor.Type())
        info = TensorInfo(index, self._content.text(tensor.Name() or b"") or f"tensor_{index}", (), DEFAULT_TYPE.dtype)
        types = DTYPES if self._is_computed(root, tensor.Buffer()) else {**DTYPES, **PACKED}
        if kind not in types:
            raise CompileError(
                str(info), f"element type {kind} has no lowering", expected=", ".join(map(str.upper, COMPUTED_INTEGERS))
            )
        if tensor.Sparsity() is not None:
            raise CompileError(str(info), "is sparse", remedy="convert the network with dense weights")
        shape = self._content.indices(tensor.ShapeAsNumpy())
        if len(shape) > MAX_RANK or any(size < 1 for size in shape) or prod(shape) > MAX_ELEMENTS:
            raise CompileError(str(info), f"has the shape {list(shape)[:MAX_RANK]}", expected="fixed, positive sizes")
        info = replace(info, shape=shape, dtype=types[kind], is_variable=bool(tensor.IsVariable()))
        info = replace(info, quantized=self._quantized(tensor.Quantization(), info))
        return replace(info, value=self._value(root, tensor.Buffer(), info))

    def _quantized(self, quantization: Any, info: TensorInfo) -> Quantized | None:
        if quantization is None:
            return None
        scales = tuple(float(scale) for scale in self._content.numbers(quantization.ScaleAsNumpy()))
        zeros = self._content.indices(quantization.ZeroPointAsNumpy()) or (0,) * len(scales)
        if not scales:
            return None
        if quantization.DetailsType() != 0:
            raise CompileError(str(info), "has a custom quantisation", expected="scales and zero points")
        if not all(np.isfinite(scale) and scale > 0 for scale in scales):
            raise CompileError(str(info), f"has the scale {min(scales)}", expected="positive numbers")
        if len(zeros) == 1:
            zeros *= len(scales)
        if info.dtype.name in STORED_TYPES or info.dtype.kind in "iu":
            low, high = _limits(info.dtype)
            if not all(low <= zero <= high for zero in zeros):
                raise CompileError(
                    str(info), f"has a zero point outside {low} … {high}, the range of {info.dtype.name}"
                )
        axis = quantization.QuantizedDimension()
        if len(info.shape) == 1:
            axis = 0  # whatever the file says: converters write that of the weights at a bias
        is_inside = 0 <= axis < max(1, len(info.shape))
        is_along_axis = is_inside and (len(scales) == 1 or (bool(info.shape) and info.shape[axis] == len(scales)))
        if len(zeros) != len(scales) or not is_along_axis:
            raise CompileError(
                str(info),
                f"has {len(scales)} scales and {len(zeros)} zero points along dimension {axis} of {list(info.shape)}",
                expected="one of each, or one for each index of that dimension",
            )
        return Quantized(scales, zeros, axis if len(scales) > 1 else None)

    def _is_computed(self, root: Any, buffer: int) -> bool:
        """Whether a tensor has no data: buffer 0, or an empty one."""
        if buffer == 0:
            return True
        if buffer >= root.BuffersLength():
            raise IndexError(f"buffer {buffer}")
        if buffer not in self._buffers:
            self._buffers[buffer] = self._data(root.Buffers(buffer))
        return self._buffers[buffer] is None

    def _value(self, root: Any, buffer: int, info: TensorInfo) -> NDArray[Any] | None:
        """A constant's elements; None for a tensor without data."""
        if self._is_computed(root, buffer):
            return None
        data, count = self._buffers[buffer], prod(info.shape)
        assert data is not None
        in_a_byte = BYTE_BITS // STORED_TYPES[info.dtype.name].values.bits if info.dtype.name in SHORT else 1
        expected = -(-count * info.dtype.itemsize // in_a_byte)
        if len(data) != expected:
            raise CompileError(
                str(info),
                f"holds {len(data)} bytes of data; {list(info.shape)} of {info.dtype.name} needs {expected}",
            )
        if in_a_byte > 1:
            return _unpacked(data, in_a_byte)[:count].astype(info.dtype).reshape(info.shape)
        return np.frombuffer(data, info.dtype.newbyteorder("<")).astype(info.dtype).reshape(info.shape)

    def _data(self, buffer: Any) -> bytes | None:
        """Of a buffer in the flatbuffer or, in files too large for one, behind it."""
        values = buffer.DataAsNumpy()
        if isinstance(values, np.ndarray) and values.size:
            self._content.take(values.nbytes)
            return values.tobytes()
        first, size = buffer.Offset(), buffer.Size()
        if first <= 1 or size == 0:
            return None
        return self._content.stretch(first, size)

    # -- operators -----------------------------------------------------------------------------------------------------

    def _operator(self, root: Any, operator: Any, index: int) -> OperatorInfo:
        kind = self._kind(root, operator.OpcodeIndex(), index)
        where = f"operator {index} ({kind})"
        inputs = tuple(None if i == -1 else i for i in self._content.indices(operator.InputsAsNumpy()))
        outputs = self._content.indices(operator.OutputsAsNumpy())
        intermediates = self._content.indices(operator.IntermediatesAsNumpy())
        if any(self._content.numbers(operator.MutatingVariableInputsAsNumpy())) and kind not in CHANGING:
            raise CompileError(where, "changes its inputs", expected=f"that of {' and '.join(CHANGING)} only")
        if kind.startswith(CUSTOM):
            options = {"table": "NONE", **self._custom_options(operator)} if kind in DESCRIBED else {"table": "NONE"}
            return OperatorInfo(index, kind, inputs, outputs, options, intermediates)
        if operator.CustomOptionsLength() or operator.LargeCustomOptionsSize():
            raise CompileError(where, "has options of an operator outside TFLite's own", expected="its own table")
        if operator.BuiltinOptions2Type() != 0:
            raise CompileError(
                where, "StableHLO options have no lowering", remedy="convert the network to TFLite's operators"
            )
        return OperatorInfo(index, kind, inputs, outputs, self._options(operator, where), intermediates)

    def _kind(self, root: Any, opcode: int, index: int) -> str:
        if opcode >= root.OperatorCodesLength():
            raise IndexError(f"operator code {opcode}")
        code = root.OperatorCodes(opcode)
        # Codes above 127 are in the newer field only; files from before it have the older one only.
        builtin = max(code.DeprecatedBuiltinCode(), code.BuiltinCode())
        kind = enumerator("BuiltinOperator", builtin)
        if kind == "CUSTOM":
            return f"{CUSTOM}{self._content.text(code.CustomCode() or b'?')}"
        return kind

    def _options(self, operator: Any, where: str) -> dict[str, Option]:
        """Every field of the operator's options table, and `table`, the table's name."""
        import tflite

        table = enumerator("BuiltinOptions", operator.BuiltinOptionsType())
        union = operator.BuiltinOptions()
        if table == "NONE" or union is None:
            return {"table": "NONE"}
        options = getattr(tflite, table)()
        options.Init(union.Bytes, union.Pos)
        kind: Any = type(options)
        fields = fields_of(kind)
        self._check_table(union, kind, where)
        found: dict[str, Option] = {"table": table}
        for name, method in fields.items():
            value = method(options)
            if isinstance(value, bytes):
                value = self._content.text(value)
            found[name] = tuple(self._content.numbers(value)) if name.endswith(LIST) else value
        return {name.removesuffix(LIST): value for name, value in found.items()}

    def _custom_options(self, operator: Any) -> dict[str, Option]:
        """The numbers of a custom operator's options, which are a flexbuffer."""
        from flatbuffers import flexbuffers  # of the `tflite` package's own

        data = operator.CustomOptionsAsNumpy()
        if not isinstance(data, np.ndarray):
            return {}
        self._content.take(data.nbytes)
        root = flexbuffers.GetRoot(data.tobytes())
        if not root.IsMap or len(root.AsMap) > MOST_CUSTOM_OPTIONS:
            raise ValueError("custom options")
        keys, values = root.AsMap.Keys, root.AsMap.Values
        found: dict[str, Option] = {}
        for position in range(len(keys)):
            value = values[position]
            if not (value.IsInt or value.IsFloat or value.IsBool):
                raise ValueError("custom options")
            found[str(keys[position].AsKey)] = value.Value
        return found

    def _check_table(self, union: Any, options: Any, where: str) -> None:
        """Fields that a newer schema added would be overlooked."""
        vtable = union.Pos - struct.unpack_from("<i", self._content.data, union.Pos)[0]
        if vtable < 0:
            raise IndexError("vtable")
        slots = struct.unpack_from("<H", self._content.data, vtable)[0] // 2 - 2
        known = count_slots(options)
        for slot in range(known, slots):
            if struct.unpack_from("<H", self._content.data, vtable + 4 + 2 * slot)[0]:
                raise CompileError(
                    where,
                    f"its options have {slots} fields",
                    expected=f"the {known} of {options.__name__}",
                    remedy="Convert the network with an older converter",
                )


def _limits(dtype: np.dtype[Any]) -> tuple[int, int]:
    """The least and the greatest integer of a type, which may be narrower than numpy's own are."""
    if dtype.name in STORED_TYPES:
        return STORED_TYPES[dtype.name].limits
    limits = np.iinfo(dtype)
    return limits.min, limits.max


def _check_indices(graph: SubgraphInfo, of: str) -> None:
    count = len(graph.tensors)
    lists = [(f"the graph's inputs{of}", graph.inputs), (f"the graph's outputs{of}", graph.outputs)]
    for operator in graph.operators:
        named = (*(i for i in operator.inputs if i is not None), *operator.outputs, *operator.intermediates)
        lists.append((f"{operator}{of}", named))
    for where, indices in lists:
        for index in indices:
            if not 0 <= index < count:
                raise CompileError(where, f"names tensor {index}; there are {count}")


def _unpacked(data: bytes, in_a_byte: int) -> NDArray[np.signedinteger]:
    """Signed elements that share bytes, the first of each in its lowest bits."""
    bits = BYTE_BITS // in_a_byte
    raised = np.frombuffer(data, np.uint8)[:, None] << np.arange(BYTE_BITS - bits, -1, -bits).astype(np.uint8)
    return (raised.astype(np.uint8).view(np.byte) >> (BYTE_BITS - bits)).ravel()

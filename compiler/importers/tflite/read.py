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

from tilewright.compiler.errors import CompileError
from tilewright.compiler.importers.tflite.content import Content
from tilewright.compiler.importers.tflite.model import OperatorInfo, Option, Quantized, TensorInfo, TfliteModel
from tilewright.compiler.importers.tflite.schema import LIST, count_slots, enumerator, fields_of

IDENTIFIER = b"TFL3"
"""Bytes 4 to 8 of every TFLite file."""

VERSION = 3
"""The schema's version; no other is in use."""

MAX_ELEMENTS = 2**31 - 1
"""The most elements of a tensor: TFLite itself counts with int32."""

MAX_RANK = 8
"""TFLite's kernels stop at six dimensions; more are mistakes."""

DTYPES = {
    "FLOAT32": np.float32,
    "FLOAT16": np.float16,
    "FLOAT64": np.float64,
    "INT8": np.int8,
    "UINT8": np.uint8,
    "INT16": np.int16,
    "UINT16": np.uint16,
    "INT32": np.int32,
    "UINT32": np.uint32,
    "INT64": np.int64,
    "UINT64": np.uint64,
    "BOOL": np.bool_,
}
"""Element types of the schema that have a numpy type."""


def is_tflite(content: bytes) -> bool:
    """Whether a file's content says that it is a TFLite file."""
    return content[4:8] == IDENTIFIER


def read_tflite(content: bytes, name: str) -> TfliteModel:
    """The graph of a file; `name` is what messages call it.

    Raises CompileError for a damaged file, and for what no int8 network needs: several subgraphs, variables, sparse
    tensors, element types below a byte.
    """
    try:
        if not is_tflite(content):
            raise CompileError(fact=f"not a TFLite file ({len(content)} bytes): bytes 4 to 8 are not {IDENTIFIER!r}")
        return _Reader(Content(content)).model()
    except CompileError as error:
        raise error.inside(name) from error


class _Reader:
    """One file's content, and what its buffers hold."""

    def __init__(self, content: Content) -> None:
        self._content = content
        self._buffers: dict[int, bytes | None] = {}

    def model(self) -> TfliteModel:
        import tflite

        with self._content.guarded("its header"):
            root = tflite.Model.GetRootAs(self._content.data, 0)
            version, subgraphs = root.Version(), root.SubgraphsLength()
        if version != VERSION:
            raise CompileError(fact=f"uses version {version} of the TFLite schema", expected=str(VERSION))
        if subgraphs != 1:
            raise CompileError(fact=f"holds {subgraphs} subgraphs", expected="one, without control flow")
        with self._content.guarded("its graph"):
            graph = root.Subgraphs(0)
            name = self._content.text(root.Description() or b"")
            inputs = self._content.indices(graph.InputsAsNumpy())
            outputs = self._content.indices(graph.OutputsAsNumpy())
            tensor_count, operator_count = graph.TensorsLength(), graph.OperatorsLength()
            self._content.take(4 * (tensor_count + operator_count))
        tensors = []
        for index in range(tensor_count):
            with self._content.guarded(f"tensor {index}"):
                tensors.append(self._tensor(root, graph.Tensors(index), index))
        operators = []
        for index in range(operator_count):
            with self._content.guarded(f"operator {index}"):
                operators.append(self._operator(root, graph.Operators(index), index))
        model = TfliteModel(name, tuple(tensors), tuple(operators), inputs, outputs)
        self._check_indices(model)
        given = tuple(index for index in inputs if tensors[index].value is None)
        return replace(model, inputs=given)

    # -- tensors -------------------------------------------------------------------------------------------------------

    def _tensor(self, root: Any, tensor: Any, index: int) -> TensorInfo:
        kind = enumerator("TensorType", tensor.Type())
        info = TensorInfo(index, self._content.text(tensor.Name() or b"") or f"tensor_{index}", (), np.dtype(np.int8))
        if kind not in DTYPES:
            raise CompileError(str(info), f"element type {kind} has no lowering", expected="INT8 or UINT8")
        if tensor.IsVariable():
            raise CompileError(str(info), "is a variable, kept from run to run", expected="a network without")
        if tensor.Sparsity() is not None:
            raise CompileError(str(info), "is sparse", remedy="convert the network with dense weights")
        shape = self._content.indices(tensor.ShapeAsNumpy())
        if len(shape) > MAX_RANK or any(size < 1 for size in shape) or prod(shape) > MAX_ELEMENTS:
            raise CompileError(str(info), f"has the shape {list(shape)[:MAX_RANK]}", expected="fixed, positive sizes")
        info = replace(info, shape=shape, dtype=np.dtype(DTYPES[kind]))
        quantized = self._quantized(tensor.Quantization(), info)
        return replace(info, quantized=quantized, value=self._value(root, tensor.Buffer(), info))

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
        if info.dtype.kind in "iu":
            limits = np.iinfo(info.dtype)
            if not all(limits.min <= zero <= limits.max for zero in zeros):
                raise CompileError(
                    str(info),
                    f"has a zero point outside {limits.min} … {limits.max}, the range of {info.dtype.name}",
                )
        axis = quantization.QuantizedDimension()
        if len(info.shape) == 1:
            axis = 0  # whatever the file says: converters write that of the weights at a bias
        is_along_axis = len(scales) == 1 or (0 <= axis < len(info.shape) and info.shape[axis] == len(scales))
        if len(zeros) != len(scales) or not is_along_axis:
            raise CompileError(
                str(info),
                f"has {len(scales)} scales and {len(zeros)} zero points along dimension {axis} of {list(info.shape)}",
                expected="one of each, or one for each index of that dimension",
            )
        return Quantized(scales, zeros, axis if len(scales) > 1 else None)

    def _value(self, root: Any, buffer: int, info: TensorInfo) -> NDArray[Any] | None:
        """A constant's elements; a tensor without data (buffer 0, or an empty one) is not constant."""
        if buffer == 0:
            return None
        if buffer >= root.BuffersLength():
            raise IndexError(f"buffer {buffer}")
        if buffer not in self._buffers:
            self._buffers[buffer] = self._data(root.Buffers(buffer))
        data = self._buffers[buffer]
        if data is None:
            return None
        expected = prod(info.shape) * info.dtype.itemsize
        if len(data) != expected:
            raise CompileError(
                str(info),
                f"holds {len(data)} bytes of data; {list(info.shape)} of {info.dtype.name} needs {expected}",
            )
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
        if any(self._content.numbers(operator.MutatingVariableInputsAsNumpy())) or operator.IntermediatesLength():
            raise CompileError(where, "keeps state from run to run", expected="a network without")
        if kind.startswith("custom ") or operator.CustomOptionsLength() or operator.LargeCustomOptionsSize():
            raise CompileError(
                where, "an operator outside TFLite's own has no lowering", remedy="remove it from the network"
            )
        if operator.BuiltinOptions2Type() != 0:
            raise CompileError(
                where, "StableHLO options have no lowering", remedy="convert the network to TFLite's operators"
            )
        return OperatorInfo(index, kind, inputs, outputs, self._options(operator, where))

    def _kind(self, root: Any, opcode: int, index: int) -> str:
        if opcode >= root.OperatorCodesLength():
            raise IndexError(f"operator code {opcode}")
        code = root.OperatorCodes(opcode)
        # Codes above 127 are in the newer field only; files from before it have the older one only.
        builtin = max(code.DeprecatedBuiltinCode(), code.BuiltinCode())
        kind = enumerator("BuiltinOperator", builtin)
        if kind == "CUSTOM":
            return f"custom {self._content.text(code.CustomCode() or b'?')}"
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
            found[name] = tuple(self._content.numbers(value)) if name.endswith(LIST) else value
        return {name.removesuffix(LIST): value for name, value in found.items()}

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

    # -- all together --------------------------------------------------------------------------------------------------

    def _check_indices(self, model: TfliteModel) -> None:
        count = len(model.tensors)
        lists = [("the graph's inputs", model.inputs), ("the graph's outputs", model.outputs)]
        for operator in model.operators:
            lists.append((str(operator), (*(i for i in operator.inputs if i is not None), *operator.outputs)))
        for where, indices in lists:
            for index in indices:
                if not 0 <= index < count:
                    raise CompileError(where, f"names tensor {index}; there are {count}")
        if not model.operators or not model.outputs:
            raise CompileError(fact="an empty TFLite file: it holds no operators, or no outputs")

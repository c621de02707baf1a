"""Collects the ONNX model: nodes, constants, and in which layouts each tensor of the file is stored already.

Every quantised tensor is stored as integers; who computes with it reads it behind a DequantizeLinear, and behind a
Transpose if it needs the other layout.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

from tilewright.compiler.errors import CompileError
from tilewright.compiler.importers.opsets import (
    TWO_BITS_IR_VERSION,
    TWO_BITS_OPSET,
    WRITTEN_IR_VERSION,
    WRITTEN_OPSET,
)
from tilewright.compiler.importers.remarks import add_reasons, add_remarks
from tilewright.compiler.importers.tflite.layout import DimensionOrder, keeps_order, stored, to_file, to_stored
from tilewright.compiler.importers.tflite.model import Quantized, TensorInfo, TfliteModel
from tilewright.compiler.importers.tflite.nodes import NodeWriter
from tilewright.compiler.importers.tflite.states import StateTensor, given, remarks_of_states, results
from tilewright.isa.program.stored_types import COMPUTED_INTEGERS, COMPUTED_NAMES, SHORT

STATE_TYPES = ("int16",)
"""More element types of what is kept from run to run."""

PLAIN_TYPES = ("int32", "int64", "bool")
"""Element types of indices and conditions: without a scale, they mean the numbers that they are."""

NUMBER_NAMES = ", ".join((*COMPUTED_INTEGERS, *PLAIN_TYPES)) + " or float32"
"""What may hold numbers, as messages name it."""

PLAIN = Quantized((1.0,), (0,))
"""What 8-bit numbers without a scale mean, where an operator takes them as they are."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """An ONNX value, and the shape that the file says it has."""

    value: str
    shape: tuple[int, ...]
    operator: str
    tensor: str


class OnnxWriter(NodeWriter):
    """The ONNX model so far. A method that returns text returns the name of an ONNX value."""

    def __init__(self, model: TfliteModel) -> None:
        self._ends = (*given(model), *results(model))
        super().__init__([end.name for end in self._ends])
        self.model = model
        self.constants: dict[int, NDArray[Any]] = {t.index: t.value for t in model.tensors if t.value is not None}
        self.checkpoints: list[Checkpoint] = []
        self.remarks: dict[str, str] = {}
        self._stored: dict[tuple[int, DimensionOrder], str] = {}
        self._real: dict[tuple[int, DimensionOrder], str] = {}
        self._scale_names: dict[tuple[str, Quantized, str], tuple[str, ...]] = {}
        self._made_in: dict[int, DimensionOrder] = {}
        self._kept = {state.input for state in model.states}
        self._updated: dict[int, str] = {}
        for end in given(model):
            # Images are used channels first almost everywhere; so the transposition stands right at the input.
            self._made_in[end.index] = (
                DimensionOrder.FIRST if len(model.tensors[end.index].shape) == 4 else DimensionOrder.LAST
            )
            self._stored[end.index, DimensionOrder.LAST] = end.name

    def error(
        self, fact: str, index: int | None = None, *, expected: str = "", remedy: str = "", known: str = ""
    ) -> CompileError:
        """An error of the present operator and, if given, one of its tensors."""
        operator = str(self._operator or "the graph")
        place = operator if index is None else f"{operator}: {self.model.tensors[index]}"
        return CompileError(place, fact, expected=expected, remedy=remedy, known=known)

    def tensor(self, index: int) -> TensorInfo:
        return self.model.tensors[index]

    def set_shape(self, index: int, shape: tuple[int, ...]) -> None:
        """A tensor of the file has this shape, which the file leaves open."""
        tensors = list(self.model.tensors)
        tensors[index] = replace(tensors[index], shape=shape)
        self.model = replace(self.model, tensors=tuple(tensors))

    # -- reading -------------------------------------------------------------------------------------------------------

    def layout_of(self, index: int) -> DimensionOrder:
        """The layout in which a tensor was made; constants are as in the file."""
        return self._made_in.get(index, DimensionOrder.LAST)

    def common_layout(self, indices: Sequence[int]) -> DimensionOrder:
        """Channels first if one of these tensors, all of the same rank, was made so; the others follow."""
        return (
            DimensionOrder.FIRST
            if any(self.layout_of(i) is DimensionOrder.FIRST for i in indices)
            else DimensionOrder.LAST
        )

    def real(self, index: int, layout: DimensionOrder) -> str:
        """A tensor's real values in a layout."""
        layout = self._normal(index, layout)
        if (index, layout) not in self._real:
            info, other = self.tensor(index), layout.other
            if index in self.constants:
                order = to_stored(len(info.shape), layout)
                value = self.constant(info.name, np.ascontiguousarray(self.constants[index].transpose(order)))
                self._real[index, layout] = self._dequantized(value, info, layout)
            elif (index, layout) in self._stored:
                self._real[index, layout] = self._dequantized(self._stored[index, layout], info, layout)
            elif (index, other) in self._stored:
                self._real[index, layout] = self._moved(self.real(index, other), info, layout)
            else:
                raise self.error("is read before any operator has computed it", index)
        return self._real[index, layout]

    def numbers(self, index: int, dtype: np.dtype[Any], layout: DimensionOrder) -> str:
        """The numbers that a tensor holds, whatever scale they have, in another element type."""
        info, layout = self.tensor(index), self._normal(index, layout)
        if info.dtype.name not in (*COMPUTED_INTEGERS, *PLAIN_TYPES, "float32"):
            raise self.error(f"is {info.dtype.name}", index, expected=NUMBER_NAMES)
        if index in self.constants:
            order = to_stored(len(info.shape), layout)
            value = self.constant(info.name, np.ascontiguousarray(self.constants[index].transpose(order)))
        elif (index, layout) in self._stored:
            value = self._stored[index, layout]
        elif (index, layout.other) in self._stored:
            value = self._moved(self._stored[index, layout.other], info, layout)
        else:
            raise self.error("is read before any operator has computed it", index)
        if info.dtype.name in COMPUTED_INTEGERS and dtype == np.float32:
            return self.dequantize(value, PLAIN, info.dtype, None, info.name)
        if info.dtype == np.float32 and dtype.name in COMPUTED_INTEGERS:
            limits = np.iinfo(dtype)
            value = self.node("Clip", value, self.number(limits.min), self.number(limits.max))
        return self.node("Cast", value, to=helper.np_dtype_to_tensor_dtype(dtype))

    def value_of(self, index: int, what: str) -> NDArray[Any]:
        """A constant's elements in the file's order; raises CompileError, calling it `what`, for a computed tensor."""
        if index not in self.constants:
            raise self.error(f"{what} computed at run time has no lowering", index, expected="a constant")
        return self.constants[index]

    def integers(self, index: int, what: str) -> tuple[int, ...]:
        """A constant list of integers, such as axes; a number is a list of one."""
        value = self.value_of(index, what)
        if value.dtype.kind not in "iu" or value.ndim > 1:
            raise self.error(
                f"{what} is {value.dtype.name} of {list(value.shape)}", index, expected="a list of integers"
            )
        return tuple(int(item) for item in value.ravel())

    def is_real(self, index: int) -> bool:
        """Whether a tensor holds the numbers that it means; raises CompileError if it is not quantised to 8 bits."""
        info = self.tensor(index)
        if info.dtype.name in PLAIN_TYPES and info.quantized is None:
            return True
        if info.dtype == np.float32 or (index in self.constants and self.constants[index].dtype == np.float32):
            return True
        if info.dtype.name not in (*COMPUTED_INTEGERS, *SHORT):
            raise self.error(f"is {info.dtype.name}", index, expected=f"{COMPUTED_NAMES} (or float32)")
        return False

    def is_wide_state(self, index: int) -> bool:
        """Whether a tensor is a state of more bits than activations beside it may have."""
        return index in self._kept and self.tensor(index).dtype.name in STATE_TYPES

    def _normal(self, index: int, layout: DimensionOrder) -> DimensionOrder:
        return layout if len(self.tensor(index).shape) >= 3 else DimensionOrder.LAST

    def _moved(self, value: str, info: TensorInfo, layout: DimensionOrder) -> str:
        """What is stored in the other layout; a reshape where all elements stay in order."""
        rank = len(info.shape)
        order = (
            to_stored(rank, DimensionOrder.FIRST)
            if layout is DimensionOrder.FIRST
            else to_file(rank, DimensionOrder.FIRST)
        )
        if keeps_order(stored(info.shape, layout.other), order):
            return self.reshape(value, stored(info.shape, layout), info.name)
        return self.node("Transpose", value, perm=order, base=info.name)

    def _dequantized(self, value: str, info: TensorInfo, layout: DimensionOrder) -> str:
        if self.is_real(info.index):
            return value
        quantized = info.quantized or PLAIN
        if quantized.axis is None:
            return self.dequantize(value, quantized, info.dtype, None, info.name)
        if info.index not in self.constants:
            raise self.error("has several scales", info.index, expected="one for an activation")
        axis = to_file(len(info.shape), layout)[quantized.axis]
        return self.dequantize(value, quantized, info.dtype, axis, info.name)

    # -- writing -------------------------------------------------------------------------------------------------------

    def cast(self, value: str, dtype: np.dtype[Any]) -> str:
        """The same numbers in another type; those of 8 bits are quantised where they are written."""
        to = np.dtype(np.float32) if dtype.name in COMPUTED_INTEGERS else dtype
        return self.node("Cast", value, to=helper.np_dtype_to_tensor_dtype(to))

    def dequantize(self, value: str, by: Quantized, dtype: np.dtype[Any], axis: int | None, base: str) -> str:
        """The real values of integers; `axis` is where the scales stand, None for one scale."""
        return self.node("DequantizeLinear", value, *self._scales(by, dtype, axis, base), base=base, **_axis(axis))

    def write(self, index: int, value: str, layout: DimensionOrder) -> None:
        """A tensor of the file is these real values, rounded to its integers; they are in this layout."""
        info, layout = self.tensor(index), self._normal(index, layout)
        self._check_is_new(index)
        assert self._operator is not None
        self.checkpoints.append(Checkpoint(value, stored(info.shape, layout), str(self._operator), str(info)))
        self._stored[index, layout] = self.quantized(index, value)
        self._made_in[index] = layout

    def write_numbers(self, index: int, value: str, layout: DimensionOrder) -> None:
        """A tensor of the file holds these numbers, which are of its type; they are in this layout."""
        info, layout = self.tensor(index), self._normal(index, layout)
        if info.dtype.name not in (*COMPUTED_INTEGERS, *PLAIN_TYPES, "float32"):
            raise self.error(f"is {info.dtype.name}", index, expected=NUMBER_NAMES)
        self._check_is_new(index)
        assert self._operator is not None
        self.checkpoints.append(Checkpoint(value, stored(info.shape, layout), str(self._operator), str(info)))
        self._stored[index, layout] = value
        self._made_in[index] = layout

    def fold(self, index: int, value: NDArray[Any]) -> None:
        """A tensor of the file is this constant."""
        info = self.tensor(index)
        self._check_is_new(index)
        if value.shape != info.shape:
            raise self.error(f"is {list(info.shape)} in the file, but {list(value.shape)} is computed", index)
        self.constants[index] = value

    def update(self, index: int, value: str) -> None:
        """A variable of the file is these real values from here on, rounded to its integers; channels last."""
        if index not in self._kept or index in self._updated:
            raise self.error("is changed here, but is no variable, or changed before", index)
        self._updated[index] = self.quantized(index, value)

    def quantized(self, index: int, value: str) -> str:
        """Real values as a tensor of the file stores them."""
        if self.is_real(index):
            return value
        info = self.tensor(index)
        quantized = info.quantized or PLAIN
        if quantized.axis is not None:
            raise self.error("has several scales", index, expected="one for an activation")
        return self.node("QuantizeLinear", value, *self._scales(quantized, info.dtype, None, info.name), base=info.name)

    def rounded(self, index: int, value: str) -> str:
        """Real values as they are once a tensor of the file has stored them."""
        if self.is_real(index):
            return value
        info = self.tensor(index)
        return self.dequantize(self.quantized(index, value), info.quantized or PLAIN, info.dtype, None, info.name)

    def finish(self) -> onnx.ModelProto:
        """The model, its outputs under the file's names and in the file's layout; then what its variables become."""
        self._operator = None
        self._check_ends()
        taken = {end.name for end in self._ends}
        for end in results(self.model):
            value = self._updated[end.index] if end.index in self._updated else self._in_file_layout(end.index)
            if value in taken:
                self.nodes.append(helper.make_node("Identity", [value], [end.name], name=self._node_name("Identity")))
            else:
                self._rename(value, end.name)
        graph = helper.make_graph(
            self.nodes,
            self.model.name or "model",
            [self._value_info(end) for end in given(self.model)],
            [self._value_info(end) for end in results(self.model)],
            list(self.initializers.values()),
        )
        has_two_bits = any(tensor.data_type == onnx.TensorProto.INT2 for tensor in graph.initializer)
        opset = TWO_BITS_OPSET if has_two_bits else WRITTEN_OPSET
        ir_version = TWO_BITS_IR_VERSION if has_two_bits else WRITTEN_IR_VERSION
        written = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version)
        add_remarks(written, {**self.remarks, **remarks_of_states(self.model)})
        add_reasons(written, self.reasons)
        return written

    def _value_info(self, end: StateTensor) -> onnx.ValueInfoProto:
        info = self.tensor(end.index)
        return helper.make_tensor_value_info(end.name, helper.np_dtype_to_tensor_dtype(info.dtype), info.shape)

    def _in_file_layout(self, index: int) -> str:
        """An output's integers (or floats, if it has those), channels last."""
        if (index, DimensionOrder.LAST) in self._stored:
            return self._stored[index, DimensionOrder.LAST]
        if (index, DimensionOrder.FIRST) not in self._stored:
            raise self.error("is an output of the graph, but no operator computes it", index)
        return self._moved(self._stored[index, DimensionOrder.FIRST], self.tensor(index), DimensionOrder.LAST)

    def _scales(self, by: Quantized, dtype: np.dtype[Any], axis: int | None, base: str) -> tuple[str, ...]:
        """The constants of a scale and a zero point. ONNX allows an int32 no zero point but 0, so it gets none."""
        scales, zeros = np.array(by.scales, np.float32), np.array(by.zero_points, dtype)
        if axis is None:
            scales, zeros = scales[0], zeros[0]
        key = base, by, dtype.name
        if key not in self._scale_names:
            names = [self.constant(f"{base}:scale", np.asarray(scales))]
            if dtype.name in COMPUTED_INTEGERS:
                names.append(self.constant(f"{base}:zero_point", np.asarray(zeros)))
            self._scale_names[key] = tuple(names)
        return self._scale_names[key]

    def _check_is_new(self, index: int) -> None:
        if (
            index in self.constants
            or (index, DimensionOrder.LAST) in self._stored
            or (index, DimensionOrder.FIRST) in self._stored
        ):
            raise self.error("is computed here, but is constant, an input or computed before", index)

    def _check_ends(self) -> None:
        names = [end.name for end in self._ends]
        for name in names:
            if names.count(name) > 1:
                raise CompileError("the graph", f"{name!r} names several inputs or outputs", expected="different names")
        for index in self.model.outputs:
            if index in self.constants:
                raise self.error("is an output of the graph, but constant", index, expected="a computed one")

    def _rename(self, value: str, name: str) -> None:
        for node in self.nodes:
            for names in (node.input, node.output):
                for position, found in enumerate(names):
                    if found == value:
                        names[position] = name
        self.checkpoints = [
            Checkpoint(name, c.shape, c.operator, c.tensor) if c.value == value else c for c in self.checkpoints
        ]
        for key, found in self._stored.items():
            if found == value:
                self._stored[key] = name


def _axis(axis: int | None) -> dict[str, int]:
    return {} if axis is None else {"axis": axis}

"""One operator of the file as its translation sees it: inputs and options by name, and the model that it goes to.

An option is read, or named as one that changes nothing; what is left over is refused, so that none is overlooked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from tilewright.compiler.errors import CompileError
from tilewright.compiler.importers.tflite.layout import DimensionOrder
from tilewright.compiler.importers.tflite.model import OperatorInfo, Option, Quantized, TensorInfo
from tilewright.compiler.importers.tflite.schema import enumerators
from tilewright.compiler.importers.tflite.writer import OnnxWriter
from tilewright.isa.program.stored_types import COMPUTED_INTEGERS

Kind = TypeVar("Kind", int, float, bool)

LIMITS = {"NONE": None, "RELU": (0.0, None), "RELU6": (0.0, 6.0), "RELU_N1_TO_1": (-1.0, 1.0)}
"""The range of each fused activation; None: no limit."""

SCALE_TOLERANCE = 1e-5
"""The relative difference up to which two scales of a file count as the same."""

VALUE_TYPES = (*COMPUTED_INTEGERS, "float32")
"""Element types of what a network computes; others are of shapes, axes and the like."""

UNUSED = None
"""An input that the file leaves out."""


@dataclass(frozen=True, slots=True)
class OperatorRow:
    """How operators of one kind are translated: the table of their options, how many inputs they may have.

    `keeps_scale`: operands and results must have one scale and zero point, as TFLite takes their integers as they are.
    `changes_type`: the computed operands and results may have different element types. `scale`: that of a quantised
    result, where TFLite's specification of quantisation allows one only. `takes_plain`: tensors of 8 bits without a
    scale are the numbers that they hold, as they are wherever integers are taken as they are.
    """

    translate: Callable[[TfliteOperation], None]
    options: str = "NONE"
    inputs: tuple[int, int] = (1, 1)
    keeps_scale: bool = False
    changes_type: bool = False
    scale: float | None = None
    takes_plain: bool = False


class TfliteOperation:
    """An operator, checked against its row: it has as many inputs and outputs as it should, and the right options."""

    def __init__(self, operator: OperatorInfo, row: OperatorRow, writer: OnnxWriter) -> None:
        self.operator = operator
        self.writer = writer
        self._left: dict[str, Option] = dict(operator.options)
        table = self._left.pop("table")
        if table not in ("NONE", row.options):
            self.remark(f"its options are {table}, which TFLite does not read there: taken as left out")
            self._left = {}
        least, most = row.inputs
        if not least <= len(operator.inputs) <= most:
            expected = str(least) if least == most else f"{least} to {most}"
            raise self.error(f"has {len(operator.inputs)} inputs", expected=expected)
        if not (row.keeps_scale or row.takes_plain):
            self._check_quantized()
        if not row.changes_type:
            self._check_types()
        if row.keeps_scale:
            self._check_scales()
        if row.scale is not None:
            self._check_result(row.scale)

    def error(self, fact: str, index: int | None = None, *, expected: str = "", remedy: str = "") -> CompileError:
        return self.writer.error(fact, index, expected=expected, remedy=remedy)

    def remark(self, text: str, index: int | None = None) -> None:
        """Something that whoever compiles the file should know of this operator or, if given, one of its tensors."""
        about = str(self.operator) if index is None else f"{self.operator}: {self.tensor(index)}"
        self.writer.remarks[about] = text

    # -- tensors -------------------------------------------------------------------------------------------------------

    @property
    def inputs(self) -> tuple[int, ...]:
        """All inputs; raises CompileError if one is left out."""
        return tuple(self.input(position) for position in range(len(self.operator.inputs)))

    def input(self, position: int) -> int:
        """A tensor's index; raises CompileError if the file leaves it out."""
        index = self.optional(position)
        if index is UNUSED:
            raise self.error(f"leaves out its input {position}", expected="a tensor")
        return index

    def optional(self, position: int) -> int | None:
        inputs = self.operator.inputs
        return inputs[position] if position < len(inputs) else UNUSED

    @property
    def output(self) -> int:
        """The one output."""
        if len(self.operator.outputs) != 1:
            raise self.error(f"has {len(self.operator.outputs)} outputs", expected="1")
        return self.operator.outputs[0]

    def tensor(self, index: int) -> TensorInfo:
        return self.writer.tensor(index)

    def shape(self, index: int) -> tuple[int, ...]:
        return self.writer.tensor(index).shape

    def require_rank(self, index: int, rank: int) -> tuple[int, ...]:
        """A tensor's shape; raises CompileError for another rank."""
        shape = self.shape(index)
        if len(shape) != rank:
            raise self.error(f"is {list(shape)}", index, expected=f"{rank} dimensions")
        return shape

    def require_result(self, expected: tuple[int, ...]) -> None:
        """The one output has this shape; raises CompileError where the file says another."""
        result = self.shape(self.output)
        if result != expected:
            raise self.error(f"gives {list(expected)}; its result is {list(result)} in the file")

    def axis(self, axis: int, rank: int) -> int:
        """An axis counted from the front; raises CompileError for one that is not there."""
        if not -rank <= axis < rank:
            raise self.error(f"names axis {axis} of {rank} dimensions")
        return axis % rank

    # -- options -------------------------------------------------------------------------------------------------------

    def integer(self, name: str, default: int = 0) -> int:
        return self._read(name, default)

    def number(self, name: str, default: float = 0.0) -> float:
        return self._read(name, default)

    def flag(self, name: str) -> bool:
        return bool(self._read(name, False))

    def positive(self, name: str, default: int = 0) -> int:
        """An integer that must be 1 or more; raises CompileError."""
        value = self.integer(name, default)
        if not 1 <= value < 2**31:
            raise self.error(f"{name} = {value}", expected="a positive number")
        return value

    def list_of_integers(self, name: str) -> tuple[int, ...]:
        value = self._left.pop(name, ())
        return tuple(int(item) for item in value) if isinstance(value, tuple) else ()

    def name_of(self, name: str, enumeration: str, default: int = 0) -> str:
        """The value of an option that is one of the schema's enumerations; raises CompileError for an unknown one."""
        value, known = self.integer(name, default), enumerators(enumeration)
        if value not in known:
            raise self.error(f"{name} = {value}", expected=" or ".join(known.values()))
        return known[value]

    def only(self, name: str, *allowed: Option) -> None:
        """An option that may have these values; raises CompileError for others."""
        value = self._left.pop(name, allowed[0])
        if value not in allowed:
            raise self.error(f"{name} = {value} has no lowering", expected=" or ".join(map(str, allowed)))

    def element_type(self, name: str) -> str:
        """An option that is an element type of the schema; raises CompileError for an unknown one."""
        return self.name_of(name, "TensorType")

    def ignore(self, *names: str) -> None:
        """Options that do not change what the operator computes on 8-bit tensors."""
        for name in names:
            self._left.pop(name, None)

    def finish(self) -> None:
        for name, value in self._left.items():
            raise self.error(f"option {name} = {value} has no lowering")

    def _check_quantized(self) -> None:
        """Every 8-bit operand and result has a scale."""
        for index in (*self.operator.inputs, *self.operator.outputs):
            if index is None or index in self.writer.constants and self.writer.constants[index].dtype == np.float32:
                continue
            if self.tensor(index).dtype.name in COMPUTED_INTEGERS and self.tensor(index).quantized is None:
                dtype = self.tensor(index).dtype.name
                raise self.error(f"is {dtype} without a scale", index, expected="a quantised tensor")

    def _check_types(self) -> None:
        """All computed operands and results that hold values of the network have one element type."""
        computed = [i for i in self.operator.inputs if i is not None and i not in self.writer.constants]
        values = [i for i in (*computed, *self.operator.outputs) if self._is_value(i)]
        for index in values[1:]:
            first, dtype = self.tensor(values[0]), self.tensor(index).dtype
            if dtype != first.dtype:
                raise self.error(f"is {dtype.name}", index, expected=f"{first.dtype.name}, as {first}")

    def _is_value(self, index: int) -> bool:
        """Whether a tensor holds values of the network, and not a state that an operator keeps in 16 bits."""
        return self.tensor(index).dtype.name in VALUE_TYPES and not self.writer.is_wide_state(index)

    def _check_scales(self) -> None:
        """All 8-bit operands and results have one scale and zero point."""
        operands = [index for index in self.operator.inputs if index is not None]
        indices = (*operands, *self.operator.outputs)
        quantized = [index for index in indices if self.tensor(index).dtype.name in COMPUTED_INTEGERS]
        for index in quantized[1:]:
            first = self.tensor(quantized[0])
            if not _is_same(first.quantized, self.tensor(index).quantized):
                raise self.error(f"has another scale or zero point than {first}", index)

    def _check_result(self, scale: float) -> None:
        quantized = self.tensor(self.output).quantized
        if quantized is not None and quantized.scale != scale:
            raise self.error(f"has the scale {quantized.scale:.6g}", self.output, expected=f"{scale:.6g}")

    def _read(self, name: str, default: Kind) -> Kind:
        value = self._left.pop(name, default)
        assert isinstance(value, int | float), name
        return value  # type: ignore[return-value]

    # -- results -------------------------------------------------------------------------------------------------------

    def write(self, value: str, layout: DimensionOrder) -> None:
        """The one output is these real values."""
        self.writer.write(self.output, value, layout)

    def write_activated(self, value: str, layout: DimensionOrder) -> None:
        """The one output is the fused activation of these real values."""
        self.write(self.limited(value, self.name_of("fused_activation_function", "ActivationFunctionType")), layout)

    def limited(self, value: str, activation: str) -> str:
        """A value behind an activation that is a limit."""
        if activation not in LIMITS:
            raise self.error(f"the fused activation {activation} has no lowering", expected=" or ".join(LIMITS))
        limits = LIMITS[activation]
        if limits is None:
            return value
        low, high = limits
        if high is None:
            return self.writer.node("Relu", value)
        return self.writer.node("Clip", value, self.writer.number(low), self.writer.number(high))


def _is_same(a: Quantized | None, b: Quantized | None) -> bool:
    if a is None or b is None or len(a.scales) != len(b.scales):
        return a is b
    return a.zero_points == b.zero_points and np.allclose(a.scales, b.scales, rtol=SCALE_TOLERANCE, atol=0)

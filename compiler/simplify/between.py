"""A function of what is computed, with no QuantizeLinear before it: in two instructions, with a tensor between.

    quantize(f(op(a, …)))  →  quantize(f(dequantize(quantize(op(a, …))))), where op is a sum, or of two tensors

The file means one rounding, at its end. The new one between costs a part of a step, which is measured over all values
that matter: those beyond which the result is at its limits. It is taken only where the whole stays within MOST_OFF.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.graph.graph import BETWEEN, FACTOR, Attribute, Operator, Quantization, TensorType
from tilewright.compiler.simplify.attributes import constant_weights
from tilewright.compiler.simplify.binary import BINARY
from tilewright.compiler.simplify.integer import SUMS
from tilewright.compiler.simplify.rewrite import GraphView, Replacement
from tilewright.compiler.simplify.tables import TableRegion, real_function
from tilewright.isa.program.stored_types import DEFAULT_TYPE

Reals = NDArray[np.float64]

READY = tuple(kind for kind in (*SUMS, *BINARY) if kind not in ("softmax", "normalize"))
"""Operators whose result can be quantised by the instruction that computes it."""

MOST_OFF = 0.99
"""How far, in steps of the result, roundings between may move it in all: so its integers differ by one at most."""

LOW, HIGH = DEFAULT_TYPE.limits
"""Of the tensor between."""

TAILS = (0.02, 0.1, 0.25, 0.5)
"""How near, in steps of the result, a function is to its limit where the tensor between may end."""

SAMPLES = 16
"""Places in each step between at which a function is looked at."""

FAR = np.geomspace(1e-3, 1e6, 1500)
"""Places on both sides of 0 at which it is looked for where a function no longer changes."""


# -- with a rounding between -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Between:
    """A tensor between: where it begins and ends, and how far its rounding moves the result, in steps of that."""

    low: float
    high: float
    off: float

    @property
    def quantization(self) -> Quantization:
        """With 0 among its values."""
        scale = (self.high - self.low) / (HIGH - LOW)
        return Quantization((scale,), (int(np.clip(round(LOW - self.low / scale), LOW, HIGH)),))


def round_before_function(operator: Operator, view: GraphView) -> Replacement | None:
    """quantize(f(x)), where x is computed and f works element by element: x is quantised first.

    Where the steps of one tensor are too far apart, x becomes two, of its values below 0 and above: f of each is f(0)
    for the values of the other, so that the sum of both, less f(0), is exact.
    """
    region = _region_of_one(operator, view)
    if region is None:
        return None
    (source,), path = region.ends, tuple(region.operators)
    function = _Function.of(source, path, region.constants, operator, view)
    spent = operator.attributes.get(BETWEEN, 0.0)
    if function is None:
        return None
    range_ = range_of(source, view)
    whole = function.whole(range_)
    if whole.off + spent <= MOST_OFF:
        return inserted(operator, source, path, whole, whole.off + spent, view)
    halves, zero = function.halves(range_), function.at_zero()
    off = spent + max(half.off for half in halves)
    if zero is None or off > MOST_OFF:
        return None
    return _in_halves(operator, source, path, halves, off, zero, view)


def _region_of_one(operator: Operator, view: GraphView) -> TableRegion | None:
    """What is computed element by element between one float tensor, which can be quantised, and a quantisation."""
    region = TableRegion(view, lambda each: each.kind in READY and is_ready(each, view))
    if not region.collect(operator.inputs[0]) or region.leaves or len(region.ends) != 1 or not region.operators:
        return None
    (source,) = region.ends
    quantization = view.type(operator.outputs[0]).quantization
    is_alike = view.type(source).shape == view.type(operator.outputs[0]).shape
    return region if is_alike and quantization is not None and quantization.axis is None else None


def _made(name: str, view: GraphView) -> Operator:
    producer = view.producer(name)
    assert producer is not None
    return producer


def is_ready(operator: Operator, view: GraphView) -> bool:
    """Whether an operator's operands are dequantised tensors of one scale, and constants where it wants these."""
    count = len(operator.inputs) if operator.kind in (*BINARY, "product") else 1
    if any(constant_weights(name, view) is None for name in operator.inputs[count:] if name):
        return False
    sources = [view.producer(name, "dequantize") for name in operator.inputs[:count]]
    types = [view.type(source.inputs[0]) for source in sources if source is not None]
    return len(types) == count and all(t.quantization is not None and t.quantization.axis is None for t in types)


def computed_operand(operator: Operator, view: GraphView) -> int:
    """The position of the one operand that is not dequantised; -1 if there is not one."""
    others = [at for at, name in enumerate(operator.inputs) if view.producer(name, "dequantize") is None]
    is_one = len(others) == 1 and view.constant(operator.inputs[others[0]]) is None
    return others[0] if is_one else -1


NOTHING = Between(0.0, 1.0, np.inf)
"""No tensor that would do."""


@dataclass(frozen=True)
class _Function:
    """A function of one tensor, in steps of the quantised result that it has."""

    operators: Sequence[Operator]
    leaf: str
    constants: Mapping[str, Reals]
    quantize: Operator
    view: GraphView

    @classmethod
    def of(
        cls,
        leaf: str,
        operators: Sequence[Operator],
        constants: Mapping[str, Reals],
        quantize: Operator,
        view: GraphView,
    ) -> _Function | None:
        """None for one whose constants differ along another dimension than the channels."""
        made = cls(operators, leaf, constants, quantize, view)
        return made if real_function(operators, leaf, constants, np.zeros(1), view) is not None else None

    def steps(self, points: Reals) -> Reals:
        """The result at some values, for each channel that differs: [channels, points], within its limits."""
        real = real_function(self.operators, self.leaf, self.constants, points, self.view)
        quantization = self.view.type(self.quantize.outputs[0]).quantization
        assert real is not None and quantization is not None
        low, high = (self.quantize.attributes[name] for name in ("low", "high"))
        with np.errstate(invalid="ignore"):
            steps = real.astype(np.float64) / quantization.scale + quantization.zero_point
        return np.clip(np.nan_to_num(steps, nan=low), low, high)

    def at_zero(self) -> int | None:
        """The integer of f(0); None if channels differ."""
        found = np.unique(np.rint(self.steps(np.zeros(1))))
        return int(found[0]) if len(found) == 1 else None

    def whole(self, range_: tuple[float, float]) -> Between:
        """The tensor between of which one suffices, if any does: the best of those that end at one of TAILS."""
        found = [self._between(*self._where_it_changes(tail, range_), range_) for tail in TAILS]
        return min(found, key=lambda between: between.off)

    def halves(self, range_: tuple[float, float]) -> tuple[Between, Between]:
        """The tensors of the values below 0 and above; infinitely far off where all values have one sign."""
        found = []
        for tail in TAILS:
            low, high = self._where_it_changes(tail, range_)
            below = self._between(low, 0.0, (min(range_[0], 0.0), 0.0))
            above = self._between(0.0, high, (0.0, max(range_[1], 0.0)))
            found.append((below, above) if low < 0 < high else (NOTHING, NOTHING))
        return min(found, key=lambda pair: max(half.off for half in pair))

    def _where_it_changes(self, tail: float, range_: tuple[float, float]) -> tuple[float, float]:
        """Between these values, and 0, all happens."""
        points = np.concatenate([-FAR[::-1], [0.0], FAR])
        points = np.clip(points, *range_)
        steps = self.steps(points)
        moves = np.flatnonzero((np.abs(steps - steps[:, :1]) > tail).any(axis=0))
        back = np.flatnonzero((np.abs(steps - steps[:, -1:]) > tail).any(axis=0))
        if not len(moves) or not len(back):
            return 0.0, 1.0
        first, last = points[max(0, moves[0] - 1)], points[min(len(points) - 1, back[-1] + 1)]
        return min(0.0, float(first)), max(0.0, float(last))

    def _between(self, low: float, high: float, range_: tuple[float, float]) -> Between:
        """A tensor between these ends, and what it costs: the function of a value against that of its step."""
        if not low < high:
            return Between(0.0, 1.0, 0.0 if range_[0] == range_[1] else np.inf)
        quantization = Between(low, high, 0.0).quantization
        inside = np.linspace(low, high, (HIGH - LOW) * SAMPLES + 1)
        far = np.clip(np.concatenate([-FAR, FAR]), *range_)
        points = np.concatenate([inside, far])
        integers = np.clip(np.rint(points / quantization.scale) + quantization.zero_point, LOW, HIGH)
        rounded = (integers - quantization.zero_point) * quantization.scale
        off = np.abs(self.steps(points) - self.steps(rounded)).max()
        return Between(low, high, float(off))


def range_of(name: str, view: GraphView) -> tuple[float, float]:
    """The least and the greatest value that a tensor can have, as far as that is known."""
    operator = _made(name, view)
    if operator.kind == "dequantize":
        return _range_of_integers(operator.inputs[0], view)
    factor = operator.attributes.get(FACTOR, 1.0)
    if operator.kind in ("average_pool", "interpolate"):
        return range_of(operator.inputs[0], view)
    if operator.kind not in BINARY:
        return -float(FAR[-1]), float(FAR[-1])
    (a, b), (c, d) = (range_of(operand, view) for operand in operator.inputs)
    ends = {
        "add": (a + c, b + d),
        "sub": (a - d, b - c),
        "mul": (min(a * c, a * d, b * c, b * d), max(a * c, a * d, b * c, b * d)),
        "maximum": (max(a, c), max(b, d)),
        "minimum": (min(a, c), min(b, d)),
    }
    low, high = ends[operator.kind]
    return low * factor, high * factor


def _range_of_integers(name: str, view: GraphView) -> tuple[float, float]:
    """Of a quantised tensor: its type's limits, or those within which it was made."""
    known, producer = view.type(name), view.producer(name)
    assert known.quantization is not None
    low, high = known.limits
    if producer is not None and view.constant(name) is None:
        low, high = producer.attributes.get("low", low), producer.attributes.get("high", high)
    value = view.constant(name)
    if value is not None:
        low, high = int(value.min()), int(value.max())
    scale, zero = known.quantization.scale, known.quantization.zero_point
    return (low - zero) * scale, (high - zero) * scale


# -- what takes their place --------------------------------------------------------------------------------------------


def inserted(
    quantize: Operator, source: str, path: Sequence[Operator], between: Between, off: float, view: GraphView
) -> Replacement:
    """The quantisation again, of a path that begins at the tensor between; `path` is in the order of computation."""
    operators, types, real = _path_of(source, path, between, "", view)
    made = replace(quantize, inputs=(real,), attributes={**quantize.attributes, BETWEEN: off})
    return Replacement((*operators, made), types)


def _path_of(
    source: str, path: Sequence[Operator], between: Between, suffix: str, view: GraphView
) -> tuple[tuple[Operator, ...], dict[str, TensorType], str]:
    """A copy of a path that reads a quantised tensor in place of its source: operators, types, the last result."""
    integers, real = view.fresh(f"{source}.between{suffix}"), view.fresh(f"{source}.rounded{suffix}")
    shape = view.type(source).shape
    types = {integers: TensorType(DEFAULT_TYPE.name, shape, between.quantization), real: TensorType("float32", shape)}
    maker = _made(source, view)
    limits: dict[str, Attribute] = {"low": LOW, "high": HIGH}
    made = [
        Operator(f"{maker.name}.between{suffix}", "quantize", (source,), (integers,), limits, maker.nodes),
        Operator(f"{maker.name}.rounded{suffix}", "dequantize", (integers,), (real,), {}, maker.nodes),
    ]
    names = {source: real}
    for operator in path:
        names |= {name: view.fresh(f"{name}.rounded{suffix}") for name in operator.outputs}
        types |= {names[name]: view.type(name) for name in operator.outputs}
        inputs = tuple(names.get(name, name) for name in operator.inputs)
        made.append(replace(operator, inputs=inputs, outputs=tuple(names[name] for name in operator.outputs)))
    return tuple(made), types, made[-1].outputs[0]


def _in_halves(
    quantize: Operator,
    source: str,
    path: Sequence[Operator],
    halves: Sequence[Between],
    off: float,
    zero: int,
    view: GraphView,
) -> Replacement:
    """The sum of the results for the values below 0 and above; the second's zero point takes f(0) off again."""
    result_type = view.type(quantize.outputs[0])
    assert result_type.quantization is not None
    operators: list[Operator] = []
    types: dict[str, TensorType] = {}
    values: dict[str, NDArray[Any]] = {}
    reals = []
    for number, half in enumerate(halves):
        made, found, real = _path_of(source, path, half, f"{number}", view)
        part, part_real = (view.fresh(f"{quantize.outputs[0]}.{suffix}{number}") for suffix in ("part", "real"))
        steps = result_type.quantization
        types |= found | {part_real: TensorType("float32", result_type.shape)}
        operators += made
        if number:
            real, moved = _less(real, (zero - steps.zero_point) * steps.scale, quantize, view)
            operators += moved.operators
            types |= moved.tensors
            values |= moved.constants
            steps = replace(steps, zero_points=(zero,))
        types[part] = replace(result_type, quantization=steps)
        operators.append(replace(quantize, name=f"{quantize.name}.part{number}", inputs=(real,), outputs=(part,)))
        operators.append(
            Operator(f"{quantize.name}.real{number}", "dequantize", (part,), (part_real,), {}, quantize.nodes)
        )
        reals.append(part_real)
    total = view.fresh(f"{quantize.outputs[0]}.total")
    types[total] = TensorType("float32", result_type.shape)
    operators.append(Operator(f"{quantize.name}.sum", "add", tuple(reals), (total,), {}, quantize.nodes))
    operators.append(replace(quantize, inputs=(total,), attributes={**quantize.attributes, BETWEEN: off}))
    return Replacement(tuple(operators), types, values)


def _less(name: str, number: float, quantize: Operator, view: GraphView) -> tuple[str, Replacement]:
    """A float tensor less a number."""
    result, constant = view.fresh(f"{name}.less"), view.fresh(f"{name}.number")
    shape = view.type(quantize.outputs[0]).shape
    value = np.full((1,) * len(shape), number, np.float32)
    types = {result: TensorType("float32", shape), constant: TensorType("float32", value.shape)}
    made = Operator(f"{quantize.name}.less", "sub", (name, constant), (result,), {}, quantize.nodes)
    return result, Replacement((made,), types, {constant: value})


BETWEEN_RULES = {"quantize": (round_before_function,)}
"""Tried where all other rules have left something in float."""

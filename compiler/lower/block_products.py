"""Products whose weights have a scale for each block along the sum: a sum for each block, times its scale, added up.

    sums[o, b] = sum(x[i] * w[o, i])  for i in block b            a nest for each block, on the array
    y[o] = requantized(sum(sums[o, b] * scale[o, b]))             one nest, in the vector engine

Of a convolution, ONNX gives a scale to each block of input channels and each tap of the window. So there is a sum for
each of both; but where the scales of a block are the same for all taps, its sum is over the whole window.

The scales of a channel are integers in one unit, a power of two of a step of the result. They are as large as the
machine's type of scales allows, and as the type of sums has room for the sum of all blocks. Where they fill their type
and sums have more room, the unit is any number, with which they are nearest to the file's. All else is exact, with one
rounding at the end, as in a product with one scale for each channel.

Where the machine's instruction shifts the sum of all blocks, scales are as large as their type allows, and the shift
leaves what the type of sums has room for. It rounds, too, by a small part of a step.

Example, two blocks whose sums count 0.5 and 0.3 steps, with scales of 8 bits: 128 and 77, in units of 1/256 of a step;
with more room in sums 255 and 153, in units of 1/510.
If they count 0.4 and 0.1 steps, which is the same but for a power of two: 64 and 16, in units of 1/160 of a step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.errors import CompileError
from tilewright.compiler.graph.graph import CHANNEL, Operator, spread_scales
from tilewright.compiler.lower.network import (
    WORTH_A_REMARK,
    LoweringNetwork,
    affine,
    precision_of,
    result_loops,
    result_scales,
    whole,
    window_access,
)
from tilewright.compiler.lower.partial_sums import SummedPart, all_pieces, of_part, parts_of, piece, place_of, sums_of
from tilewright.compiler.lower.product_pieces import lower_in_pieces
from tilewright.compiler.lower.product_types import is_sum, require_few_bits
from tilewright.compiler.lower.products import (
    Product,
    integer_bias,
    lower_conv,
    requantised_sum,
    sum_bounds,
)
from tilewright.compiler.lower.sum_formats import BlockFormat
from tilewright.compiler.nest.expressions import shifted, source, sum_of_products
from tilewright.compiler.nest.nest import Access, Nest
from tilewright.isa.language.numeric import Interval

FRACTION_BITS = 6
"""Bits below a step that a sum of all blocks keeps when it is shifted: what that rounds is 1 / 128 of a step."""

TRIED_PARTS, TRIED_RANGE = 32, 512
"""How many common parts are tried for the scales of a channel, each larger than the one before by one in so many."""


def lower_convolution(operator: Operator, network: LoweringNetwork) -> list[Nest]:
    """A product with constant weights, whose scales are one, one for each output channel, or one for each block."""
    quantization = network.graph.tensors[operator.inputs[1]].quantization
    if quantization is None or not quantization.block:
        return lower_in_pieces(operator, network) or lower_conv(operator, network)
    found = _require_form(operator, network)
    blocks = _blocks_of(operator, network, found)
    shape = network.shape(operator.outputs[0])
    return [
        nest
        for part in parts_of(operator.name, shape, blocks.count, found.memory, network)
        for nest in _nests_of(operator, part, blocks, network, found)
    ]


def _require_form(operator: Operator, network: LoweringNetwork) -> BlockFormat:
    """The machine's format; raises CompileError for what has no lowering."""
    quantization = network.graph.tensors[operator.inputs[1]].quantization
    assert quantization is not None
    block = f"its weights have a scale for each block of {quantization.block}"
    if network.blocks is None:
        expected = "an instruction that does, `wrap(sum(a * w), acc)` with `a` in acc, as llm16 has"
        raise CompileError(operator, f"{block}, and no instruction adds up sums of blocks", expected=expected)
    if operator.attributes["group"] != 1:
        raise CompileError(operator, f"{block}, and it has groups", expected="one group")
    if quantization.axis != CHANNEL:
        raise CompileError(operator, f"{block} of outputs", expected="blocks along the sum")
    require_few_bits(operator, network)
    vector = network.lanes * network.group
    if quantization.block % vector:
        raise CompileError(operator, block, expected=f"a multiple of {vector}, the channels of a vector")
    if is_sum(operator.outputs[0], network):
        raise CompileError(operator, f"{block}, and its result is sums", expected="a result with a scale")
    return network.blocks


# -- numbers -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Block:
    """Input channels and taps whose weights have one scale for each output channel."""

    channels: range
    rows: range  # of the window
    columns: range

    def of(self, weights: NDArray[Any]) -> NDArray[Any]:
        """Its weights, of [O, I, R, S]; or their scales."""
        channels, rows, columns = (slice(each.start, each.stop) for each in (self.channels, self.rows, self.columns))
        return weights[:, channels, rows, columns]


@dataclass(frozen=True)
class _Blocks:
    """The weights in blocks along the sum, and what each output channel needs."""

    weights: NDArray[np.int64]  # [O, I, R, S], less their zero points
    blocks: tuple[_Block, ...]
    scales: NDArray[np.int64]  # [O, B]
    bounds: NDArray[np.int64]  # [2, O, B]: least and greatest sum
    bias: NDArray[np.int64]  # [O], in units
    units: NDArray[np.float64]  # [O]: steps of the result, of the sum of all blocks after its shift
    shift: int  # by which the sum of all blocks is shifted right

    @property
    def count(self) -> int:
        return len(self.blocks)


def _blocks_of(operator: Operator, network: LoweringNetwork, found: BlockFormat) -> _Blocks:
    name = operator.inputs[1]
    quantization = network.graph.tensors[name].quantization
    assert quantization is not None
    values = network.graph.constants[name]
    real, zeros = (np.broadcast_to(numbers, values.shape) for numbers in spread_scales(quantization, values.shape))
    weights = values.astype(np.int64) - np.rint(zeros).astype(np.int64)
    blocks = tuple(_divided(real, quantization.block))
    x_scale, x_zero = network.quantization(operator.inputs[0])
    y_scales = np.broadcast_to(result_scales(network.graph.tensors[operator.outputs[0]]), weights.shape[:1])
    scale_of_each = np.stack([block.of(real)[:, 0, 0, 0] for block in blocks], 1)
    factors = scale_of_each * x_scale / y_scales[:, None]
    bounds = np.stack([sum_bounds(block.of(weights), network) for block in blocks], 2)
    totals = np.stack([block.of(weights).sum(axis=(1, 2, 3)) for block in blocks], 1)
    offsets = integer_bias(operator, y_scales, network)
    reach = np.abs(bounds).max(axis=0)
    widths = _widths(factors, reach, x_zero * totals, offsets, network, found)
    common = _common_parts(factors, reach, widths, found.scale.interval.high)
    scales = np.rint(np.ldexp(factors / common[:, None], widths.exponents[:, None])).astype(np.int64)
    units = np.ldexp(common, -widths.exponents)
    shifted_units = np.ldexp(units, widths.shift)
    added = np.ldexp((x_zero * (scales * totals).sum(axis=1)).astype(np.float64), -widths.shift)
    bias = integer_bias(operator, shifted_units * y_scales, network) - np.rint(added).astype(np.int64)
    made = scales.astype(np.float64) * units[:, None]
    _remark_on_precision(operator, factors, made, reach, network)
    return _Blocks(weights, blocks, scales, bounds, bias, shifted_units, widths.shift)


def _divided(scales: NDArray[np.float64], block: int) -> Iterator[_Block]:
    """The blocks of weights whose scales are [O, I, R, S]: of all taps of the window, or of each."""
    _, inputs, rows, columns = scales.shape
    is_of_window = bool((scales == scales[:, :, :1, :1]).all())
    taps = [(range(rows), range(columns))] if is_of_window else [
        (range(row, row + 1), range(column, column + 1)) for row in range(rows) for column in range(columns)
    ]  # fmt: skip
    for first in range(0, inputs, block):
        channels = range(first, min(first + block, inputs))
        yield from (_Block(channels, *of_taps) for of_taps in taps)


@dataclass(frozen=True, slots=True)
class _Widths:
    """How large the scales of each channel are, [O], and by how much the sums of all blocks are shifted right."""

    exponents: NDArray[np.int64]  # a scale is its factor times two to the power of this
    has_room: NDArray[np.bool_]  # for scales of twice that
    shift: int


def _widths(
    factors: NDArray[np.float64], reach: NDArray[np.int64], offsets: NDArray[np.int64], bias: NDArray[np.int64],
    network: LoweringNetwork, found: BlockFormat,
) -> _Widths:  # fmt: skip
    """As many bits as scales, biases and sums have.

    The sum of each block, [O, B], is as far from 0 as `reach` at most; the input's zero point adds `offsets` to it.
    """
    reach = np.maximum(reach, 1)
    beyond = 2 * network.arithmetic.activation.values.span  # a bias that is larger gives the limit in any case
    added = np.abs((factors * offsets).sum(axis=1)) + np.minimum(np.abs(bias), beyond)
    total = (factors * reach).sum(axis=1) + added
    held = network.from_sums.bias.interval.high - 1 - np.abs(offsets).sum(axis=1) / 2  # less what scales are rounded by
    rounded = reach.sum(axis=1)
    with np.errstate(divide="ignore"):
        of_type = _exponents(found.scale.interval.high / factors.max(axis=1))
        before = _exponents((found.most_before - rounded) / total)
        of_sums = _exponents(np.minimum((found.most - rounded) / total, held / added))
    of_scales = np.minimum(np.minimum(of_type, before), network.from_sums.max_shift)
    lost = int((of_scales + 1 - of_sums).max())
    shift = max(0, min(lost, int(of_scales.min()) - FRACTION_BITS, found.most_shift))
    exponents = np.minimum(of_scales, of_sums + shift)
    has_room = (exponents == of_type) & (exponents < before) & (exponents < of_sums + shift)
    return _Widths(exponents, has_room, shift)


def _exponents(room: NDArray[np.float64]) -> NDArray[np.int64]:
    """The largest powers of two that are not above numbers."""
    _, exponents = np.frexp(np.where(np.isfinite(room), room, 1.0))
    return exponents.astype(np.int64) - 1


def _common_parts(
    factors: NDArray[np.float64], reach: NDArray[np.int64], widths: _Widths, largest: int
) -> NDArray[np.float64]:
    """[O]: what the scales of a channel's blocks have in common besides powers of two; the channel's own scale has it.

    Scales of E8M0 are powers of two, so that without it they are integers, exactly. Of others, it is a number that
    makes the largest scale about as large as its type allows, where sums have the room: of some, the one with which
    sums that reach as far as `reach`, [O, B], are least off.
    """
    parts, _ = np.frexp(factors)
    first = parts[:, :1]
    is_common = (parts == first).all(axis=1) & (first[:, 0] > 0) & (factors.shape[1] > 1)
    real = np.ldexp(factors, widths.exponents[:, None])
    tried = real.max(axis=1) / largest * (1 + np.arange(TRIED_PARTS) / TRIED_RANGE)[:, None]
    tried = np.where(widths.has_room, tried, 1.0)[:, :, None]
    off = (np.abs(np.rint(real / tried) * tried - real) * reach).sum(axis=2)
    best = tried[off.argmin(axis=0), np.arange(len(factors)), 0]
    return np.where(is_common, 2 * first[:, 0], best)


def _remark_on_precision(
    operator: Operator, factors: NDArray[np.float64], made: NDArray[np.float64], reach: NDArray[np.int64],
    network: LoweringNetwork,
) -> None:  # fmt: skip
    """A remark where the integers that scales become leave results far off."""
    off, total = ((each * reach).sum(axis=1) for each in (np.abs(made - factors), factors))
    steps = float((off / np.maximum(total, 1e-300)).max()) * precision_of(network.arithmetic.activation)
    if steps > WORTH_A_REMARK:
        network.remarks[f"precision of {operator.name}"] = (
            f"the scales of its blocks are integers, and leave results up to {steps:.2g} steps off"
        )


# -- nests -------------------------------------------------------------------------------------------------------------


def _nests_of(
    operator: Operator, part: SummedPart, blocks: _Blocks, network: LoweringNetwork, found: BlockFormat
) -> Iterator[Nest]:
    """The sums of each block, and what becomes of them."""
    batches = network.shape(operator.outputs[0])[0]
    trips = (batches, len(part.channels), len(part.rows), len(part.columns))
    sums, own = sums_of(part, batches, blocks.count, network), part.own
    x, shape = operator.inputs[0], network.shape(operator.outputs[0])
    window = window_access(x, "i", operator, whole(shape), network, outside=network.quantization(x)[1])
    for number in range(blocks.count):
        yield _sums_of_block(operator, part, number, blocks, of_part(window, part), sums, trips, network)
    scales = network.add_constant(f"{part.name}.blocks", blocks.scales[None, own, :, None], found.scale)
    before = (blocks.bounds[:, own] * blocks.scales[own]).sum(axis=2)
    reads = {
        "sums": all_pieces(sums, part),
        "blocks": Access(scales, (affine(), affine(("o", 1)), affine(("b", 1)), affine())),
    }
    each = Interval(int(blocks.bounds[0, own].min()), int(blocks.bounds[1, own].max()))
    bound = Interval(int(before[0].min()), int(before[1].max()))
    total = sum_of_products(source("sums", each), source("blocks", network.values(scales)), bound)
    if found.most_shift:
        total = shifted(total, blocks.shift, network.from_sums)
    bounds = np.stack([before[0] >> blocks.shift, -(-before[1] >> blocks.shift)])
    result = place_of(part, network.buffer_of[operator.outputs[0]])
    leak = operator.attributes.get("leak", ())
    product = Product(
        (), reads["blocks"], trips, reads["sums"], result, blocks.bias[own], blocks.units[own], bounds, 0, leak
    )
    expr, more = requantised_sum(part.name, operator, total, product, network)
    yield Nest(part.name, operator.nodes, result_loops(trips, b=blocks.count), {**reads, **more}, result, expr, 0)


def _sums_of_block(
    operator: Operator, part: SummedPart, number: int, blocks: _Blocks, window: Access, sums: str,
    trips: tuple[int, ...], network: LoweringNetwork,
) -> Nest:  # fmt: skip
    """The sums of one block, in rows of their own."""
    block, own = blocks.blocks[number], part.own
    values = block.of(blocks.weights)[own]
    name = f"{part.name}.block{number}"
    weights = network.add_constant(f"{name}.weight", values, network.arithmetic.weight)
    bounds = blocks.bounds[:, own, number]
    total = sum_of_products(
        network.activation("x"),
        source("w", network.values(weights)),
        Interval(int(bounds[0].min()), int(bounds[1].max())),
    )
    taps = {loop: len(of) for loop, of in (("r", block.rows), ("s", block.columns)) if len(of) > 1}
    held = (affine((loop, 1)) if loop in taps else affine() for loop in ("r", "s"))
    reads = {
        "x": _read_of(block, window, tuple(taps)),
        "w": Access(weights, (affine(("o", 1)), affine(("i", 1)), *held)),
    }
    loops = result_loops(trips, i=values.shape[1], **taps)
    macs = values.size * trips[0] * trips[2] * trips[3]
    return Nest(name, operator.nodes, loops, reads, piece(sums, part, number), total, macs, layer=operator.name)


def _read_of(block: _Block, window: Access, taps: tuple[str, ...]) -> Access:
    """What a block reads of a window of all channels, in loops over its channels and `taps`."""
    starts = {"r": block.rows.start, "s": block.columns.start}
    single = {loop: start for loop, start in starts.items() if loop not in taps}
    return window.fixed(single).begun({"i": block.channels.start, **starts})

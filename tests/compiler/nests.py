"""Nest programs made by hand, and what they mean by plain numpy: the expected values of the selector's tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.nest.nest import Access, Affine, Buffer, Nest, NestLoop, NestProgram
from tilewright.compiler.select.column_sums import column_sums
from tilewright.compiler.select.plain_sums import plain_sums
from tilewright.compiler.select.select import select
from tilewright.compiler.select.windows import windows
from tilewright.compiler.tile.interpreter import interpret_tiles
from tilewright.compiler.tile.program import TileProgram
from tilewright.compiler.tiling.options import TilingOptions
from tilewright.compiler.tiling.tile import tile
from tilewright.isa.language.expressions import Expr, const, make
from tilewright.isa.language.numeric import IntegerType, Interval, Rounding, round_shift
from tilewright.isa.language.operations import Op
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.program import Tensor

Values = NDArray[np.int64]
INT8 = IntegerType(8, True)


def axis(*terms: tuple[str, int], plus: int = 0) -> Affine:
    return Affine(tuple(terms), plus)


def source(name: str, low: int, high: int) -> Expr:
    return Expr(Op.SOURCE, Interval(low, high), name=name)


def activation(name: str) -> Expr:
    return source(name, INT8.interval.low, INT8.interval.high)


def clamp(value: Expr, low: int, high: int) -> Expr:
    return make(Op.MIN, make(Op.MAX, value, const(low)), const(high))


def network_for(machine: Machine, seed: int) -> NetworkByHand:
    """An empty network whose numbers fit a machine's rounding and multipliers."""
    scales = [f.type.bits for memory in machine.memories.values() for f in memory.element.fields if f.name == "scale"]
    return NetworkByHand(np.random.default_rng(seed), machine.rounding, min(16, *scales, 16))


@dataclass
class NetworkByHand:
    """A nest program that grows layer by layer beside the values that each layer must have."""

    rng: np.random.Generator
    rounding: Rounding = Rounding.EVEN
    scale_bits: int = 16
    nests: list[Nest] = field(default_factory=list)
    buffers: dict[str, Buffer] = field(default_factory=dict)
    constants: dict[str, Values] = field(default_factory=dict)
    types: dict[str, IntegerType] = field(default_factory=dict)
    values: dict[str, Values] = field(default_factory=dict)
    inputs: list[str] = field(default_factory=list)

    def input(self, *shape: int, high: int = 127) -> str:
        name = f"in{len(self.inputs)}"
        self.inputs.append(name)
        self._buffer(name, self.rng.integers(-128, high + 1, shape))
        return name

    def conv(
        self, x: str, channels: int, kernel: tuple[int, int], stride: int = 1, pad: int = 0, dilation: int = 1,
        groups: int = 1, add: str | None = None, zero: int = 3, low: int = -128,
    ) -> str:  # fmt: skip
        """A convolution and its requantisation; with `add`, a residual add is fused to it."""
        n, c, h, w = self.buffers[x].shape
        kh, kw = kernel
        name = f"conv{len(self.nests)}"
        weights = self.rng.integers(-127, 128, (channels, c, kh, kw))
        for o in range(channels):
            group = o * groups // channels
            weights[o, : group * c // groups] = 0
            weights[o, (group + 1) * c // groups :] = 0
        bias = self.rng.integers(-(2**16), 2**16, channels)
        scale = self.rng.integers(1, 2**self.scale_bits, channels)
        shift = self.rng.integers(20, 30, channels)
        pad_value = -5
        padded = np.pad(self.values[x], ((0, 0), (0, 0), (pad, pad), (pad, pad)), constant_values=pad_value)
        oh = (h + 2 * pad - dilation * (kh - 1) - 1) // stride + 1
        ow = (w + 2 * pad - dilation * (kw - 1) - 1) // stride + 1
        total = np.zeros((n, channels, oh, ow), np.int64)
        for r in range(kh):
            for s in range(kw):
                ys, xs = r * dilation, s * dilation
                piece = padded[:, :, ys : ys + (oh - 1) * stride + 1 : stride, xs : xs + (ow - 1) * stride + 1 : stride]
                total += np.einsum("nihw,oi->nohw", piece, weights[:, :, r, s])
        per_channel = (slice(None), None, None)
        y = round_shift((total + bias[per_channel]) * scale[per_channel], shift[per_channel] + total * 0, self.rounding)
        y = np.clip(y + zero, low, 127)
        bound = 128 * 127 * c * kh * kw
        product = make(Op.MUL, source("x", -128, 127), source("w", -127, 127))
        value = Expr(Op.SUM, Interval(-bound, bound), (product,))
        value = make(Op.ADD, value, source("bias", int(bias.min()), int(bias.max())))
        value = make(Op.MUL, value, source("scale", 1, int(scale.max())))
        value = self._rounded(value, source("shift", 20, 30))
        value = clamp(make(Op.ADD, value, const(zero)), low, 127)
        loops = [("n", n), ("o", channels), ("y", oh), ("x", ow)]
        reduce = [("i", c), ("r", kh), ("s", kw)]
        rows = axis(("y", stride), ("r", dilation), plus=-pad)
        columns = axis(("x", stride), ("s", dilation), plus=-pad)
        reads = {
            "x": Access(x, (axis(("n", 1)), axis(("i", 1)), rows, columns), pad_value if pad else None),
            "w": Access(f"{name}.w", tuple(axis((loop, 1)) for loop in "oirs")),
        }
        for part, numbers in (("bias", bias), ("scale", scale), ("shift", shift)):
            reads[part] = Access(f"{name}.{part}", (axis(("o", 1)),))
            self._constant(f"{name}.{part}", numbers, IntegerType(32, True))
        self._constant(f"{name}.w", weights, INT8)
        if add is not None:
            reads["b"] = Access(add, tuple(axis((loop, 1)) for loop in "noyx"))
            y, value = self._add(y, value, self.values[add])
        return self._nest(name, loops, reduce, reads, value, y, n * channels * oh * ow * c * kh * kw)

    def add(self, a: str, b: str) -> str:
        name = f"add{len(self.nests)}"
        y, value = self._add(self.values[a], source("a", -128, 127), self.values[b])
        loops = list(zip("noyx", self.buffers[a].shape, strict=True))
        reads = {k: Access(t, tuple(axis((loop, 1)) for loop in "noyx")) for k, t in (("a", a), ("b", b))}
        return self._nest(name, loops, [], reads, value, y, 0)

    def _add(self, a: Values, a_expr: Expr, b: Values) -> tuple[Values, Expr]:
        za, sa, zb, sb, shift, zero = 7, 5 << self.scale_bits - 4, -9, 2**self.scale_bits - 7, self.scale_bits - 1, -2
        total = (a - za) * sa + (b - zb) * sb
        y = np.clip(round_shift(total, shift, self.rounding) + zero, -128, 127)
        left = make(Op.MUL, make(Op.SUB, a_expr, const(za)), const(sa))
        right = make(Op.MUL, make(Op.SUB, source("b", -128, 127), const(zb)), const(sb))
        rounded = self._rounded(make(Op.ADD, left, right), const(shift))
        return y, clamp(make(Op.ADD, rounded, const(zero)), -128, 127)

    def rescale(self, a: str) -> str:
        scale, shift = 3 << self.scale_bits - 2, self.scale_bits - 1
        y = np.clip(round_shift((self.values[a] - 4) * scale, shift, self.rounding) + 1, -100, 100)
        product = make(Op.MUL, make(Op.SUB, source("a", -128, 127), const(4)), const(scale))
        value = clamp(make(Op.ADD, self._rounded(product, const(shift)), const(1)), -100, 100)
        loops = list(zip("noyx", self.buffers[a].shape, strict=True))
        reads = {"a": Access(a, tuple(axis((loop, 1)) for loop in "noyx"))}
        return self._nest(f"rescale{len(self.nests)}", loops, [], reads, value, y, 0)

    def copy(self, a: str) -> str:
        loops = list(zip("noyx", self.buffers[a].shape, strict=True))
        reads = {"a": Access(a, tuple(axis((loop, 1)) for loop in "noyx"))}
        return self._nest(f"copy{len(self.nests)}", loops, [], reads, source("a", -128, 127), self.values[a], 0)

    def max_pool(self, x: str, kernel: int, stride: int, pad: int = 0) -> str:
        n, c, h, w = self.buffers[x].shape
        oh, ow = (h + 2 * pad - kernel) // stride + 1, (w + 2 * pad - kernel) // stride + 1
        padded = np.pad(self.values[x], ((0, 0), (0, 0), (pad, pad), (pad, pad)), constant_values=-128)
        y = np.full((n, c, oh, ow), -128, np.int64)
        for r in range(kernel):
            for s in range(kernel):
                piece = padded[:, :, r : r + (oh - 1) * stride + 1 : stride, s : s + (ow - 1) * stride + 1 : stride]
                y = np.maximum(y, piece)
        rows, columns = axis(("y", stride), ("r", 1), plus=-pad), axis(("x", stride), ("s", 1), plus=-pad)
        reads = {"x": Access(x, (axis(("n", 1)), axis(("o", 1)), rows, columns), -128 if pad else None)}
        value = Expr(Op.MAX_OVER, Interval(-128, 127), (source("x", -128, 127),))
        loops = [("n", n), ("o", c), ("y", oh), ("x", ow)]
        return self._nest(f"pool{len(self.nests)}", loops, [("r", kernel), ("s", kernel)], reads, value, y, 0)

    def concat(self, *parts: str) -> str:
        """Copies into one buffer, channels one after the other."""
        name = f"concat{len(self.nests)}"
        self._buffer(name, np.concatenate([self.values[p] for p in parts], axis=1))
        first = 0
        for part in parts:
            loops = list(zip("noyx", self.buffers[part].shape, strict=True))
            nest = Nest(
                f"{name}.{part}", (f"{name} (Concat)",), tuple(NestLoop(k, t) for k, t in loops),
                {"a": Access(part, tuple(axis((k, 1)) for k in "noyx"))},
                Access(name, (axis(("n", 1)), axis(("o", 1), plus=first), axis(("y", 1)), axis(("x", 1)))),
                source("a", -128, 127), 0,
            )  # fmt: skip
            self.nests.append(nest)
            first += self.buffers[part].shape[1]
        return name

    def program(self, *outputs: str) -> NestProgram:
        return NestProgram(
            "by hand", tuple(self.nests), self.buffers, self.constants, self.types,
            tuple(self._tensor(name) for name in self.inputs), tuple(self._tensor(name) for name in outputs),
        )  # fmt: skip

    def _rounded(self, value: Expr, shift: Expr) -> Expr:
        return replace(make(Op.ROUND_SHIFT, value, shift), rounding=self.rounding)

    def _tensor(self, name: str) -> Tensor:
        n, c, h, w = self.buffers[name].shape
        return Tensor(name, (n, c, h, w), (n, c, h, w), "int8", 1.0, 0, 0, 0)

    def _buffer(self, name: str, values: Values) -> None:
        self.buffers[name] = Buffer(name, values.shape, INT8)
        self.values[name] = values

    def _constant(self, name: str, values: Values, of: IntegerType) -> None:
        self.constants[name], self.types[name] = values, of

    def _nest(
        self, name: str, loops: list[tuple[str, int]], reduce: list[tuple[str, int]], reads: Mapping[str, Access],
        value: Expr, result: Values, macs: int,
    ) -> str:  # fmt: skip
        every = tuple(NestLoop(k, t) for k, t in loops) + tuple(NestLoop(k, t, True) for k, t in reduce)
        write = Access(name, tuple(axis((k, 1)) for k in "noyx"))
        self.nests.append(Nest(name, (f"{name} (ByHand)",), every, reads, write, value, macs))
        self._buffer(name, result)
        return name


# -- running -----------------------------------------------------------------------------------------------------------


def to_region(tensors: tuple[Tensor, ...], size: int, values: Mapping[str, Values]) -> bytes:
    """The bytes of a region that holds some tensors in blocks of lanes."""
    region = np.zeros(size, np.uint8)
    for tensor in tensors:
        n, c, h, w = tensor.stored
        blocks = -(-c // tensor.lanes)
        full = np.zeros((n, blocks * tensor.lanes, h, w), np.int8)
        full[:, :c] = values[tensor.name]
        content = full.reshape(n, blocks, tensor.lanes, h, w).transpose(0, 1, 3, 4, 2).copy().view(np.uint8).ravel()
        region[tensor.offset : tensor.offset + len(content)] = content
    return region.tobytes()


def from_region(tensor: Tensor, region: bytes) -> Values:
    """A tensor's values, out of a region in blocks of lanes."""
    n, c, h, w = tensor.stored
    blocks = -(-c // tensor.lanes)
    content = np.frombuffer(region, np.int8, n * blocks * h * w * tensor.lanes, tensor.offset)
    blocked = content.astype(np.int64).reshape(n, blocks, h, w, tensor.lanes)
    return blocked.transpose(0, 1, 4, 2, 3).reshape(n, -1, h, w)[:, :c]


def run(network: NetworkByHand, program: TileProgram) -> dict[str, Any]:
    """The outputs that a tile program computes from the network's inputs."""
    outputs = interpret_tiles(program, to_region(program.inputs, program.input_bytes, network.values))
    return {tensor.name: from_region(tensor, outputs) for tensor in program.outputs}


def select_and_tile(nests: NestProgram, machine: Machine, options: TilingOptions | None = None) -> TileProgram:
    """What the passes after `fuse` make of nests."""
    for prepare in (plain_sums, column_sums, windows):
        nests = prepare(nests, machine)
    return tile(select(nests, machine), options)


def assert_computes(
    network: NetworkByHand, machine: Machine, *outputs: str, options: TilingOptions | None = None
) -> TileProgram:
    """Compile to tiles, run them, and compare every output with numpy's; returns the tile program."""
    program = select_and_tile(network.program(*outputs), machine, options)
    for name, values in run(network, program).items():
        np.testing.assert_array_equal(values, network.values[name], err_msg=name)
    return program

"""Chains of layers, cut into stripes whether that pays or not, on machines with memories of any size.

The nests in stripes have the values of the nests before, and so has the program that is made of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import onnx
from hypothesis import strategies
from hypothesis.strategies import DrawFn

from tests.compiler.models import ModelBuilder, add_conv, random_inputs, rescaled
from tests.compiler.pipelines import simulated
from tests.compiler.stripes.networks import any_chains, before_stripes, compiled_nests
from tests.fuzz.compiling import prepare_compiler
from tests.fuzz.harness import Outcome, Target, WrongAnswer
from tilewright.compiler.errors import CompileError
from tilewright.compiler.levels import NESTS
from tilewright.compiler.nest.interpreter import Values, run_nests
from tilewright.compiler.stripes.chain import Chain
from tilewright.compiler.stripes.cut import Stripes, in_stripes
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.machine import Machine

MACHINES = ("dw16", "base16", "tiny8", "rect", "wide32", "sequence16", "vector16")
HAVE_SOFTMAX = ("sequence16", "vector16")
OFTEN = ("convolution", "depthwise", "depthwise", "sum")
KIB = (1, 2, 4, 16, 64)
CHANNELS = (3, 8, 16, 24, 40, 48)
LARGEST = 12_000
"""Elements of a tensor, so that one input takes well below a second."""


@dataclass(frozen=True)
class Step:
    """A layer: an entry of `STEPS`, which takes of the others what it has a use for.

    `pads` are those of the top and the bottom; `back`: the tensor so many steps before is the second that is read.
    """

    kind: str
    channels: int = 16
    kernel: int = 1
    stride: int = 1
    dilation: int = 1
    pads: tuple[int, int] = (0, 0)
    back: int = 1


@dataclass(frozen=True)
class CutChain:
    """Layers behind each other; of the chains among their nests, the one numbered `chain` is cut."""

    machine: str
    kib: int
    size: tuple[int, int, int]  # channels, rows and columns of the input
    steps: tuple[Step, ...]
    rows: int
    groups: int = 0  # words of channels in a group; 0: all
    is_interleaved: bool = False
    copies_edges: bool = False
    chain: int = 0

    def model(self) -> onnx.ModelProto:
        network = _Network(self.size)
        for step in self.steps:
            STEPS[step.kind](network, step)
        network.builder.output(network.last)
        return rescaled(network.builder.build("chain"))

    @property
    def on(self) -> Machine:
        return machine(self.machine, self.kib)

    def cut(self, found: Chain) -> Stripes:
        lanes = self.on.lanes
        return Stripes(min(self.rows, found.rows), self.groups * lanes or None, self.is_interleaved, self.copies_edges)


@cache
def machine(name: str, kib: int) -> Machine:
    return load_machine(name, [f"memories.act.kib={kib}"])


class _Network:
    """Tensors behind each other, with their channels, rows and columns."""

    def __init__(self, size: tuple[int, int, int]) -> None:
        self.builder = ModelBuilder(np.random.default_rng(0))
        first = self.builder.quantize(self.builder.input("x", [1, *size]), 0.1, name="x.q")
        self.known: list[tuple[str, tuple[int, int, int]]] = [(first, size)]

    @property
    def last(self) -> str:
        return self.known[-1][0]

    @property
    def size(self) -> tuple[int, int, int]:
        return self.known[-1][1]

    @property
    def name(self) -> str:
        return f"layer{len(self.known)}"

    def add(self, tensor: str, size: tuple[int, int, int]) -> None:
        self.known.append((tensor, size))

    def beside(self, back: int) -> str:
        """A tensor before the last, of its size; the last where there is none."""
        found = [tensor for tensor, size in self.known[:-1] if size == self.size]
        return found[-min(back, len(found))] if found else self.last

    def window(self, step: Step) -> tuple[Step, list[int], tuple[int, int]]:
        """A step with a window that fits, what ONNX says of its padding, and the rows and columns of its result."""
        _, height, width = self.size
        reach = step.dilation * (step.kernel - 1)
        top, bottom = (min(pad, reach) for pad in step.pads)
        sides = reach // 2, reach - reach // 2
        rows = (height + top + bottom - reach - 1) // step.stride + 1
        columns = (width + sum(sides) - reach - 1) // step.stride + 1
        if rows < 1 or columns < 1:
            return self.window(replace(step, kernel=1))
        return step, [top, sides[0], bottom, sides[1]], (rows, columns)


def _convolution(network: _Network, step: Step) -> None:
    _convolve(network, step, step.channels, 1)


def _depthwise(network: _Network, step: Step) -> None:
    _convolve(network, step, network.size[0], network.size[0])


def _convolve(network: _Network, wanted: Step, channels: int, group: int) -> None:
    step, pads, plane = network.window(wanted)
    if channels * plane[0] * plane[1] > LARGEST:
        return
    made = add_conv(
        network.builder, network.last, network.size[0], channels, step.kernel, stride=step.stride,
        pads=pads, dilations=step.dilation, group=group, name=network.name,
    )  # fmt: skip
    network.add(made, (channels, *plane))


def _largest(network: _Network, step: Step) -> None:
    _pool(network, Step("MaxPool", kernel=step.kernel, stride=step.stride, pads=step.pads))


def _average(network: _Network, step: Step) -> None:
    _pool(network, Step("AveragePool", kernel=step.kernel, stride=step.stride))


def _pool(network: _Network, wanted: Step) -> None:
    step, pads, plane = network.window(wanted)
    settings = {"kernel_shape": [step.kernel] * 2, "strides": [step.stride] * 2, "pads": pads}
    made = network.builder.node(step.kind, [network.last], name=network.name, **settings)
    network.add(network.builder.quantize(made, 0.1), (network.size[0], *plane))


def _sum(network: _Network, step: Step) -> None:
    _with_another(network, step, "Add")


def _product(network: _Network, step: Step) -> None:
    _with_another(network, step, "Mul")


def _with_another(network: _Network, step: Step, operator: str) -> None:
    made = network.builder.node(operator, [network.last, network.beside(step.back)], name=network.name)
    network.add(network.builder.quantize(made, 0.1), network.size)


def _function(network: _Network, step: Step) -> None:
    made = network.builder.node("Sigmoid", [network.last], name=network.name)
    network.add(network.builder.quantize(made, 1 / 256, -128), network.size)


def _softmax(network: _Network, step: Step) -> None:
    made = network.builder.node("Softmax", [network.last], name=network.name, axis=1)
    network.add(network.builder.quantize(made, 1 / 256, -128), network.size)


def _join(network: _Network, step: Step) -> None:
    other = network.beside(step.back)
    channels, *plane = network.size
    if 2 * channels * plane[0] * plane[1] <= LARGEST:
        made = network.builder.node("Concat", [network.last, other], name=network.name, axis=1)
        network.add(network.builder.quantize(made, 0.1), (2 * channels, plane[0], plane[1]))


STEPS: Mapping[str, Callable[[_Network, Step], None]] = {
    "convolution": _convolution,
    "depthwise": _depthwise,
    "largest": _largest,
    "average": _average,
    "sum": _sum,
    "product": _product,
    "function": _function,
    "softmax": _softmax,
    "join": _join,
}


@strategies.composite
def cut_chains(draw: DrawFn) -> CutChain:
    integers, booleans = strategies.integers, strategies.booleans
    machine, kib = draw(strategies.sampled_from(MACHINES)), draw(strategies.sampled_from(KIB))
    without = () if machine in HAVE_SOFTMAX else ("softmax",)
    kinds = strategies.sampled_from([kind for kind in (*STEPS, *OFTEN) if kind not in without])
    step = strategies.builds(
        Step,
        kinds,
        strategies.sampled_from(CHANNELS),
        strategies.sampled_from((1, 1, 2, 3, 3, 5, 7)),
        strategies.sampled_from((1, 1, 1, 2, 3)),
        strategies.sampled_from((1, 1, 1, 2, 3)),
        strategies.tuples(integers(0, 4), integers(0, 4)),
        integers(1, 4),
    )
    size = draw(strategies.tuples(strategies.sampled_from(CHANNELS), integers(4, 24), integers(1, 12)))
    steps = tuple(draw(strategies.lists(step, min_size=3, max_size=7)))
    return CutChain(
        machine,
        kib,
        size,
        steps,
        rows=draw(integers(1, 6)),
        groups=draw(integers(0, 2)),
        is_interleaved=draw(booleans()),
        copies_edges=draw(booleans()),
        chain=draw(integers(0, 20)),
    )


def attempt(wanted: CutChain) -> Outcome:
    model = wanted.model()
    try:
        nests = before_stripes(model, wanted.on)
    except CompileError:
        return Outcome.REFUSED
    found = any_chains(nests)
    if not found:
        return Outcome.REFUSED
    chain = found[wanted.chain % len(found)]
    cut = in_stripes(chain, wanted.cut(chain))
    NESTS.require(cut)
    inputs = random_inputs(model, np.random.default_rng(0))
    expected = run_nests(nests, inputs)
    _require_same(run_nests(cut, inputs), expected, "nests")
    try:
        program = compiled_nests(cut, wanted.on)
    except CompileError:
        return Outcome.UNJUDGED
    _require_same(simulated(program, inputs), expected, "program")
    return Outcome.RIGHT


def _require_same(computed: Mapping[str, Values], expected: Mapping[str, Values], of: str) -> None:
    for name, values in expected.items():
        if not np.array_equal(computed[name], values):
            raise WrongAnswer(f"output {name!r} of the {of} in stripes has other values", f"stripes: {of}")


TARGET = Target("stripes", cut_chains(), attempt, prepare=prepare_compiler)

"""Random tile programs that are valid by construction: every word is written before it is read."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.random import Generator

from tilewright.compiler.tile.program import BufferAddress, TileBuffer, TileOperation, TileProgram
from tilewright.isa.machine.engine import Template
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.program import Layer, Tensor

WORDS = 6
"""Words of each vector buffer."""


class TileBuilder:
    """Collects buffers and operations; every method adds one operation and returns the buffer that it fills."""

    def __init__(self, machine: Machine, rng: Generator) -> None:
        self.machine = machine
        self.rng = rng
        self.buffers: dict[str, TileBuffer] = {}
        self.operations: list[TileOperation] = []
        self.lanes = machine.memories["act"].word_bytes
        self.weights = rng.integers(0, 256, 4096, np.uint8).tobytes()
        self.layer = 0
        self.fixed("weights", "weights", len(self.weights))
        self.fixed("inputs", "inputs", WORDS * self.lanes)
        self.outputs: list[str] = []

    def fixed(self, name: str, region: str, size: int, offset: int = 0) -> str:
        self.buffers[name] = TileBuffer(name, region, size, 1, offset)
        return name

    def buffer(self, place: str, size: int, alignment: int = 1) -> str:
        name = f"{place}{len(self.buffers)}"
        self.buffers[name] = TileBuffer(name, place, size, alignment)
        return name

    def run(self, mnemonic: str, fields: Mapping[str, int], **buffers: str | tuple[str, int]) -> None:
        bases = {
            operand: BufferAddress(*to) if isinstance(to, tuple) else BufferAddress(to, 0)
            for operand, to in buffers.items()
        }
        self.operations.append(TileOperation(mnemonic, dict(fields), bases, self.layer))

    def load(self, place: str, words: int, alignment: int = 1) -> str:
        """Random words of the weights region."""
        size = self.machine.memories[place].word_bytes
        to = self.buffer(place, words, alignment)
        start = int(self.rng.integers(0, len(self.weights) - words * size))
        self.run(f"load_{place}", {"trip.k": words, "d.k": size, "y.k": 1}, d=("weights", start), y=to)
        return to

    def load_input(self) -> str:
        to = self.buffer("act", WORDS)
        self.run("load_act", {"trip.k": WORDS, "d.k": self.lanes, "y.k": 1}, d="inputs", y=to)
        return to

    def fill(self) -> str:
        to = self.buffer("act", WORDS)
        self.run("fill", {"trip.k": WORDS, "y.k": 1, "value": int(self.rng.integers(-128, 128))}, y=to)
        return to

    def add(self, a: str, b: str, to: str = "") -> str:
        to = to or self.buffer("act", WORDS)
        fields = {"trip.j": 2, "trip.k": WORDS // 2, "a_scale": 3, "b_scale": 5, "shift": 3, "low": -128, "high": 127}
        strides = {f"{operand}.{loop}": step for operand in "aby" for loop, step in (("j", WORDS // 2), ("k", 1))}
        self.run("add", {**fields, **strides}, a=a, b=b, y=to)
        return to

    def matmul(self, vectors: int = 2) -> str:
        """Two accumulating products, requantised; the second with the transpose, if the machine has one."""
        machine = self.machine
        block = machine.array.cols // machine.lanes
        sums = self.buffer("acc", vectors * block, block)
        step = machine.array.rows // machine.lanes
        products = [of.mnemonic for of in machine.formats_of(Template.SYSTOLIC)]
        for accumulate, mnemonic in ((0, products[0]), (1, products[-1])):
            a, w = self.load("act", vectors * step, step), self.load("wgt", machine.array.rows)
            fields = {"trip.x": vectors, "a.x": step, "c.x": block, "accumulate": accumulate}
            self.run(mnemonic, fields, a=a, w=w, c=sums)
        parameters = self.load("par", 1)
        to = self.buffer("act", WORDS)
        fields = {"trip.k": WORDS, "y.k": 1, "low": -128, "high": 127}
        self.run("requantize", {**fields, "a.k": 0}, a=sums, p=parameters, y=to)
        return to

    def through_dram(self, source: str) -> str:
        there = self.buffer("workspace", WORDS * self.lanes)
        self.run("store_act", {"trip.k": WORDS, "y.k": 1, "d.k": self.lanes}, y=source, d=there)
        to = self.buffer("act", WORDS)
        self.run("load_act", {"trip.k": WORDS, "d.k": self.lanes, "y.k": 1}, d=there, y=to)
        return to

    def store(self, source: str) -> None:
        size = WORDS * self.lanes
        name = self.fixed(f"out{len(self.outputs)}", "outputs", size, len(self.outputs) * size)
        self.outputs.append(name)
        self.run("store_act", {"trip.k": WORDS, "y.k": 1, "d.k": self.lanes}, y=source, d=name)

    def program(self) -> TileProgram:
        size = WORDS * self.lanes
        lanes = self.machine.lanes
        stored = (1, lanes, WORDS, 1)
        outputs = tuple(
            Tensor(name, stored, stored, "int8", 1.0, 0, index * size, lanes) for index, name in enumerate(self.outputs)
        )
        return TileProgram(
            name="random",
            machine=self.machine,
            buffers=self.buffers,
            operations=tuple(self.operations),
            weights=self.weights,
            inputs=(Tensor("x", stored, stored, "int8", 1.0, 0, 0, lanes),),
            outputs=outputs,
            input_bytes=size,
            output_bytes=size * len(self.outputs),
            layers=tuple(Layer(f"layer{i}", 0, (f"node{i}",), 0) for i in range(self.layer + 1)),
        )


def random_tiles(machine: Machine, seed: int, steps: int = 30) -> TileProgram:
    """A program of `steps` random steps, each on buffers that earlier ones filled; the last ones are stored."""
    rng = np.random.default_rng(seed)
    builder = TileBuilder(machine, rng)
    filled = [builder.load_input()]
    for step in range(steps):
        builder.layer = step * 3 // steps
        a, b = (filled[int(rng.integers(max(0, len(filled) - 6), len(filled)))] for _ in range(2))
        match rng.integers(0, 7):
            case 0:
                filled.append(builder.fill())
            case 1 | 2:
                filled.append(builder.add(a, b))
            case 3:
                builder.add(a, b, to=a)
            case 4:
                filled.append(builder.matmul())
            case 5:
                filled.append(builder.through_dram(a))
            case _:
                builder.store(a)
    for name in filled[-3:]:
        builder.store(name)
    return builder.program()

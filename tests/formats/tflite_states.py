"""Generated TFLite files with state, as streaming networks on devices have it: resources, SVDF, LSTM.

A form is a file, its outputs, and how far its results may be from those of LiteRT's reference kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator

from tests.compiler.importers.tflite.files import Tensor, TfliteFile

STEPS, UNITS, FEATURES = 5, 8, 6
TANH = 4
REAL: Any = np.float32


@dataclass(frozen=True)
class StateForm:
    """`on_host` are the operators that base16 leaves to the host."""

    file: TfliteFile
    outputs: tuple[Tensor, ...]
    on_host: frozenset[str] = frozenset()
    is_real: bool = False
    has_kernel: bool = True  # of LiteRT; that for microcontrollers has more

    @property
    def apart(self) -> float:
        """How far results may be from LiteRT's: steps, or numbers of floats."""
        return 1e-5 if self.is_real else 1

    @property
    def content(self) -> bytes:
        return self.file.content(*self.outputs)


Maker = Callable[[Generator], StateForm]


# -- resources ---------------------------------------------------------------------------------------------------------


class Streaming:
    """A file in which variables are read, assigned and given their first values by a subgraph."""

    def __init__(self, rng: Generator, dtype: Any = np.int8) -> None:
        self.file, self.rng, self.dtype = TfliteFile(), rng, np.dtype(dtype)
        self.first = self.file.other()
        self.file.operator("CALL_ONCE", [], [], "CallOnceOptions", InitSubgraphIndex=1)

    def tensor(self, name: str, shape: tuple[int, ...], scale: float = 0.05, zero: int = 3) -> Tensor:
        if self.dtype == np.float32:
            return self.file.tensor(name, shape, None, dtype=np.float32)
        return self.file.tensor(name, shape, scale, zero, self.dtype)

    def input(self, name: str, shape: tuple[int, ...]) -> Tensor:
        self.file.inputs.append(self.tensor(name, shape))
        return self.file.inputs[-1]

    def variable(self, name: str, shape: tuple[int, ...], initial: float = 3) -> Tensor:
        """The handle of a variable, which the subgraph gives its first value."""
        handle = self.first.tensor(f"{name}/handle", (), None, dtype=np.void)
        self.first.operator("VAR_HANDLE", [], handle, "VarHandleOptions", SharedName=name)
        if self.dtype == np.float32:
            initial = 0
        value = self.first.constant(f"{name}/first", np.full(shape, initial, self.dtype))
        self.first.operator("ASSIGN_VARIABLE", [handle, value], [], "AssignVariableOptions")
        own = self.file.tensor(f"{name}/handle", (), None, dtype=np.void)
        self.file.operator("VAR_HANDLE", [], own, "VarHandleOptions", SharedName=name)
        return own

    def read(self, handle: Tensor, shape: tuple[int, ...]) -> Tensor:
        value = self.tensor(f"read_{len(self.file.tensors)}", shape)
        self.file.operator("READ_VARIABLE", [handle], value, "ReadVariableOptions")
        return value

    def assign(self, handle: Tensor, value: Tensor) -> None:
        self.file.operator("ASSIGN_VARIABLE", [handle, value], [], "AssignVariableOptions")

    def window(self, handle: Tensor, x: Tensor, count: int) -> Tensor:
        """The last frames and the new one; all but the first are kept for the next run."""
        shape = (1, count, *x.shape[2:])
        before = self.read(handle, shape)
        joined = self.tensor(f"joined_{len(self.file.tensors)}", (1, count + 1, *x.shape[2:]))
        self.file.operator("CONCATENATION", [before, x], joined, "ConcatenationOptions", Axis=1)
        kept = self.tensor(f"kept_{len(self.file.tensors)}", shape)
        first = self.file.constant(f"first_{len(self.file.tensors)}", np.int32([0, 1, 0, 0]))
        size = self.file.constant(f"size_{len(self.file.tensors)}", np.int32([1, count, 1, x.shape[3]]))
        self.file.operator("SLICE", [joined, first, size], kept, "SliceOptions")
        self.assign(handle, kept)
        return joined

    def conv(self, x: Tensor, channels: int, name: str) -> Tensor:
        """All frames become one."""
        shape, y = (channels, x.shape[1], 1, x.shape[3]), self.tensor(name, (1, 1, 1, channels))
        if self.dtype == np.float32:
            parameters = [self.file.constant(f"{name}/w", self.rng.uniform(-0.3, 0.3, shape).astype(np.float32)), None]
        else:
            values = self.rng.integers(-127, 128, shape).astype(np.int8)
            parameters = [self.file.constant(f"{name}/w", values, [0.004] * channels), None]
            bias = self.rng.integers(-900, 900, channels).astype(np.int32)
            parameters[1] = self.file.constant(f"{name}/b", bias, [0.05 * 0.004] * channels)
        if parameters[1] is None:
            parameters[1] = self.file.constant(f"{name}/b", np.zeros(channels, np.float32))
        self.file.operator("CONV_2D", [x, *parameters], y, "Conv2DOptions", Padding=1, StrideW=1, StrideH=1)
        return y

    def add(self, a: Tensor, b: Tensor, name: str) -> Tensor:
        y = self.tensor(name, a.shape)
        self.file.operator("ADD", [a, b], y, "AddOptions")
        return y


def wake_word(rng: Generator, dtype: Any = np.int8) -> StateForm:
    """Two convolutions over the last frames, each with its own state."""
    s = Streaming(rng, dtype)
    x = s.input("frame", (1, 1, 1, FEATURES))
    y = s.conv(s.window(s.variable("stream/first", (1, 2, 1, FEATURES)), x, 2), UNITS, "first")
    z = s.conv(s.window(s.variable("stream/second", (1, 3, 1, UNITS)), y, 3), 4, "second")
    return StateForm(s.file, (z,), is_real=s.dtype == np.float32)


def running_sum(rng: Generator) -> StateForm:
    """What is given out is what is kept, and the first value is not zero."""
    s = Streaming(rng)
    x, handle = s.input("x", (1, UNITS)), s.variable("sum", (1, UNITS), 40)
    y = s.add(s.read(handle, (1, UNITS)), x, "y")
    s.assign(handle, y)
    return StateForm(s.file, (y,))


def read_again(rng: Generator) -> StateForm:
    """Reads a variable before and after it is assigned, assigns twice, and keeps an input as it is."""
    s = Streaming(rng)
    x, handle, last = s.input("x", (1, UNITS)), s.variable("sum", (1, UNITS)), s.variable("last", (1, UNITS), -7)
    first = s.add(s.read(handle, (1, UNITS)), x, "first")
    s.assign(handle, first)
    second = s.add(s.read(handle, (1, UNITS)), s.read(last, (1, UNITS)), "second")
    s.assign(handle, second)
    third = s.add(second, x, "third")
    s.assign(last, first)
    return StateForm(s.file, (third,))


def never_assigned(rng: Generator) -> StateForm:
    """A variable that only the subgraph assigns is a constant."""
    s = Streaming(rng)
    x, handle = s.input("x", (1, UNITS)), s.variable("offset", (1, UNITS), 55)
    return StateForm(s.file, (s.add(s.read(handle, (1, UNITS)), x, "y"),))


# -- SVDF --------------------------------------------------------------------------------------------------------------


def svdf(rng: Generator, rank: int = 1, memory: int = 4, layers: int = 1, state: Any = np.int16) -> StateForm:
    """Layers of UNITS results; with two or more, a dense layer behind them."""
    file = TfliteFile()
    kind: dict[str, Any] = {"scale": None, "dtype": REAL} if state == REAL else {"scale": 0.05, "zero": 4}
    x = file.input("x", (1, FEATURES), **kind)
    for layer in range(layers):
        x = _svdf_layer(file, rng, x, f"svdf{layer}", rank, memory, state)
    if layers > 1:
        weights = file.constant("w", rng.integers(-127, 128, (4, UNITS)).astype(np.int8), [0.004])
        y = file.tensor("y", (1, 4), 0.05)
        file.operator("FULLY_CONNECTED", [x, weights, None], y, "FullyConnectedOptions")
        x = y
    on_host = frozenset({"Gemm", "Conv"}) if state == np.int16 else frozenset[str]()
    return StateForm(file, (x,), on_host, state == REAL, state != np.int8)


def _svdf_layer(file: TfliteFile, rng: Generator, x: Tensor, name: str, rank: int, memory: int, kept: Any) -> Tensor:
    filters, inputs = UNITS * rank, x.shape[1]
    if kept == REAL:
        constants = [
            file.constant(f"{name}/features", rng.uniform(-0.5, 0.5, (filters, inputs)).astype(REAL)),
            file.constant(f"{name}/times", rng.uniform(-0.5, 0.5, (filters, memory)).astype(REAL)),
            file.constant(f"{name}/bias", rng.uniform(-0.5, 0.5, UNITS).astype(REAL)),
        ]
        state = file.tensor(f"{name}/state", (1, filters * memory), None, dtype=REAL, IsVariable=True)
        y = file.tensor(f"{name}/y", (1, UNITS), None, dtype=REAL)
    else:
        most, time_scale, scale = (9000, 5e-5, 2**-12) if kept == np.int16 else (127, 0.004, 0.03)
        features, times = rng.integers(-127, 128, (filters, inputs)), rng.integers(-most, most, (filters, memory))
        constants = [
            file.constant(f"{name}/features", features.astype(np.int8), [0.005]),
            file.constant(f"{name}/times", times.astype(kept), [time_scale]),
            file.constant(f"{name}/bias", rng.integers(-most, most, UNITS).astype(np.int32), [time_scale * scale]),
        ]
        state = file.tensor(f"{name}/state", (1, filters * memory), scale, dtype=kept, IsVariable=True)
        y = file.tensor(f"{name}/y", (1, UNITS), 0.01, -128)
    options = {"Rank": rank, "FusedActivationFunction": 1}
    file.operator("SVDF", [x, *constants, state], y, "SVDFOptions", **options)
    return y


# -- LSTM --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Lstm:
    """What an LSTM has beside its four gates."""

    is_real: bool = False
    time_major: bool = False
    couples_gates: bool = False
    has_peepholes: bool = False
    has_norms: bool = False
    projects_to: int = 0
    cell_clip: float = 10.0
    projection_clip: float = 0.0
    batch: int = 1

    def made(self, rng: Generator) -> StateForm:
        file = TfliteFile()
        shown = self.projects_to or UNITS
        order = (STEPS, self.batch) if self.time_major else (self.batch, STEPS)
        x = self._tensor(file, "x", (*order, FEATURES), 0.02, 4)
        file.inputs.append(x)
        gates = range(1 if self.couples_gates else 0, 4)

        def each(make: Callable[[int], Tensor], when: bool = True, of: Any = gates) -> list[Tensor | None]:
            return [make(gate) if when and gate in of else None for gate in range(4)]

        inputs: list[Tensor | None] = [
            x,
            *each(lambda gate: self._weights(file, rng, f"w{gate}", (UNITS, FEATURES))),
            *each(lambda gate: self._weights(file, rng, f"r{gate}", (UNITS, shown))),
            *[p for gate, p in enumerate(each(lambda gate: self._vector(file, rng, f"p{gate}"), self.has_peepholes))
              if gate != 2],
            *each(lambda gate: self._bias(file, rng, f"b{gate}")),
            self._weights(file, rng, "projection", (shown, UNITS)) if self.projects_to else None,
            None,
            self._tensor(file, "hidden", (self.batch, shown), 2**-7, 0, is_variable=True),
            self._tensor(file, "cell", (self.batch, UNITS), 2**-11, 0, np.int16, is_variable=True),
            *(each(lambda gate: self._vector(file, rng, f"n{gate}", 1.0)) if self.has_norms else []),
        ]  # fmt: skip
        y = self._tensor(file, "y", (*order, shown), 2**-7, 0)
        fields = {}
        if not self.is_real:
            middle = [file.tensor(f"middle{i}", (1,), 2**-10, dtype=np.int16) for i in range(4)]
            middle.append(file.tensor("middle4", (1,), 2**-7))
            fields["Intermediates"] = np.array([tensor.index for tensor in middle], np.int32)
        file.operator(
            "UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, y, "UnidirectionalSequenceLSTMOptions", fields=fields,
            FusedActivationFunction=TANH, CellClip=self.cell_clip, ProjClip=self.projection_clip,
            TimeMajor=self.time_major,
        )  # fmt: skip
        if self.is_real:
            return StateForm(file, (y,), is_real=True)
        flat, dense = file.tensor("flat", (self.batch, STEPS * shown), 2**-7), file.tensor("dense", (self.batch, 4))
        file.operator("RESHAPE", [y], flat, "ReshapeOptions", NewShape=[self.batch, STEPS * shown])
        weights = rng.integers(-127, 128, (4, STEPS * shown)).astype(np.int8)
        file.operator(
            "FULLY_CONNECTED", [flat, file.constant("dense/w", weights, [0.01]), None], dense, "FullyConnectedOptions"
        )
        return StateForm(file, (y, dense), frozenset({"Scan"}))

    def _tensor(
        self, file: TfliteFile, name: str, shape: Any, scale: float, zero: int, dtype: Any = np.int8,
        is_variable: bool = False,
    ) -> Tensor:  # fmt: skip
        extra = {"IsVariable": True} if is_variable else {}
        if self.is_real:
            return file.tensor(name, shape, None, dtype=REAL, **extra)
        return file.tensor(name, shape, scale, zero, dtype, **extra)

    def _weights(self, file: TfliteFile, rng: Generator, name: str, shape: tuple[int, int]) -> Tensor:
        if self.is_real:
            return file.constant(name, rng.uniform(-0.7, 0.7, shape).astype(REAL))
        return file.constant(name, rng.integers(-127, 128, shape).astype(np.int8), [0.006])

    def _vector(self, file: TfliteFile, rng: Generator, name: str, middle: float = 0.0) -> Tensor:
        reals = rng.uniform(-0.4, 0.4, UNITS) + middle
        if self.is_real:
            return file.constant(name, reals.astype(REAL))
        return file.constant(name, np.rint(reals / 2**-13).astype(np.int16), [2**-13])

    def _bias(self, file: TfliteFile, rng: Generator, name: str) -> Tensor:
        reals, scale = rng.uniform(-0.5, 0.5, UNITS), 2**-13 * 2**-10 if self.has_norms else 0.02 * 0.006
        if self.is_real:
            return file.constant(name, reals.astype(REAL))
        return file.constant(name, np.rint(reals / scale).astype(np.int32), [scale])


FORMS: Mapping[str, Maker] = {
    "a wake word": wake_word,
    "a wake word in floats": lambda rng: wake_word(rng, np.float32),
    "a running sum": running_sum,
    "a variable read again": read_again,
    "a variable never assigned": never_assigned,
    "SVDF": svdf,
    "SVDF of rank 2": lambda rng: svdf(rng, 2, 3),
    "SVDF without memory": lambda rng: svdf(rng, 1, 1),
    "SVDF, two and a dense layer": lambda rng: svdf(rng, 1, 4, 2),
    "SVDF in floats": lambda rng: svdf(rng, 2, 3, 1, REAL),
    "SVDF of 8 bits": lambda rng: svdf(rng, 2, 3, 1, np.int8),
    "SVDF of 8 bits, two and a dense layer": lambda rng: svdf(rng, 1, 4, 2, np.int8),
    **{
        f"LSTM{name}{', floats' * is_real}": Lstm(is_real=is_real, **changes).made
        for is_real in (False, True)
        for name, changes in {
            "": {},
            ", time first": {"time_major": True, "batch": 2},
            ", coupled gates": {"couples_gates": True},
            ", peepholes": {"has_peepholes": True},
            ", projected": {"projects_to": 4, "projection_clip": 0.4},
            ", clipped": {"cell_clip": 0.3},
            ", normalised": {"has_norms": True},
        }.items()
    },
}

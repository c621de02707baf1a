"""The Python API: compile a model, save and load programs, run them on any of the three executors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from isa.checker import Finding, check
from isa.elf import load, save
from isa.loader import load_machine
from isa.machine import Machine
from isa.program import Layer, Tensor
from isa.program import Program as Binary
from tilewright.errors import InputError
from tilewright.execute import EXECUTORS, Executor, executor
from tilewright.host import dram_image, read_outputs

if TYPE_CHECKING:
    import onnx


@dataclass(frozen=True)
class Result:
    """What a run gives: arrays by the model's output names, and the profile of the run.

    `profile` is None for the interpreter, which has no clock.
    """

    outputs: Mapping[str, NDArray[Any]]
    profile: Mapping[str, Any] | None


def compile(  # noqa: A001
    model: str | Path | bytes | onnx.ModelProto,
    isa: str | Path | Machine,
    overrides: Sequence[str] = (),
    shapes: Mapping[str, tuple[int, ...]] | None = None,
) -> Program:
    """Compile an int8 ONNX model for a machine: the name of a shipped one, a YAML file, or a `Machine`.

    `overrides` are `key.path=value` settings on a machine given by name or path; `shapes` are the sizes of inputs that
    the model leaves open. Raises CompileError or IsaError.
    """
    from compiler.pipeline import Options, compile_model

    return Program(compile_model(model, machine_of(isa, overrides), Options(shapes=shapes or {})))


def machine_of(isa: str | Path | Machine, overrides: Sequence[str] = ()) -> Machine:
    """The machine of a name or a path, with overrides; a `Machine` as it is."""
    if not isinstance(isa, Machine):
        return load_machine(str(isa), tuple(overrides))
    if overrides:
        raise InputError("overrides change a machine's file; give the machine by name or path")
    return isa


class Program:
    """A compiled program, ready to run any number of times."""

    def __init__(self, binary: Binary) -> None:
        self.binary = binary
        self._executors: dict[str, Executor] = {}

    @classmethod
    def load(cls, path: str | Path, machine: Machine | None = None) -> Program:
        """Read an ELF file; raises IsaError when any byte is wrong, or it is for another machine than `machine`."""
        return cls(load(path, machine))

    def save(self, path: str | Path) -> None:
        """Write the ELF file in one step; raises IsaError when it cannot be written."""
        save(self.binary, path)

    @property
    def machine(self) -> Machine:
        return self.binary.machine

    @property
    def layers(self) -> tuple[Layer, ...]:
        return self.binary.layers

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        return self.binary.inputs

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        return self.binary.outputs

    @cached_property
    def _findings(self) -> tuple[Finding, ...]:
        return check(self.binary)

    def check(self) -> tuple[Finding, ...]:
        """Every fault that the independent checker finds; empty for a program that is safe on every run."""
        return self._findings

    def run(self, inputs: Mapping[str, NDArray[Any]], on: str = "sim", unchecked: bool = False) -> Result:
        """Run once, on `sim`, `rtl` or `interpreter`; all three give the same bits.

        The checker's findings are refused unless `unchecked`. Raises InputError for wrong inputs, MachineFault when
        the machine stops.
        """
        self._require_checked(unchecked)
        image = dram_image(self.binary, inputs)
        outcome = self._executor(on).run(image)
        return Result(read_outputs(self.binary, outcome.state.dram), outcome.profile)

    def profile(self, on: str = "sim", unchecked: bool = False) -> Mapping[str, Any]:
        """Cycles, utilisation and DRAM bytes, by layer and by engine. They do not depend on the inputs."""
        self._require_checked(unchecked)
        profile = self._executor(on).profile()
        if profile is None:
            raise InputError(f"{on!r} has no clock; profile on: {', '.join(n for n in EXECUTORS if n != on)}")
        return profile

    def zero_inputs(self) -> dict[str, NDArray[Any]]:
        """Inputs of the right names, shapes and dtypes that are all zero."""
        return {tensor.name: np.zeros(tensor.shape, tensor.dtype) for tensor in self.inputs}

    def _require_checked(self, unchecked: bool) -> None:
        if unchecked or not self._findings:
            return
        rest = f" (and {len(self._findings) - 1} more)" if len(self._findings) > 1 else ""
        raise InputError(
            f"{self._findings[0]}{rest}\nthe checker refuses this program; run it unchecked to see what it does"
        )

    def _executor(self, on: str) -> Executor:
        if on not in self._executors:
            self._executors[on] = executor(on, self.binary)
        return self._executors[on]

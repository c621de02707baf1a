"""The Python API: compile a model, save and load programs, run them on any of the three executors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from tilewright.errors import InputError
from tilewright.execute import EXECUTORS
from tilewright.isa.binary.partitioned_elf import load_any, save_any
from tilewright.isa.check.checker import check
from tilewright.isa.check.finding import Finding
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.partitioned import HostNode, Partitioned, Value
from tilewright.isa.program.program import Layer, Tensor
from tilewright.isa.program.program import Program as Binary
from tilewright.segments import Segments, zeros

if TYPE_CHECKING:
    import onnx

    from tilewright.codesign.price.price import Price
    from tilewright.quantization.samples import Calibration


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
    host: bool = True,
    host_floats: bool = False,
    calibration: Calibration | None = None,
) -> Program:
    """Compile an int8 ONNX model for a machine: the name of a shipped one, a YAML file, or a `Machine`.

    A float model is quantised first, with `calibration` data (see `quantize`, which has more choices).

    `overrides` are `key.path=value` settings on a machine given by name or path; `shapes` are the sizes of inputs that
    the model leaves open. What the machine cannot do runs on the host, unless `host` is false; `host_floats` lets the
    host run even a model of which the machine can do nothing. Raises CompileError, IsaError, or InputError for nodes
    that the host cannot run either.
    """
    from tilewright.compiler.partition.compile import compile_partitioned
    from tilewright.compiler.pipeline import Options, compile_model

    machine, options = machine_of(isa, overrides), Options(shapes=shapes or {})
    if calibration is not None:
        from tilewright.quantization.quantize import quantize

        model = quantize(model, calibration, shapes=shapes).content
    if not host:
        return Program(compile_model(model, machine, options))
    program = Program(compile_partitioned(model, machine, options, host_floats=host_floats))
    program.require_host()
    return program


def price(
    isa: str | Path | Machine,
    overrides: Sequence[str] = (),
    exact: bool = False,
    process: str | Path | None = None,
) -> Price:
    """What a machine takes in a process: logic by unit, memories as macros, gate equivalents.

    Estimated, or `exact`, which synthesises all of it; `process` is a folder like those in codesign/processes, of which
    the shipped one is taken if there is none. Raises IsaError, or PriceError for a fault in the process.
    """
    from tilewright.codesign.price.price import price_machine
    from tilewright.codesign.price.process import load_process

    return price_machine(machine_of(isa, overrides), load_process(process), exact)


def machine_of(isa: str | Path | Machine, overrides: Sequence[str] = ()) -> Machine:
    """The machine of a name or a path, with overrides; a `Machine` as it is."""
    if not isinstance(isa, Machine):
        return load_machine(str(isa), tuple(overrides))
    if overrides:
        raise InputError("overrides change a machine's file; give the machine by name or path")
    return isa


class Program:
    """A compiled network, ready to run any number of times: one program, or several with the host's work in between."""

    def __init__(self, network: Binary | Partitioned) -> None:
        self.network = network
        self._segments = Segments(network)

    @classmethod
    def load(cls, path: str | Path, machine: Machine | None = None) -> Program:
        """Read an ELF file; raises IsaError when any byte is wrong, or it is for another machine than `machine`."""
        return cls(load_any(path, machine))

    def save(self, path: str | Path) -> None:
        """Write the ELF file in one step; raises IsaError when it cannot be written."""
        save_any(self.network, path)

    @property
    def machine(self) -> Machine:
        return self.network.machine

    @property
    def programs(self) -> tuple[Binary, ...]:
        """What runs on the machine, in order; one program if the machine does all."""
        return self.network.programs if isinstance(self.network, Partitioned) else (self.network,)

    @property
    def binary(self) -> Binary:
        """The one program of a network that the machine does whole; raises InputError for one in parts."""
        if isinstance(self.network, Partitioned):
            raise InputError(f"the network is in parts: {len(self.programs)} programs, and host nodes in between")
        return self.network

    @property
    def host_nodes(self) -> tuple[HostNode, ...]:
        """What runs on the host, and why."""
        return self.network.host_nodes if isinstance(self.network, Partitioned) else ()

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers of all programs; each counts its own program's instructions."""
        return tuple(layer for program in self.programs for layer in program.layers)

    @property
    def inputs(self) -> tuple[Tensor, ...] | tuple[Value, ...]:
        return self.network.inputs

    @property
    def outputs(self) -> tuple[Tensor, ...] | tuple[Value, ...]:
        return self.network.outputs

    @cached_property
    def _findings(self) -> tuple[Finding, ...]:
        return tuple(finding for program in self.programs for finding in check(program))

    def require_host(self) -> None:
        """Raise InputError when the host cannot run its part of the network."""
        self._segments.require_runnable()

    def check(self) -> tuple[Finding, ...]:
        """Every fault that the independent checker finds; empty for a program that is safe on every run."""
        return self._findings

    def run(self, inputs: Mapping[str, NDArray[Any]], on: str = "sim", unchecked: bool = False) -> Result:
        """Run once, on `sim`, `rtl` or `interpreter`; all three give the same bits.

        The checker's findings are refused unless `unchecked`. Raises InputError for wrong inputs, MachineFault when
        the machine stops.
        """
        self._require_checked(unchecked)
        outputs, profile = self._segments.run(inputs, on)
        return Result(outputs, profile)

    def profile(self, on: str = "sim", unchecked: bool = False) -> Mapping[str, Any]:
        """Cycles, utilisation and DRAM bytes, by layer and by engine. They do not depend on the inputs."""
        self._require_checked(unchecked)
        profile = self._segments.profile(on)
        if profile is None:
            raise InputError(f"{on!r} has no clock; profile on: {', '.join(n for n in EXECUTORS if n != on)}")
        return profile

    def zero_inputs(self) -> dict[str, NDArray[Any]]:
        """Inputs of the right names, shapes and dtypes that are all zero."""
        return zeros(self.inputs)

    def _require_checked(self, unchecked: bool) -> None:
        if unchecked or not self._findings:
            return
        rest = f" (and {len(self._findings) - 1} more)" if len(self._findings) > 1 else ""
        raise InputError(
            f"{self._findings[0]}{rest}\nthe checker refuses this program; run it unchecked to see what it does"
        )

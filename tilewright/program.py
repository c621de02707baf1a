"""A compiled network as a value: saved and loaded, checked, and run on any of the three executors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from tilewright.errors import InputError
from tilewright.files.arrays import ArrayForm
from tilewright.host.batches import Batches, batches_of
from tilewright.host.check import host_findings
from tilewright.host.execute import EXECUTORS
from tilewright.host.segments import ProgramRun, Segments, forms_of, zeros
from tilewright.isa.binary.partitioned_elf import any_to_bytes, load_any, save_any
from tilewright.isa.check.checker import check
from tilewright.isa.check.finding import Finding
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.budgets import DEFAULT_BUDGETS, Budgets
from tilewright.isa.program.demands import require_within
from tilewright.isa.program.partitioned import HostNode, NetworkValue, Partitioned
from tilewright.isa.program.program import Layer, Tensor
from tilewright.isa.program.program import Program as Binary
from tilewright.notebook import Profile, form_of, listed
from tilewright.simulator.run_profile import RunProfile, profile_json


class Program:
    """A compiled network, which can run any number of times: one program, or several with host segments in between."""

    def __init__(
        self, network: Binary | Partitioned, budgets: Budgets = DEFAULT_BUDGETS, is_checked: bool = False
    ) -> None:
        """`budgets` are the most that it may ask for when it is checked or run.

        `is_checked`: the checker has found nothing in its programs, as in all that the compiler makes.
        """
        self.network = network
        self._budgets = budgets
        self._is_checked = is_checked
        self._segments = Segments(network)

    def __repr__(self) -> str:
        count = sum(len(program.instructions) for program in self.programs)
        ends = (listed(form_of(value.name, value) for value in values) for values in (self.inputs, self.outputs))
        nodes = len(self.host_nodes)
        host = f", {nodes} node{'s' * (nodes != 1)} on the host" if nodes else ""
        return f"<Program for {self.machine.name}: {count:,} instructions{host}; {' → '.join(ends)}>"

    def _repr_html_(self) -> str:
        """What a notebook shows: the layers with their instructions, and what the host computes."""
        from tilewright.notebook import program_html

        return program_html(repr(self).strip("<>"), self.machine, self.programs, self.host_nodes)

    @classmethod
    def load(cls, path: str | Path, machine: Machine | None = None, budgets: Budgets = DEFAULT_BUDGETS) -> Program:
        """Read an ELF file; raises IsaError when any byte is wrong, or it is for another machine than `machine`.

        Raises OverBudget when a run would need more than `budgets`, and InputError when what it holds for the host is
        not an ONNX model, or needs other files.
        """
        program = cls(load_any(path, machine, budgets), budgets)
        try:
            program._segments.require_readable()
        except InputError as error:
            raise InputError(f"{path}: {error}") from error
        return program

    def save(self, path: str | Path) -> None:
        """Write the ELF file in one step; raises IsaError when it cannot be written."""
        save_any(self.network, path)

    def to_bytes(self) -> bytes:
        """What `save` writes."""
        return any_to_bytes(self.network)

    @property
    def machine(self) -> Machine:
        return self.network.machine

    @property
    def programs(self) -> tuple[Binary, ...]:
        """The programs that run on the machine, in order; only one if the machine runs the whole network."""
        return self.network.programs if isinstance(self.network, Partitioned) else (self.network,)

    @property
    def binary(self) -> Binary:
        """The only program of a network that runs completely on the machine; raises InputError for one in segments."""
        if isinstance(self.network, Partitioned):
            raise InputError(f"the network is in segments: {len(self.programs)} programs, and host nodes in between")
        return self.network

    @property
    def host_nodes(self) -> tuple[HostNode, ...]:
        """The nodes that run on the host, and why."""
        return self.network.host_nodes if isinstance(self.network, Partitioned) else ()

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers of all programs; each counts its own program's instructions."""
        return tuple(layer for program in self.programs for layer in program.layers)

    @property
    def inputs(self) -> tuple[Tensor, ...] | tuple[NetworkValue, ...]:
        return self.network.inputs

    @property
    def outputs(self) -> tuple[Tensor, ...] | tuple[NetworkValue, ...]:
        return self.network.outputs

    @property
    def listed_inputs(self) -> str:
        """`image float32 1×1×16×16, …`: what arrays a run takes."""
        return listed(form_of(value.name, value) for value in self.inputs)

    @property
    def images(self) -> int | None:
        """How many images a run takes, each apart from the others; None unless it is compiled for a batch."""
        return self.network.images

    @cached_property
    def _findings(self) -> tuple[Finding, ...]:
        return tuple(finding for program in self.programs for finding in check(program, self._budgets)) + self._on_host

    @cached_property
    def _on_host(self) -> tuple[Finding, ...]:
        return host_findings(self.network) if isinstance(self.network, Partitioned) else ()

    def require_host(self) -> None:
        """Raise InputError if the host cannot run its segments of the network."""
        self._segments.require_runnable()

    def require_inputs(self, forms: Mapping[str, ArrayForm]) -> None:
        """Raise InputError unless these are the inputs' names, element types and shapes, or of more or fewer images."""
        batches = batches_of(self.inputs, self.outputs, self.images, forms)
        self._segments.require_inputs(forms if batches is None else batches.of_one_run(forms))

    def batches(self, inputs: Mapping[str, NDArray[Any]]) -> Batches | None:
        """How arrays of more or fewer images than a run takes are cut into runs; None for those of one run."""
        return batches_of(self.inputs, self.outputs, self.images, forms_of(inputs))

    def check(self) -> tuple[Finding, ...]:
        """Every fault that the independent checker finds; empty for a program that is safe on every run.

        Raises OverBudget when there is more to check than the budget.
        """
        return self._findings

    def run(self, inputs: Mapping[str, NDArray[Any]], on: str = "sim", unchecked: bool = False) -> Result:
        """Run on `sim`, `rtl` or `interpreter`; all three give the same bits.

        Arrays may be of any number of images, along their first dimension. A run takes as many as `images` says, or one
        where a program's first dimensions are 1: there are as many runs as it takes, the last one filled up with zeros,
        whose results are dropped. The profile is that of one run.

        The checker's findings are refused unless `unchecked`. Raises OverBudget for a program that asks for more than
        its budgets, before anything is allocated, InputError for wrong inputs, MachineFault when the machine stops.
        """
        self.require_allowed(unchecked)
        batches = self.batches(inputs)
        if batches is None:
            outputs, profile = self._segments.run(inputs, on)
            batches = Batches(self.images or 1, self.images or 1)
        else:
            runs = [self._segments.run(part, on) for part in batches.parts(inputs)]
            outputs, profile = batches.joined([made for made, _ in runs]), runs[0][1]
        return Result(outputs, None if profile is None else Profile(profile_json(profile)), batches)

    def profile(self, on: str = "sim", unchecked: bool = False) -> Profile:
        """Cycles, utilisation and DRAM bytes, by layer and by engine. They do not depend on the inputs."""
        return Profile(profile_json(self.run_profile(on, unchecked)))

    def run_profile(self, on: str = "sim", unchecked: bool = False) -> RunProfile:
        """What `profile` gives, as a value with fields and types."""
        return self.profile_of(self.runs(on, unchecked))

    def profile_of(self, runs: Sequence[ProgramRun]) -> RunProfile:
        """The profile of runs that `runs` gave."""
        return self._segments.profile(runs)

    def runs(self, on: str = "sim", unchecked: bool = False) -> Sequence[ProgramRun]:
        """Each program with its run's counters, and when each of its instructions started and retired."""
        self.require_allowed(unchecked)
        runs = self._segments.runs(on)
        if runs is None:
            raise InputError(f"{on!r} has no clock; profile on: {', '.join(n for n in EXECUTORS if n != on)}")
        return runs

    def zero_inputs(self) -> dict[str, NDArray[Any]]:
        """Inputs of the right names, shapes and dtypes that are all zero."""
        return zeros(self.inputs)

    @cached_property
    def _is_within_budgets(self) -> bool:
        """True; raises OverBudget for a program that asks for more."""
        require_within(self.programs, self._budgets)
        return True

    def require_allowed(self, unchecked: bool) -> None:
        """Raise OverBudget for a program beyond its budgets, and InputError for the checker's findings."""
        if self._is_within_budgets and unchecked:
            return
        findings = self._on_host if self._is_checked else self._findings
        if not findings:
            return
        rest = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
        raise InputError(f"{findings[0]}{rest}\nthe checker refuses this program; run it unchecked to see what it does")


@dataclass(frozen=True)
class Result:
    """The result of a run: arrays by the names of the model's outputs, and the profile of the run.

    `profile` is that of one run, and None for the interpreter, which does not count cycles. `batches` says how many
    images there were, and in how many runs.
    """

    outputs: Mapping[str, NDArray[Any]]
    profile: Profile | None
    batches: Batches = Batches(1, 1)

    @property
    def cycles(self) -> int | None:
        """Those of all runs, one after the other."""
        return None if self.profile is None else self.batches.runs * self.profile.typed.cycles

    @property
    def cycles_per_image(self) -> float | None:
        """All cycles, divided by the images that were given."""
        return None if self.cycles is None else self.cycles / self.batches.images

    @property
    def took(self) -> str:
        """`, 20 images in 3 runs of 8 and 4 of zeros to fill the last: 57,741 cycles, 2,887 for each image`."""
        if self.batches == Batches(1, 1):
            return "" if self.cycles is None else f": {self.cycles:,} cycles"
        took = "" if self.cycles is None else f": {self.cycles:,} cycles, {self.cycles_per_image:,.0f} for each image"
        return f", {self.batches}{took}"

    def __repr__(self) -> str:
        cycles = "no clock" if self.cycles is None else f"{self.cycles:,} cycles"
        cycles += f" for {self.batches.images} images" if self.batches.images > 1 else ""
        return f"<Result: {cycles}; {listed(form_of(name, array) for name, array in self.outputs.items())}>"

    def _repr_html_(self) -> str:
        """What a notebook shows: the outputs, and the layers with their cycles."""
        from tilewright.notebook import result_html

        return result_html(self.outputs, None if self.profile is None else self.profile.typed)

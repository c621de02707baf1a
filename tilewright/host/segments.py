"""Runs the segments of a network one after the other, and adds up what they cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tilewright.errors import InputError
from tilewright.files.arrays import ArrayForm
from tilewright.host.execute import Executor, executor, profile_of
from tilewright.host.model import HostModel
from tilewright.host.tensors import dram_image, host_dtype, read_outputs, require_forms
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.partitioned import HostNode, HostSegment, NetworkValue, NpuSegment, Partitioned, Segment
from tilewright.isa.program.program import Program as Binary
from tilewright.isa.program.state import EngineCounters, RunCounters
from tilewright.simulator.profile import utilisation
from tilewright.simulator.run_profile import DramBytes, PortTraffic, Resource, RunProfile

Arrays = Mapping[str, NDArray[Any]]

Key = TypeVar("Key", str, Resource)


@dataclass(frozen=True, slots=True)
class ProgramRun:
    """A program, and the counters and times of one run of it."""

    program: Binary
    counters: RunCounters


class Segments:
    """The segments of a binary with what runs each; a program is one segment."""

    def __init__(self, binary: Binary | Partitioned) -> None:
        self._binary = binary
        self._segments: tuple[Segment, ...] = (
            binary.segments if isinstance(binary, Partitioned) else (NpuSegment(binary),)
        )
        self._executors: dict[tuple[str, int], Executor] = {}
        self._hosts: dict[int, HostModel] = {}

    def require_readable(self) -> None:
        """Raise InputError when a part of the host's is not an ONNX model, or not all of one."""
        for position, segment in enumerate(self._segments):
            if isinstance(segment, HostSegment):
                self._host(position, segment)

    def require_runnable(self) -> None:
        """Raise InputError when the host cannot run a part of its own."""
        for position, segment in enumerate(self._segments):
            if isinstance(segment, HostSegment):
                self._host(position, segment).require_runnable()

    def require_inputs(self, forms: Mapping[str, ArrayForm]) -> None:
        """Raise InputError unless these are the inputs' names, element types and shapes."""
        if isinstance(self._binary, Partitioned):
            _require_forms(self._binary.inputs, forms)
        else:
            require_forms(self._binary.inputs, forms)

    def run(self, inputs: Arrays, on: str) -> tuple[dict[str, NDArray[Any]], RunProfile | None]:
        """The network's outputs, and the profile if the executor has a clock. Raises InputError, MachineFault."""
        if isinstance(self._binary, Partitioned):
            self.require_inputs(forms_of(inputs))
        tensors, profiles = dict(inputs), []
        for position, segment in enumerate(self._segments):
            if isinstance(segment, HostSegment):
                tensors |= self._run_on_host(position, segment, _of(tensors, segment.inputs))
                continue
            given = _of(tensors, segment.inputs) if isinstance(self._binary, Partitioned) else tensors
            outcome = self._executor(on, position, segment).run(dram_image(segment.program, given))
            profiles.append(None if outcome.counters is None else profile_of(segment.program, outcome.counters))
            tensors |= read_outputs(segment.program, outcome.state.dram)
        return _of(tensors, [of.name for of in self._binary.outputs]), self._sum(profiles)

    def _run_on_host(self, position: int, segment: HostSegment, given: Arrays) -> Arrays:
        """What a part of the host's makes; image after image where it is known how many there are."""
        host, images = self._host(position, segment), self._binary.images or 1
        parts = {name: np.split(array, images) if images > 1 else [array] for name, array in given.items()}
        made = [
            _require_tensors(host.run(segment.outputs, {name: part[at] for name, part in parts.items()}))
            for at in range(images)
        ]
        return made[0] if images == 1 else {name: np.concatenate([each[name] for each in made]) for name in made[0]}

    def runs(self, on: str) -> list[ProgramRun] | None:
        """Each program with what its run took, in order; None if the executor has no clock."""
        found = []
        for position, segment in enumerate(self._segments):
            if isinstance(segment, NpuSegment):
                counters = self._executor(on, position, segment).counters()
                if counters is None:
                    return None
                found.append(ProgramRun(segment.program, counters))
        return found

    def profile(self, runs: Sequence[ProgramRun]) -> RunProfile:
        """One profile of these runs of all programs."""
        profile = self._sum([profile_of(run.program, run.counters) for run in runs])
        assert profile is not None
        return profile

    def _executor(self, on: str, position: int, segment: NpuSegment) -> Executor:
        if (on, position) not in self._executors:
            self._executors[on, position] = executor(on, segment.program)
        return self._executors[on, position]

    def _host(self, position: int, segment: HostSegment) -> HostModel:
        if position not in self._hosts:
            self._hosts[position] = HostModel(segment.onnx)
        return self._hosts[position]

    def _sum(self, profiles: Sequence[RunProfile | None]) -> RunProfile | None:
        known = [profile for profile in profiles if profile is not None]
        if len(known) < len(profiles):
            return None
        if isinstance(self._binary, Partitioned):
            profile = summed_profile(known, self._binary.machine, self._binary.host_nodes)
        else:
            profile = known[0]
        return replace(profile, images=self._binary.images)


def _of(tensors: Arrays, names: Sequence[str]) -> dict[str, NDArray[Any]]:
    """The tensors of these names. Raises InputError for one that is not there, which the checker finds too."""
    for name in names:
        if name not in tensors:
            raise InputError(f"the network is damaged: no part of it makes {name!r}; compile it again")
    return {name: tensors[name] for name in names}


def _require_tensors(values: Mapping[str, Any]) -> Arrays:
    """What a part of the host's gives to others. Raises InputError for a sequence, which no part takes."""
    for name, value in values.items():
        if not isinstance(value, np.ndarray | np.generic):
            raise InputError(f"the host's part of the network gives {name!r}, which is not a tensor")
    return values


def forms_of(inputs: Arrays) -> dict[str, ArrayForm]:
    """What the arrays are, without their values."""
    return {name: ArrayForm(array.dtype, array.shape) for name, array in inputs.items()}


def _fits(shape: Sequence[int], takes: Sequence[int | None]) -> bool:
    """Whether an array is of a shape; a size that is None is any."""
    return len(shape) == len(takes) and all(wanted in (None, size) for size, wanted in zip(shape, takes, strict=True))


def _require_forms(values: Sequence[NetworkValue], inputs: Mapping[str, ArrayForm]) -> None:
    wanted = [value.name for value in values]
    takes = f"the model takes: {', '.join(wanted) or 'no inputs'}"
    for name in inputs:
        if name not in wanted:
            raise InputError(f"unknown input {name!r}; {takes}")
    for value in values:
        if value.name not in inputs:
            raise InputError(f"missing input {value.name!r}; {takes}; got: {', '.join(inputs) or 'nothing'}")
        array = inputs[value.name]
        if array.dtype.name != value.dtype and not (value.dtype == "object" and array.dtype.kind in "US"):
            raise InputError(f"input {value.name!r} is {array.dtype.name}; the model takes {value.dtype}: convert it")
        if not _fits(array.shape, value.shape):
            sizes = ["?" if size is None else size for size in value.shape]
            raise InputError(f"input {value.name!r} has shape {list(array.shape)}; the model takes {sizes}: reshape it")


# -- the profile of several programs -----------------------------------------------------------------------------------


def summed_profile(profiles: Sequence[RunProfile], machine: Machine, host_nodes: Sequence[HostNode]) -> RunProfile:
    """One profile for programs that run one after the other; what the host does in between costs no cycles here."""
    cycles, array_macs = sum(one.cycles for one in profiles), sum(one.array_macs for one in profiles)
    return RunProfile(
        isa=machine.name,
        cycles=cycles,
        macs=sum(one.macs for one in profiles),
        array_macs=array_macs,
        utilisation=utilisation(array_macs, cycles, machine),
        bound_cycles=_added([one.bound_cycles for one in profiles]),
        dram_bytes=DramBytes(
            sum(one.dram_bytes.read for one in profiles), sum(one.dram_bytes.written for one in profiles)
        ),
        layers=tuple(layer for one in profiles for layer in one.layers),
        engines={
            name: _summed_engine([one.engines[name] for one in profiles if name in one.engines])
            for name in machine.engines
        },
        host_nodes=tuple(host_nodes),
        axi_ports=tuple(_summed_port(each, cycles) for each in zip(*map(_weighed, profiles), strict=True)),
    )


def _weighed(profile: RunProfile) -> list[tuple[PortTraffic, float]]:
    """Each port's traffic, and the cycles that it needs."""
    return [(port, port.share * profile.cycles) for port in profile.axi_ports]


def _summed_port(traffic: Sequence[tuple[PortTraffic, float]], cycles: int) -> PortTraffic:
    """One port's, over programs that run one after the other."""
    read, written = sum(port.read for port, _ in traffic), sum(port.written for port, _ in traffic)
    return PortTraffic(traffic[0][0].users, read, written, sum(busy for _, busy in traffic) / max(1, cycles))


def _summed_engine(counters: Sequence[EngineCounters]) -> EngineCounters:
    return EngineCounters(
        busy=sum(one.busy for one in counters),
        wait=_added([one.wait for one in counters]),
        stall=_added([one.stall for one in counters]),
        idle=sum(one.idle for one in counters),
    )


def _added(counts: Sequence[Mapping[Key, int]]) -> dict[Key, int]:
    """Sums of equal keys, in the order in which they come."""
    total: dict[Key, int] = {}
    for one in counts:
        for key, count in one.items():
            total[key] = total.get(key, 0) + count
    return total


def zeros(values: Sequence[Any]) -> dict[str, NDArray[Any]]:
    """Inputs of the right names, shapes and dtypes that are all zero."""
    return {value.name: np.zeros(value.shape, host_dtype(value.dtype)) for value in values}

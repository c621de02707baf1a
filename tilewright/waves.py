"""`run --waves`: the signals of the hardware over time, with the names of instructions and layers beside them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from tilewright.errors import InputError
from tilewright.host.execute import profile_of
from tilewright.host.tensors import dram_image, read_outputs
from tilewright.isa.program.faults import MachineFault
from tilewright.isa.program.program import Program as Binary
from tilewright.isa.program.program import place_regions
from tilewright.notebook import Profile
from tilewright.program import Program, Result
from tilewright.rtl.simulation.session import Job
from tilewright.rtl.simulation.waves import WaveWindow, run_with_waves
from tilewright.simulator.cycle_owners import layer_span
from tilewright.simulator.cycles import simulate_cycles
from tilewright.simulator.profile import instructions_of_layers, layers_of
from tilewright.simulator.run_profile import profile_json

MOST_CYCLES = 20_000
"""Waves of more would be larger than viewers load with ease."""


def waves_window(program: Program, from_cycle: int | None, layer: str | None) -> WaveWindow:
    """The cycles that are asked for: those of a layer, from a cycle on, or all.

    Raises InputError for a network in segments, a layer that there is not, cycles after the end, and too many of them.
    """
    binary = program.binary
    counters = simulate_cycles(binary, place_regions(binary.limits))
    first, last = 0, counters.cycles
    if layer is not None:
        layers = layers_of(binary)
        names = [one.name for one in layers]
        if layer not in names:
            raise InputError(f"no layer {layer!r}; there are: {', '.join(names)}")
        indices = instructions_of_layers(binary, layers)[names.index(layer)]
        first, last = layer_span(binary, indices, counters)
    first = max(first, from_cycle or 0)
    if first > last:
        raise InputError(f"--from-cycle {from_cycle:,} is after the end, which is cycle {last:,}")
    if last - first > MOST_CYCLES:
        raise InputError(
            f"waves of {last - first:,} cycles, and viewers take {MOST_CYCLES:,}: choose a layer with --layer, or "
            "begin later with --from-cycle"
        )
    return WaveWindow(first, last)


def run_for_waves(program: Program, inputs: Mapping[str, NDArray[Any]], window: WaveWindow) -> tuple[Result, bytes]:
    """A run on the hardware, and its waves as VCD. Raises MachineFault, RtlError and InputError as a run does."""
    binary = program.binary
    job = Job(binary, dram_image(binary, inputs), place_regions(binary.limits))
    state, counters, content = run_with_waves(job, layer_names(binary), window)
    if counters.fault is not None:
        raise MachineFault(counters.fault)
    return Result(read_outputs(binary, state.dram), Profile(profile_json(profile_of(binary, counters)))), content


def layer_names(program: Binary) -> list[str]:
    """For each instruction, the name of its layer."""
    layers = layers_of(program)
    names = [""] * len(program.instructions)
    for layer, indices in zip(layers, instructions_of_layers(program, layers), strict=True):
        for index in indices:
            names[index] = layer.name
    return names

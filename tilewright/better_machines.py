"""The Python API for better machines: advise on one, find one that meets a requirement, find new instructions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.api import machine_of, require_effort, require_images
from tilewright.errors import InputError
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.machine import Machine

if TYPE_CHECKING:
    from tilewright.codesign.advise.advice import Advice
    from tilewright.codesign.require.requirement import Requirement
    from tilewright.codesign.specialise.answer import InstructionProposal, Specialised
    from tilewright.quantization.quantize import QuantizedModel
    from tilewright.quantization.samples import Calibration


def advise(
    models: Sequence[str | Path],
    isa: str | Path | Machine,
    overrides: Sequence[str] = (),
    overlays: Sequence[str | Path] = (),
    effort: int = 1,
    price: bool = True,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    only: Sequence[str] = (),
    jobs: int | None = None,
    done: Callable[[int, int], None] = lambda finished, asked: None,
    calibration: Calibration | None = None,
    seed: int = 0,
    tell: Callable[[QuantizedModel], None] = lambda quantized: None,
    against: str | Path | Machine | None = None,
    tried: Callable[[str], None] = lambda line: None,
    keep: Path | None = None,
    batch: int | None = None,
) -> Advice:
    """Which single change of a machine buys most for these networks, and what of it buys nothing: all of them tried.

    Each key of the machine a step up and down, shipped and given overlays on and off, instructions that no program has
    away; with `only`, just the keys that are one of these or below it, and the given overlays. The key of an
    instruction takes it away; `against` stands for those of the instructions that this other machine lacks. `jobs`
    processes share the work, as many as there are cores if that is None; `done` is told how many machines are tried of
    how many. Float models are quantised first, with `calibration` data (`seed` is that of random ones), and `tell` is
    told of each. `tried` is told in a line what came of each machine; with `keep`, a folder, what was tried is kept
    there, and not tried again by the same version. With a `batch`, a run takes so many images, or fewer where that
    takes fewer cycles for each, and what is saved is for each image.
    Raises IsaError, PriceError, CompileError for a file that cannot be read, and InputError for a network that does not
    run on the machine as it is, and for an unknown key.
    """
    from tilewright.codesign.advise.advice import advise_machine
    from tilewright.codesign.advise.trials import NoAdvice
    from tilewright.quantization.networks import read_quantized

    require_images(batch)
    require_effort(effort)
    machine = machine_of(isa, overrides)
    networks = [replace(network, batch=batch) for network in read_quantized(models, shapes, calibration, seed, tell)]
    file = None if isinstance(isa, Machine) else isa
    try:
        other = None if against is None else machine_of(against)
        return advise_machine(networks, machine, file, overlays, only, effort, price, jobs, done, other, tried, keep)
    except NoAdvice as error:
        raise InputError(str(error)) from error


def require(
    models: Sequence[str | Path],
    per_second: float | None = None,
    clock_mhz: float | None = None,
    area_mm2: float | None = None,
    logic_mm2: float | None = None,
    isas: Sequence[str | Path] = (),
    effort: int = 1,
    price: bool = True,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    jobs: int | None = None,
    done: Callable[[int, int], None] = lambda finished, asked: None,
    calibration: Calibration | None = None,
    seed: int = 0,
    tell: Callable[[QuantizedModel], None] = lambda quantized: None,
    begun: Callable[[str], None] = lambda line: None,
    keep: Path | None = None,
) -> Requirement:
    """What a machine must be to run these networks so often a second, within an area; and the nearest one.

    A run is one image through each network, one after the other: `per_second` of them at a clock. Of a question without
    a rate, the answer is the fastest machine that was found within the area. Machines are stepped from the best of
    `isas`, or of all shipped ones. `begun` is told in a line what is begun; all others are as of `advise`.
    Raises QuestionError for limits that ask nothing, and what `advise` raises.
    """
    from tilewright.codesign.advise.trials import NoAdvice
    from tilewright.codesign.errors import QuestionError
    from tilewright.codesign.require.question import question
    from tilewright.codesign.require.requirement import require_machine
    from tilewright.isa.files.loader import shipped_machines
    from tilewright.quantization.networks import read_quantized

    asked = question(per_second, clock_mhz, area_mm2, logic_mm2)
    if asked.needs_price and not price:
        raise QuestionError("an area is asked for, so machines must be priced: leave --no-price out, or the area")
    require_effort(effort)
    names = [str(isa) for isa in isas] or shipped_machines()
    bases = [(name, load_machine(name)) for name in dict.fromkeys(names)]
    networks = read_quantized(models, shapes, calibration, seed, tell)
    try:
        return require_machine(networks, asked, bases, effort, price, jobs, done, begun, keep)
    except NoAdvice as error:
        raise InputError(str(error)) from error


def propose_instructions(
    models: Sequence[str | Path],
    isa: str | Path | Machine,
    overrides: Sequence[str] = (),
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    calibration: Calibration | None = None,
    seed: int = 0,
    tell: Callable[[QuantizedModel], None] = lambda quantized: None,
) -> InstructionProposal:
    """Instructions that would do in one what layers of these networks do in several; nothing is compiled for them.

    Float models are quantised first, as by `specialise`. Raises IsaError, CompileError, and InputError for a machine
    without an array.
    """
    from tilewright.codesign.advise.trials import NoAdvice
    from tilewright.codesign.specialise.specialise import propose
    from tilewright.quantization.networks import read_quantized

    machine = machine_of(isa, overrides)
    try:
        return propose(read_quantized(models, shapes, calibration, seed, tell), machine)
    except NoAdvice as error:
        raise InputError(str(error)) from error


def specialise(
    models: Sequence[str | Path],
    isa: str | Path | Machine,
    budget: float = 0.1,
    held_out: Sequence[str | Path] = (),
    overrides: Sequence[str] = (),
    effort: int = 1,
    control: bool = True,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    jobs: int | None = None,
    done: Callable[[int, int], None] = lambda finished, asked: None,
    calibration: Calibration | None = None,
    seed: int = 0,
    tell: Callable[[QuantizedModel], None] = lambda quantized: None,
    tried: Callable[[str], None] = lambda line: None,
    keep: Path | None = None,
    objective: str = "cycles",
    weights: Mapping[str, float] | None = None,
    given: str | Path | None = None,
    removals: bool = True,
    clock: bool = True,
    host_cycles: float | None = None,
    dask: str | None = None,
) -> Specialised:
    """New instructions for a machine, of at most a share `budget` of its logic, that save these networks most.

    The `objective` is `cycles`, `time`, `energy`, `energy-delay` or `area`. With `weights`, by network, sums of these
    count; without, every network counts alike. Each candidate is priced, and the networks are compiled and simulated
    with it; instructions in the file `given` are candidates, too. Networks `held_out` have no say in the choice;
    `control` looks for what else the same area would buy, `removals` for what can go, `clock` for the longest path.
    `host_cycles` are what a node on the host counts as, so that one that the machine does instead is a gain. With
    `dask`, workers of the scheduler at that address make the trials. The rest is as of `advise`. Raises IsaError,
    PriceError, CompileError, StudyError for a cluster that is not there, and InputError for a network that does not run
    on the machine as it is, a budget that is not above 0, a weight of no network, and a machine without an array.
    """
    from tilewright.codesign.advise.trials import NoAdvice
    from tilewright.codesign.specialise.goal import SavedQuantity
    from tilewright.codesign.specialise.objective import Objective
    from tilewright.codesign.specialise.specialise import Question, specialise_machine
    from tilewright.quantization.networks import read_quantized

    require_effort(effort)
    if not budget > 0:
        raise InputError(f"budget {budget}: expected a share of the logic above 0, such as 0.1")
    goals = [str(goal) for goal in SavedQuantity]
    if objective not in goals:
        raise InputError(f"objective {objective}: expected one of {', '.join(goals)}")
    machine = machine_of(isa, overrides)
    networks = read_quantized(models, shapes, calibration, seed, tell)
    outside = read_quantized(held_out, shapes, calibration, seed, tell) if held_out else []
    _require_weights(weights or {}, [network.name for network in networks])
    asked = Question(
        tuple(networks), machine, budget, tuple(outside),
        Objective(SavedQuantity(objective), weights or {}, host_cycles),
        None if given is None else Path(given), effort, control, removals, clock,
    )  # fmt: skip
    try:
        return specialise_machine(asked, jobs, done, tried, keep, dask)
    except NoAdvice as error:
        raise InputError(str(error)) from error


def _require_weights(weights: Mapping[str, float], networks: Sequence[str]) -> None:
    for name, weight in weights.items():
        if name not in networks:
            raise InputError(f"weight of {name}: expected one of the networks {', '.join(networks)}")
        if not 0 < weight < float("inf"):
            raise InputError(f"weight {weight} of {name}: expected a number above 0")

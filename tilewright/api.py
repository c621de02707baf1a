"""The Python API: compile and evaluate a model; price, compare and find machines, and advise on one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.compiler.search.effort import EFFORTS
from tilewright.errors import InputError
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.machine import Machine
from tilewright.program import Program

if TYPE_CHECKING:
    import onnx
    from numpy.typing import NDArray

    from tilewright.codesign.advise.advice import Advice
    from tilewright.codesign.compare.comparison import Comparison
    from tilewright.codesign.price.price import Price
    from tilewright.codesign.require.requirement import Requirement
    from tilewright.codesign.specialise.answer import InstructionProposal, Specialised
    from tilewright.compiler.session import Session
    from tilewright.evaluation.evaluate import Evaluation
    from tilewright.quantization.quantize import QuantizedModel
    from tilewright.quantization.samples import Calibration


def compile(  # noqa: A001
    model: str | Path | bytes | onnx.ModelProto,
    isa: str | Path | Machine,
    overrides: Sequence[str] = (),
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    host: bool = True,
    host_floats: bool = False,
    calibration: Calibration | None = None,
    effort: int = 1,
    tuning: str | Path | None = None,
    fail_on_miss: bool = False,
    batch: int | None = None,
) -> Program:
    """Compile a quantised ONNX model for a machine. `isa` is a shipped machine's name, a YAML file, or a `Machine`.

    A float model is quantised first, with `calibration` data (see `quantize`, which has more choices).

    `overrides` are settings `key.path=value` for a machine that is given by name or path. `shapes` gives the sizes that
    the model leaves open. Operators that the machine cannot run are left to the host, unless `host` is false. With
    `host_floats`, the host also runs a model of which the machine can do nothing. `effort` says how hard to search for
    a faster program: 0 takes the first choice, 1 takes seconds, 2 takes minutes. What a search finds is kept in the
    file `tuning`, or in the user's cache; with `fail_on_miss`, what is not there is refused in place of searched for.
    With a `batch`, a run takes so many images, or fewer where that takes fewer cycles for each.
    Raises CompileError, IsaError, or InputError for nodes that the host cannot run either.
    """
    from tilewright.compiler.options import Options
    from tilewright.compiler.partition.compile import compile_partitioned
    from tilewright.compiler.session import MemoScope

    machine, file = machine_of(isa, overrides), None if tuning is None else Path(tuning)
    _require_images(batch)
    _require_effort(effort)
    options = Options(shapes=shapes or {}, effort=effort, tuning=file, fails_on_miss=fail_on_miss, batch=batch)
    if calibration is not None:
        from tilewright.quantization.quantize import quantize

        model = quantize(model, calibration, shapes=shapes).content
    network = compile_partitioned(
        model, machine, options, host_floats=host_floats, host=host, session=_session().inner(MemoScope.NETWORK)
    )
    program = Program(network, is_checked=True)
    program.require_host()
    return program


@cache
def _session() -> Session:
    """What compilations of this process found of machines, for the next ones; nothing that is of one network."""
    from tilewright.compiler.session import Session

    return Session()


def price(
    isa: str | Path | Machine,
    overrides: Sequence[str] = (),
    exact: bool = False,
    process: str | Path | None = None,
) -> Price:
    """What a machine takes in a process: logic by unit, memories as macros, gate equivalents.

    Estimated, or `exact`, which synthesises all of it; `process` is a folder like those in codesign/processes, of which
    the shipped one is taken if there is none. Where all overrides are of sizes, the estimate is fitted to the price of
    the machine without them. Raises IsaError, or PriceError for a fault in the process.
    """
    from tilewright.codesign.price.price import price_machine
    from tilewright.codesign.price.process import load_process
    from tilewright.codesign.price.sizes import of_other_sizes

    machine = machine_of(isa, overrides)
    like = None if exact or isinstance(isa, Machine) else of_other_sizes(str(isa), overrides)
    return price_machine(machine, load_process(process), exact, like)


def compare(
    models: Sequence[str | Path],
    isas: Sequence[str | Path | Machine],
    overrides: Sequence[str] = (),
    overlays: Sequence[str | Path] = (),
    effort: int = 1,
    price: bool = True,
    clock_mhz: float | None = None,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    calibration: Calibration | None = None,
    batch: int | None = None,
) -> Comparison:
    """Each network on each machine: cycles, time, area, energy; with a reason where a network fails.

    Each machine is taken as it is; again with each of `overlays`, files that are laid over it; and again with all
    `overrides`. Without `price`, cycles and bytes alone. `clock_mhz` is one clock for all, in place of each machine's
    own, which takes half a minute to find. Float models are quantised first, with `calibration` data. With a `batch`,
    a run takes so many images, or fewer where that takes fewer cycles for each.
    Raises IsaError, CompileError for a file that cannot be read, PriceError, InputError for the data.
    """
    from tilewright.codesign.compare.comparison import compare_machines
    from tilewright.codesign.compare.machines import candidates
    from tilewright.quantization.networks import read_quantized

    _require_images(batch)
    _require_effort(effort)
    networks = [replace(network, batch=batch) for network in read_quantized(models, shapes, calibration)]
    return compare_machines(networks, candidates(isas, overrides, overlays), effort, price, clock_mhz)


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

    _require_images(batch)
    _require_effort(effort)
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
    _require_effort(effort)
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

    _require_effort(effort)
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


def evaluate(
    model: str | Path,
    isa: str | Path | Machine,
    data: str | Path | Mapping[str, NDArray[Any]],
    labels: str | Path | NDArray[Any] | None = None,
    metric: str = "top1",
    float_model: str | Path | None = None,
    answer: str | None = None,
    overrides: Sequence[str] = (),
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    batch: int | None = None,
    calibration: Calibration | None = None,
    seed: int = 0,
    effort: int = 1,
    jobs: int | None = None,
    done: Callable[[int, int], None] = lambda finished, asked: None,
    tell: Callable[[QuantizedModel], None] = lambda quantized: None,
) -> Evaluation:
    """How good a model's answers to a data set are on a machine's simulator, beside ONNX Runtime's, and what differs.

    `data` has an array for each input, images first; `labels` the right class or the right numbers of each image.
    `metric` is topK, such as top1, mse or mae. `float_model` answers, too; so does `model` itself if it is float and
    quantised with `calibration`. `answer` is the output that counts, needed where there are several. `jobs` processes
    share the images, as many as there are cores if that is None; `done` is told how many are done of how many.
    Raises IsaError, CompileError, and InputError for data, labels or a metric that do not fit.
    """
    from tilewright.evaluation.evaluate import FLOAT, MODEL, evaluate_program, read_reference
    from tilewright.evaluation.metric import parse_metric
    from tilewright.evaluation.sources import read_data, read_labels
    from tilewright.quantization.networks import read_quantized

    parse_metric(metric)
    known = None if labels is None else read_labels(labels)
    [network] = read_quantized([model], shapes, calibration, seed, tell)
    program = compile(network.content, isa, overrides, shapes, effort=effort, batch=batch)
    plain = model if calibration is not None and float_model is None else float_model
    models = {MODEL: read_reference(network.content, shapes)}
    models |= {} if plain is None else {FLOAT: read_reference(plain, shapes)}
    return evaluate_program(program, models, read_data(data, program), known, metric, answer, jobs, done)


def _require_weights(weights: Mapping[str, float], networks: Sequence[str]) -> None:
    for name, weight in weights.items():
        if name not in networks:
            raise InputError(f"weight of {name}: expected one of the networks {', '.join(networks)}")
        if not 0 < weight < float("inf"):
            raise InputError(f"weight {weight} of {name}: expected a number above 0")


def _require_effort(effort: int) -> None:
    if not 0 <= effort < len(EFFORTS):
        raise InputError(f"an effort of {effort}; expected 0 to {len(EFFORTS) - 1}")


def _require_images(batch: int | None) -> None:
    if batch is not None and batch < 1:
        raise InputError(f"a batch of {batch} images; expected 1 or more")


def machine_of(isa: str | Path | Machine, overrides: Sequence[str] = ()) -> Machine:
    """The machine of a name or a path, with overrides; a `Machine` as it is."""
    if not isinstance(isa, Machine):
        return load_machine(str(isa), tuple(overrides))
    if overrides:
        raise InputError("overrides change a machine's file; give the machine by name or path")
    return isa

"""The Python API: compile and evaluate a model, price and compare machines."""

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

    from tilewright.codesign.compare.comparison import Comparison
    from tilewright.codesign.price.price import Price
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
    require_images(batch)
    require_effort(effort)
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

    require_images(batch)
    require_effort(effort)
    networks = [replace(network, batch=batch) for network in read_quantized(models, shapes, calibration)]
    return compare_machines(networks, candidates(isas, overrides, overlays), effort, price, clock_mhz)


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


def require_effort(effort: int) -> None:
    """Raise InputError for a number that is no effort of a search."""
    if not 0 <= effort < len(EFFORTS):
        raise InputError(f"an effort of {effort}; expected 0 to {len(EFFORTS) - 1}")


def require_images(batch: int | None) -> None:
    """Raise InputError for a batch of no images."""
    if batch is not None and batch < 1:
        raise InputError(f"a batch of {batch} images; expected 1 or more")


def machine_of(isa: str | Path | Machine, overrides: Sequence[str] = ()) -> Machine:
    """The machine of a name or a path, with overrides; a `Machine` as it is."""
    if not isinstance(isa, Machine):
        return load_machine(str(isa), tuple(overrides))
    if overrides:
        raise InputError("overrides change a machine's file; give the machine by name or path")
    return isa

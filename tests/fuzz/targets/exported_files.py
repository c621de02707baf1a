"""Files of the forms that exporters and quantisers write (tests/files), changed or not, for machine and host together.

What is refused names a place and a fact in a line or two, what falls to the host has a reason, and what runs computes
what ONNX Runtime or LiteRT does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from hypothesis import strategies
from hypothesis.strategies import DrawFn
from numpy.typing import NDArray

import tilewright
from tests.compiler.importers.tflite.files import Tensor, TfliteFile
from tests.compiler.importers.tflite.litert import Litert
from tests.compiler.models import run_onnx
from tests.files import ort_quantizer
from tests.files.styles import MICROSOFT, Style, model
from tests.files.tflite_styles import images, keywords, motion, objects
from tests.files.trial import inputs_of
from tests.formats.test_tflite_detections import Detector
from tests.formats.tflite_states import FORMS as STATES
from tests.formats.tflite_states import Lstm, svdf
from tests.fuzz.compiling import prepare_compiler, shipped
from tests.fuzz.harness import Outcome, Target, WrongAnswer, accepted
from tests.fuzz.targets.onnx_graphs import CHANGES as ONNX_CHANGES
from tests.fuzz.targets.onnx_graphs import change_model
from tests.fuzz.targets.tflite_files import CHANGES as TFLITE_CHANGES
from tests.fuzz.targets.tflite_files import change_file
from tilewright.compiler.errors import CompileError
from tilewright.errors import USER_ERRORS

MACHINES = ("base16", "tiny8", "sequence16")
QUANTISED = [trial for trial in ort_quantizer.TRIALS if "calibrated" not in trial.form]
"""Forms of ONNX Runtime's quantiser; finding limits takes it longer than all else here."""

NUMBERS = (-2, -1, 0, 1, 2, 3, 4, 5, 7, 127, 128, 255)
USUAL_SHARE = 0.2
"""Of the values' range: how far results may be from the reference on average. A step of a changed file may be large."""

Change = tuple[str, int, int, int]
Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class StyledFile:
    """A network in a style, as a quantiser writes it."""

    machine: str
    style: tuple[tuple[str, Any], ...]
    changes: tuple[Change, ...] = ()

    def content(self) -> bytes:
        return _changed(model(Style(**dict(self.style))), self.changes)


@dataclass(frozen=True)
class QuantisedFile:
    """What ONNX Runtime's quantiser writes."""

    machine: str
    form: int
    changes: tuple[Change, ...] = ()

    def content(self) -> bytes:
        return _changed(onnx.load_from_string(QUANTISED[self.form % len(QUANTISED)].make()), self.changes)


@dataclass(frozen=True)
class DeviceFile:
    """A TFLite file as it is on devices: `form` is of states, of detectors, or of small networks."""

    machine: str
    form: str
    fields: tuple[tuple[str, Any], ...] = ()
    changes: tuple[Change, ...] = ()

    def content(self) -> bytes:
        file, outputs = self._made()
        for change in self.changes:
            change_file(file, *change)
        file.inputs = [file.tensors[tensor.index] for tensor in file.inputs]
        return file.content(*(file.tensors[tensor.index] for tensor in outputs))

    def _made(self) -> tuple[TfliteFile, list[Tensor]]:
        fields, rng = dict(self.fields), np.random.default_rng(1)
        match self.form:
            case "detector":
                return Detector(**fields).made()
            case "LSTM":
                made = Lstm(**fields).made(rng)
            case "SVDF":
                made = svdf(rng, fields.get("rank", 1), fields.get("memory", 3), fields.get("layers", 1))
            case name if name in SMALL:
                file, output = SMALL[name]()
                return file, [output]
            case name:
                made = STATES[name](rng)
        return made.file, list(made.outputs)


NO_KERNEL = {name for name in STATES if "8 bits" in name}
"""Forms of which LiteRT has no kernel, and says nothing."""

SMALL = {make.__name__: make for make in (images, keywords, motion, objects)}


def _changed(network: onnx.ModelProto, changes: tuple[Change, ...]) -> bytes:
    for change in changes:
        if network.graph.initializer or change[0] not in ("constant", "dimension", "retype"):
            change_model(network, *change)
    return network.SerializeToString(deterministic=True)


# -- inputs ------------------------------------------------------------------------------------------------------------

STYLES: Mapping[str, tuple[Any, ...]] = {
    "opset": (13, 17, 18, 20, 21),
    "domain": ("", "", "", MICROSOFT),
    "activations": ("int8", "uint8", "int8", "uint8", "int16", ""),
    "weights": ("int8", "int8", "float"),
    "bias": ("int32", "float", "int8"),
    "per_channel": (True, False),
    "symmetric": (True, False),
    "powers_of_two": (False, False, True),
    "clips": (None, (-128, 127), (-8, 7), (0, 15)),
    "weight_bits": (8, 8, 4, 2),
    "clips_weights": (False, True),
    "last": (False, True),
    "transposes_weights": (False, True),
    "constants_are_nodes": (False, True),
}
DETECTORS: Mapping[str, tuple[Any, ...]] = {
    "is_regular": (False, True),
    "has_background": (False, True),
    "per_detection": (1, 2, 7),
    "threshold": (0.0, 0.4, 1.5, -1.0),
    "overlap": (0.5, 0.0, 1.0, 2.0),
    "most": (1, 10, 100),
    "per_class": (1, 100),
    "is_open": (False, True),
    "is_uint8": (False, True),
}
LSTMS: Mapping[str, tuple[Any, ...]] = {
    "is_real": (False, False, True),
    "time_major": (False, True),
    "couples_gates": (False, True),
    "has_peepholes": (False, True),
    "has_norms": (False, True),
    "projects_to": (0, 4),
    "cell_clip": (0.0, 0.3, 10.0),
    "projection_clip": (0.0, 0.4),
    "batch": (1, 2),
}
SVDFS: Mapping[str, tuple[Any, ...]] = {"rank": (1, 2), "memory": (1, 2, 5), "layers": (1, 2)}
FIELDS = {"detector": DETECTORS, "LSTM": LSTMS, "SVDF": SVDFS}


@strategies.composite
def files(draw: DrawFn) -> StyledFile | QuantisedFile | DeviceFile:
    machine, kind = draw(strategies.sampled_from(MACHINES)), draw(strategies.integers(0, 4))
    if kind == 0:
        form = draw(strategies.integers(0, len(QUANTISED) - 1))
        return QuantisedFile(machine, form, _changes(draw, ONNX_CHANGES))
    if kind <= 2:
        return StyledFile(machine, _fields(draw, STYLES), _changes(draw, ONNX_CHANGES))
    form_name = draw(strategies.sampled_from([*FIELDS, *FIELDS, *SMALL, *STATES]))
    return DeviceFile(machine, form_name, _fields(draw, FIELDS.get(form_name, {})), _changes(draw, TFLITE_CHANGES))


def _fields(draw: DrawFn, of: Mapping[str, tuple[Any, ...]]) -> tuple[tuple[str, Any], ...]:
    return tuple((name, draw(strategies.sampled_from(values))) for name, values in of.items())


def _changes(draw: DrawFn, kinds: tuple[str, ...]) -> tuple[Change, ...]:
    change = strategies.tuples(
        strategies.sampled_from(kinds),
        strategies.integers(0, 60),
        strategies.integers(0, 8),
        strategies.sampled_from(NUMBERS),
    )
    return tuple(draw(strategies.lists(change, max_size=2)))


# -- what must hold ----------------------------------------------------------------------------------------------------


def attempt(file: StyledFile | QuantisedFile | DeviceFile) -> Outcome:
    try:
        content = file.content()
    except (ValueError, ArithmeticError, TypeError):  # of styles and changes that contradict themselves
        return Outcome.UNJUDGED
    try:
        program = tilewright.compile(content, shipped(file.machine), effort=0)
    except USER_ERRORS as error:
        _require_words(error)
        return Outcome.REFUSED
    for node in program.host_nodes:
        if not node.reason:
            raise WrongAnswer(f"node {node.name!r} is on the host without a reason", "exported: reason")
    inputs = inputs_of(program, content)
    expected = _expected(content, inputs) if getattr(file, "form", "") not in NO_KERNEL else None
    if expected is None and program.host_nodes:
        return _unlike_the_reference(program, inputs)
    with accepted("exported"):
        came = program.run(inputs).outputs
    if expected is None:
        return Outcome.UNJUDGED
    if getattr(file, "form", "") == "detector":  # behind what it finds, LiteRT leaves anything
        expected = {"count": expected["count"]} if "count" in expected else {}
    _compare(came, expected)
    return Outcome.RIGHT


def _unlike_the_reference(program: tilewright.Program, inputs: Arrays) -> Outcome:
    """The host may refuse what the reference refuses: of some operators it is known only when they run."""
    try:
        program.run(inputs)
    except USER_ERRORS as error:
        _require_words(error)
        return Outcome.REFUSED
    return Outcome.UNJUDGED


def _require_words(error: Exception) -> None:
    """An error says where and what, in one or two lines."""
    text = str(error)
    if not text or text.count("\n") > 1:
        raise WrongAnswer(f"an error of {text.count(chr(10)) + 1} lines: {text!r}", "exported: words") from error
    if isinstance(error, CompileError) and not error.fact:
        raise WrongAnswer(f"an error without a fact: {text!r}", "exported: fact") from error


def _expected(content: bytes, inputs: Arrays) -> Arrays | None:
    """What the reference computes; None where it does not take the file."""
    try:
        if content[4:8] == b"TFL3":
            return Litert(content).run(inputs)
        return run_onnx(onnx.load_from_string(content), inputs)
    except Exception:  # noqa: BLE001  (theirs share no class)
        return None


def _compare(came: Arrays, expected: Arrays) -> None:
    for name, values in expected.items():
        if came[name].shape != values.shape or came[name].dtype != values.dtype:
            forms = f"{came[name].dtype} {came[name].shape}; expected {values.dtype} {values.shape}"
            raise WrongAnswer(f"{name} is {forms}", "exported: form")
        wide = float(np.ptp(values.astype(np.float64))) if values.size else 0.0
        apart = np.abs(came[name].astype(np.float64) - values.astype(np.float64))
        if wide and values.size > 1 and apart.mean() > max(USUAL_SHARE * wide, 1.5 if values.dtype.kind in "iu" else 0):
            raise WrongAnswer(f"{name} is up to {apart.max():.3g} of {wide:.3g} from the reference", "exported: values")


TARGET = Target("exported files", files(), attempt, prepare=prepare_compiler)

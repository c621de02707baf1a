"""Quantises a float network: prepare, calibrate, write QDQ form, measure each layer's noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import onnx

from tilewright.compiler.errors import CompileError
from tilewright.compiler.importers.input_shapes import Shapes
from tilewright.errors import InputError
from tilewright.files.whole import write_file
from tilewright.isa.program.stored_types import BYTES, COMPUTED_INTEGERS, DEFAULT_TYPE, STORED_TYPES, WEIGHTS
from tilewright.quantization.attempt import CalibratedNetwork, Settings, calibrated
from tilewright.quantization.blocks import SIZES
from tilewright.quantization.chosen_masks import CHOICE
from tilewright.quantization.costly_ranges import CostlyRange, costly_ranges
from tilewright.quantization.finer import InPieces, as_one, made_finer
from tilewright.quantization.float_model import FloatModel, Model, read_float_model
from tilewright.quantization.keep import AUTO, KeptFloat, costly_nodes, named_nodes
from tilewright.quantization.losses import AccuracyLoss, losses
from tilewright.quantization.mixed import Mixed, NoiseBudget, mix
from tilewright.quantization.mixed_types import Forms, Types
from tilewright.quantization.noise import TOO_MUCH_DB, LayerNoise, hurting, signal_to_noise
from tilewright.quantization.qdq import ACTIVATIONS, dequantized_names
from tilewright.quantization.ranges import DEFAULT_PERCENTILE
from tilewright.quantization.samples import Calibration, Samples, read_samples
from tilewright.quantization.small_floats import ACTIVATIONS as SMALL_ACTIVATIONS
from tilewright.quantization.small_floats import WEIGHTS as SMALL_WEIGHTS
from tilewright.quantization.steps import steps_of
from tilewright.quantization.tensors import Tensors

SAME_FUNCTION_DB = 60.0
"""Folding changes how float32 sums are rounded: the noise of that is far below this ratio."""


@dataclass(frozen=True)
class QuantizedModel:
    """A quantised network in QDQ form, how it was calibrated, and what that does to each layer."""

    content: bytes  # of an ONNX file
    layers: tuple[LayerNoise, ...]  # in the network's order
    method: str
    activations: str
    weights: str
    block: int  # of matrices; 0: none
    samples: int
    seed: int | None  # of random samples
    kept: tuple[KeptFloat, ...]  # what stays float although it could be quantised
    alike: Mapping[str, tuple[str, ...]]  # tensors that are the same part of each step of a recurrence, by part
    pieces: tuple[InPieces, ...]  # curves that are computed in pieces
    costly_ranges: tuple[CostlyRange, ...]  # what costs more than 6 dB
    mixed: Mixed | None = None  # the types of weights and results, where each has its own

    @property
    def model(self) -> onnx.ModelProto:
        return onnx.ModelProto.FromString(self.content)

    @property
    def hurting(self) -> tuple[LayerNoise, ...]:
        """The layers that add most noise, the worst first; of a recurrence, one step for each part."""
        parts = self.parts
        groups: dict[str, list[LayerNoise]] = {}
        for layer in self.layers:
            groups.setdefault(parts.get(layer.tensor, layer.tensor), []).append(layer)
        return hurting([max(group, key=lambda layer: layer.drop_db or 0) for group in groups.values()])

    @property
    def parts(self) -> dict[str, str]:
        """Of each tensor in a step of a recurrence, the part that it is in all of them."""
        return {tensor: part for part, tensors in self.alike.items() for tensor in tensors}

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a user has to know before using the network."""
        if self.seed is not None:
            return (f"calibrated with random data (seed {self.seed}): cycles are right, results are not",)
        parts, worst = self.parts, dict[str, CostlyRange]()
        for each in self.costly_ranges:
            name = parts.get(each.layer.tensor, each.layer.tensor)
            worst[name] = max(worst.get(name, each), each, key=lambda one: one.costs_db)
        return tuple(map(str, worst.values()))

    @property
    def losses(self) -> tuple[AccuracyLoss, ...]:
        """The layers, and the states of recurrences, that lose more than 6 dB, the worst first."""
        return losses(self.layers, self.alike)

    def save(self, path: str | Path) -> None:
        """Write the ONNX file in one step; raises OSError."""
        write_file(path, self.content)


def quantize(
    model: Model,
    calibration: Calibration,
    *,
    method: str = "minmax",
    activations: str = DEFAULT_TYPE.name,
    weights: str = DEFAULT_TYPE.name,
    block: int = 0,
    percentile: float = DEFAULT_PERCENTILE,
    shapes: Shapes | None = None,
    seed: int = 0,
    keep: Sequence[str] = (),
    strict: bool = False,
    mixed: NoiseBudget | None = None,
) -> QuantizedModel:
    """Quantise a float ONNX model to QDQ form: to integers of eight bits, or as `activations` and `weights` say.

    `calibration` is a `.npz` file, arrays by input, or "random" (then `seed` counts, and only cycles have a meaning);
    `method` is minmax, percentile or entropy; `activations` one of `ACTIVATIONS`; `weights` one of `WEIGHTS`, or e4m3
    or e2m1, floats of eight and four bits; `block` how many weights of a channel of MatMul and Gemm share a scale, one
    of `SIZES`, 0 for all of them; `shapes` the sizes of inputs that the model leaves open. `keep` names nodes or
    operators that stay float; "auto" stands for those that hurt most, where the outputs gain from it. With `strict`, a
    layer whose own range costs more than 6 dB is an error. With `mixed`, layers have weights of type `weights` or of
    eight bits, and results of type `activations` or of eight bits, as that saves most within a budget.
    The same arguments give the same bytes. Raises CompileError for the model, InputError for the rest.
    """
    _require_types(weights, activations, block)
    if mixed is not None:
        _require_choice(weights, activations)
    float_model = read_float_model(model, shapes, keep)
    samples = read_samples(calibration, float_model.inputs, seed)
    network = calibrated(float_model, Settings(samples, method, percentile, activations, weights, block))
    _require_same_function(float_model, samples)
    kept = list(named_nodes(float_model.prepared, [each for each in keep if each != AUTO]))
    named = frozenset(node for each in kept for node in each.nodes)
    network, pieces = made_finer(network, named)
    if AUTO in keep:
        _, layers = network.quantized_but(named)
        kept += costly_nodes(layers, float_model.outputs, lambda more: network.quantized_but([*named, *more])[1])
    floats = [node for each in kept for node in each.nodes]
    quantized, layers = network.quantized_but(floats)
    chosen = None
    if mixed is not None:
        quantized, chosen = _mixed(network, quantized, floats, _types(weights, activations), mixed)
        layers = network.noise_of(quantized)
    content, name = quantized.SerializeToString(deterministic=True), float_model.name
    layers = as_one(layers, pieces, float_model.tensors)
    steps = steps_of(quantized, dequantized_names(float_model.prepared, quantized))
    costly = () if samples.seed is not None else costly_ranges(float_model.prepared, layers, steps, samples, name)
    if strict and costly:
        raise _too_costly(name, max(costly, key=lambda each: each.costs_db), method)
    return QuantizedModel(
        content, layers, method, activations, weights, block, len(samples), samples.seed, tuple(kept),
        float_model.alike, pieces, costly, chosen,
    )  # fmt: skip


def _require_types(weights: str, activations: str, block: int) -> None:
    if activations not in ACTIVATIONS:
        raise InputError(f"no type of activations {activations!r}; there are: {', '.join(ACTIVATIONS)}")
    if weights not in (*WEIGHTS, *SMALL_WEIGHTS):
        raise InputError(f"no type of weights {weights!r}; there are: {', '.join((*WEIGHTS, *SMALL_WEIGHTS))}")
    if activations in SMALL_ACTIVATIONS and weights not in SMALL_WEIGHTS:
        raise InputError(f"activations are {activations}, and weights {weights}; expected {' or '.join(SMALL_WEIGHTS)}")
    if block not in (0, *SIZES):
        raise InputError(f"no blocks of {block} weights; there are: {', '.join(map(str, SIZES))}")


def _require_choice(weights: str, activations: str) -> None:
    """Refuse types of which none is narrower or wider than eight bits, and floats, which have one type a network."""
    if weights not in SMALL_WEIGHTS:
        types = _types(weights, activations)
        if len({*types.weights}) > 1 or len({*types.activations}) > 1:
            return
    narrower, wider = ", ".join(WEIGHTS[1:]), ", ".join(name for name in COMPUTED_INTEGERS if name not in BYTES)
    raise InputError(
        f"weights of {weights} and activations of {activations} leave no types to choose from; expected narrower "
        f"weights: {narrower}; or wider activations: {wider}"
    )


def _types(weights: str, activations: str) -> Types:
    """The types that may be chosen from: those given, and those of eight bits."""
    values = STORED_TYPES[activations].values
    byte = next(name for name in BYTES if STORED_TYPES[name].values.is_signed == values.is_signed)
    return Types((DEFAULT_TYPE.name, weights), (activations, byte))


def _too_costly(name: str, worst: CostlyRange, method: str) -> CompileError:
    return CompileError(
        name,
        str(worst),
        expected=f"at most {TOO_MUCH_DB:g} dB",
        remedy=f"Try --method {'percentile' if method == 'minmax' else 'minmax'}, leave it in float with --keep "
        f"{worst.layer.name}, or leave out --strict",
    )


def _mixed(
    network: CalibratedNetwork, made: onnx.ModelProto, floats: Sequence[str], types: Types, budget: NoiseBudget
) -> tuple[onnx.ModelProto, Mixed]:
    """The network with a type for each part, and how these were chosen; `made` is the one of the types asked for."""
    model, settings = network.model, network.settings
    models = {(settings.weights, settings.activations): made}
    for activations in types.activations:
        is_same = activations == settings.activations
        one = network if is_same else calibrated(model, replace(settings, activations=activations))
        for weights in types.weights:
            if (weights, activations) not in models:
                block = settings.block if weights == settings.weights else 0
                other = replace(one, settings=replace(one.settings, weights=weights, block=block))
                models[weights, activations], _ = other.quantized_but(floats)
    forms = Forms(models, types, model.prepared, model.alike.values())
    return mix(model.prepared, forms, types, model.outputs, settings.samples, budget, model.name)


def _require_same_function(model: FloatModel, samples: Samples) -> None:
    """Compare the folded model with the original on the first sample: folding is done by other packages."""
    first = Samples({name: array[:1] for name, array in samples.arrays.items()})
    outputs = {name: name for name in model.outputs}
    exact, folded = (Tensors(form, list(outputs), model.name) for form in (model.plain, model.prepared))
    wrong: Sequence[str] = [
        tensor
        for tensor, ratio in signal_to_noise(exact, folded, outputs, first).items()
        if ratio is not None and ratio < SAME_FUNCTION_DB
    ]
    if wrong:
        chosen = {node.name for node in model.plain.graph.node if node.op_type == CHOICE}
        is_added = any(node.name in chosen and node.op_type != CHOICE for node in model.prepared.graph.node)
        raise CompileError(
            model.name,
            f"preparing it for quantising changes its output {wrong[0]!r}",
            expected="the same results",
            remedy=f"Keep masks as they are, since one leaves nothing of a row: --keep {CHOICE}"
            if is_added
            else "Simplify the model before, for example with onnxscript.optimizer.optimize",
        )

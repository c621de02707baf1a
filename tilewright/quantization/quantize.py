"""Quantises a float network: prepare, calibrate, write QDQ form, measure each layer's noise."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx

from tilewright.compiler.errors import CompileError
from tilewright.compiler.importers.input_shapes import Shapes
from tilewright.errors import InputError
from tilewright.files import write_file
from tilewright.quantization.chosen_masks import CHOICE
from tilewright.quantization.float_model import FloatModel, Model, read_float_model
from tilewright.quantization.islands import inner_tensors, ranges_of_choices, with_masks
from tilewright.quantization.keep import AUTO, Kept, costly_nodes, named_nodes
from tilewright.quantization.noise import LayerNoise, hurting, measure_noise, signal_to_noise
from tilewright.quantization.qdq import ACTIVATIONS, dequantized_names, quantize_model
from tilewright.quantization.ranges import DEFAULT_PERCENTILE, find_ranges
from tilewright.quantization.same_scale import join_ranges, join_steps
from tilewright.quantization.samples import Calibration, Samples, read_samples
from tilewright.quantization.symmetric import even_ranges
from tilewright.quantization.tensors import Tensors

SAME_FUNCTION_DB = 60.0
"""Folding changes how float32 sums are rounded: the noise of that is far below this ratio."""


@dataclass(frozen=True)
class QuantizedModel:
    """An int8 network in QDQ form, how it was calibrated, and what that does to each layer."""

    content: bytes  # of an ONNX file
    layers: tuple[LayerNoise, ...]  # in the network's order
    method: str
    activations: str
    samples: int
    seed: int | None  # of random samples
    kept: tuple[Kept, ...]  # what stays float although it could be quantised
    alike: Mapping[str, tuple[str, ...]]  # tensors that are the same part of each step of a recurrence, by part

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
        if self.seed is None:
            return ()
        return (f"calibrated with random data (seed {self.seed}): cycles are right, results are not",)

    def save(self, path: str | Path) -> None:
        """Write the ONNX file in one step; raises OSError."""
        write_file(path, self.content)


def quantize(
    model: Model,
    calibration: Calibration,
    *,
    method: str = "minmax",
    activations: str = "int8",
    percentile: float = DEFAULT_PERCENTILE,
    shapes: Shapes | None = None,
    seed: int = 0,
    keep: Sequence[str] = (),
) -> QuantizedModel:
    """Quantise a float ONNX model to int8, in QDQ form.

    `calibration` is a `.npz` file, arrays by input, or "random" (then `seed` counts, and only cycles have a meaning);
    `method` is minmax, percentile or entropy; `activations` int8 or uint8; `shapes` the sizes of inputs that the model
    leaves open. `keep` names nodes or operators that stay float; "auto" stands for those that hurt most, where the
    outputs gain from it. The same arguments give the same bytes. Raises CompileError for the model, InputError for the
    rest.
    """
    if activations not in ACTIVATIONS:
        raise InputError(f"no type of activations {activations!r}; there are: {', '.join(ACTIVATIONS)}")
    float_model = read_float_model(model, shapes, keep)
    samples = read_samples(calibration, float_model.inputs, seed)
    name, prepared = float_model.name, float_model.prepared
    found = find_ranges(prepared, samples, method, percentile, name, inner_tensors(prepared))
    ranges = with_masks(prepared, ranges_of_choices(prepared, found), samples, name)
    _require_same_function(float_model, samples)
    joined = join_ranges(prepared, even_ranges(prepared, join_steps(float_model.alike, ranges)))

    def quantized_but(kept: Iterable[str]) -> tuple[onnx.ModelProto, tuple[LayerNoise, ...]]:
        quantized = quantize_model(prepared, joined, activations, name, frozenset(kept))
        return quantized, measure_noise(prepared, quantized, dequantized_names(prepared, quantized), samples, name)

    kept = list(named_nodes(prepared, [each for each in keep if each != AUTO]))
    if AUTO in keep:
        named = [node for each in kept for node in each.nodes]
        _, layers = quantized_but(named)
        kept += costly_nodes(layers, float_model.outputs, lambda more: quantized_but([*named, *more])[1])
    quantized, layers = quantized_but(node for each in kept for node in each.nodes)
    content = quantized.SerializeToString(deterministic=True)
    return QuantizedModel(
        content, layers, method, activations, len(samples), samples.seed, tuple(kept), float_model.alike
    )


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

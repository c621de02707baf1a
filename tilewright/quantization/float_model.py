"""The float network that is to be quantised: read, checked, and in the form that quantises best.

The onnx package reads it, infers its shapes and converts its operator set, as in the compiler.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import onnx
from onnx import TensorProto

from tilewright.compiler.errors import CompileError, first_line
from tilewright.compiler.importers.input_shapes import Shapes, dimensions
from tilewright.compiler.importers.model_checks import require_harmless
from tilewright.compiler.importers.opsets import opset_of
from tilewright.compiler.importers.shapes import infer_shapes
from tilewright.compiler.partition.source import read_source
from tilewright.compiler.simplify.check import QUANTIZERS
from tilewright.quantization.chosen_masks import has_choices, write_chosen_masks
from tilewright.quantization.dynamic import is_dynamic, without_dynamic
from tilewright.quantization.expand import expand_newer
from tilewright.quantization.fold import fold
from tilewright.quantization.fused import write_fused
from tilewright.quantization.gemm import plain_gemm
from tilewright.quantization.half import HALF, in_single_precision
from tilewright.quantization.known_blocks import Known, with_float_matrices
from tilewright.quantization.multi_head import has_attention, runnable, write_attention
from tilewright.quantization.own_weights import own_weights
from tilewright.quantization.recurrent.layout import steps_first
from tilewright.quantization.recurrent.write_out import has_recurrent_nodes, write_out

Model = str | Path | bytes | onnx.ModelProto
"""A file's path, its content, or the model in it."""

OLDEST_OPSET, NEWEST_OPSET = 17, 21
"""Operator sets in which QDQ networks are written: every tool that reads QDQ reads these."""

OLDEST_IR, NEWEST_IR = 8, 10
"""Versions of the file format that go with them."""

WIDER_FLOATS = {
    TensorProto.DOUBLE: "float64",
    TensorProto.FLOAT16: "float16",
    TensorProto.BFLOAT16: "bfloat16",
}
"""Types of reals that are not float32."""


@dataclass(frozen=True)
class Input:
    """What a network reads: `shape` has no open sizes."""

    name: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class FloatModel:
    """A float network with fixed sizes, every node named: as the file says it, and prepared for quantising."""

    name: str  # what messages call it
    plain: onnx.ModelProto
    prepared: onnx.ModelProto  # the same function, with all folded that quantises better folded, and all written out
    alike: Mapping[str, tuple[str, ...]]  # tensors that are the same part of each step of a recurrence, by part
    known: Known = field(default_factory=dict)  # matrices that are quantised in blocks already

    @property
    def inputs(self) -> tuple[Input, ...]:
        return tuple(_input(value) for value in self.plain.graph.input)

    @property
    def tensors(self) -> frozenset[str]:
        """What the prepared network reads and computes."""
        graph = self.prepared.graph
        return frozenset((*(v.name for v in graph.input), *(name for node in graph.node for name in node.output)))

    @property
    def outputs(self) -> tuple[str, ...]:
        """The results that are float32."""
        return float_outputs(self.plain)


def read_float_model(model: Model, shapes: Shapes | None = None, keep: Sequence[str] = ()) -> FloatModel:
    """Read a network and prepare it; raises CompileError for one that is wrong, not float, or not float32 or float16.

    `shapes` are the sizes of inputs that the model leaves open. LSTM, GRU and RNN nodes become steps, and
    MultiHeadAttention its products, and masks that are chosen are added, but for nodes that `keep` names.
    """
    name = "the ONNX model" if isinstance(model, bytes | onnx.ModelProto) else str(model)
    content = model.SerializeToString() if isinstance(model, onnx.ModelProto) else model
    read, known = with_float_matrices(read_source(content, shapes).model)
    source = in_single_precision(read)
    if is_dynamic(source):
        source = without_dynamic(source)
    _require_float(source, name)
    require_harmless(source, name)
    plain = inferred(_with_known_opset(steps_first(_without_initial_inputs(source)), name), name)
    plain = inferred(write_fused(plain, frozenset(keep)), name)
    whole = plain
    if has_attention(plain):
        plain = write_attention(plain, lambda made: inferred(made, name), frozenset(keep) | runnable(plain))
        whole = write_attention(plain, lambda made: inferred(made, name), frozenset(keep))
    folded = fold(whole, name)
    if has_choices(folded):
        folded = write_chosen_masks(folded, frozenset(keep))
    if not has_recurrent_nodes(plain):
        return FloatModel(name, plain, _prepared(folded, name), {}, known)
    written = write_out(inferred(folded, name), frozenset(keep))
    return FloatModel(name, plain, _prepared(fold(inferred(written.model, name), name), name), written.alike, known)


def _prepared(folded: onnx.ModelProto, name: str) -> onnx.ModelProto:
    return inferred(own_weights(plain_gemm(folded)), name)


def float_outputs(model: onnx.ModelProto) -> tuple[str, ...]:
    return tuple(v.name for v in model.graph.output if v.type.tensor_type.elem_type == TensorProto.FLOAT)


def is_quantized(model: onnx.ModelProto) -> bool:
    """True for a network with any node that quantises or works on quantised tensors."""
    return any(f"onnx.{node.op_type}" in QUANTIZERS for node in model.graph.node)


# -- checks ------------------------------------------------------------------------------------------------------------


def _require_float(model: onnx.ModelProto, name: str) -> None:
    if is_quantized(model):
        raise CompileError(name, "is quantised already", expected="a float model", remedy="Compile it as it is")
    types = [(tensor.name, tensor.data_type) for tensor in model.graph.initializer]
    ends = [(value.name, value.type.tensor_type.elem_type) for value in model.graph.input]
    types += [(name, element) for name, element in ends if element != HALF]  # the host converts these
    for tensor, element in types:
        if element in WIDER_FLOATS:
            raise CompileError(
                name,
                f"tensor {tensor!r} is {WIDER_FLOATS[element]}",
                expected="float32",
                remedy="Export the model in float32",
            )


# -- form --------------------------------------------------------------------------------------------------------------


def _without_initial_inputs(model: onnx.ModelProto) -> onnx.ModelProto:
    """Without weights among the inputs. Old versions of the format want them there: such a file gets a newer one."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    made.ir_version = min(max(model.ir_version, OLDEST_IR), NEWEST_IR)
    weights = {tensor.name for tensor in model.graph.initializer}
    del made.graph.input[:]
    made.graph.input.extend(value for value in model.graph.input if value.name not in weights)
    return made


def _with_known_opset(model: onnx.ModelProto, name: str) -> onnx.ModelProto:
    opset = opset_of(model)
    wanted = min(max(opset, OLDEST_OPSET), NEWEST_OPSET)
    if wanted != opset:
        model = expand_newer(model, opset, wanted, name)
        try:
            model = onnx.version_converter.convert_version(model, wanted)
        except (onnx.version_converter.ConvertError, ValueError, RuntimeError) as error:
            raise CompileError(
                name,
                f"cannot be converted from opset {opset} to {wanted}: {first_line(error)}",
                expected=f"a model of opset {OLDEST_OPSET} to {NEWEST_OPSET}",
            ) from error
    return model


def inferred(model: onnx.ModelProto, name: str) -> onnx.ModelProto:
    """The model with the type of every tensor, and a name for every node."""
    taken = {node.name for node in model.graph.node}
    for position, node in enumerate(model.graph.node):
        if not node.name:
            node.name = f"{node.op_type}_{position}"
            while node.name in taken:
                node.name += "'"
            taken.add(node.name)
    try:
        return infer_shapes(model)
    except (onnx.shape_inference.InferenceError, ValueError, RuntimeError) as error:
        raise CompileError(name, f"shapes do not fit: {first_line(error)}") from error


def _input(value: onnx.ValueInfoProto) -> Input:
    dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type).name
    sizes = dimensions(value)
    return Input(value.name, dtype, tuple(size for size in sizes if isinstance(size, int)))

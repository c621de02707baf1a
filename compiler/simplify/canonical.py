"""ONNX operators to canonical ones: every attribute read, every default filled in, every window explicit.

The operators are those of https://onnx.ai/onnx/operators, opset 11 and later.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tilewright.compiler.errors import CompileError
from tilewright.compiler.graph.graph import Operator
from tilewright.compiler.simplify.activation_blocks import product_of_activation_blocks
from tilewright.compiler.simplify.attributes import attributes_of, constant_weights, reshaped, stored_weights
from tilewright.compiler.simplify.blocks import depth_to_space, space_to_depth
from tilewright.compiler.simplify.computed_products import computed_gemm, computed_matmul, constant_times_computed
from tilewright.compiler.simplify.concats import concat
from tilewright.compiler.simplify.elementwise import (
    batch_normalization,
    clip,
    combine_with_constant,
    constant_after_all,
    relu,
)
from tilewright.compiler.simplify.found_scales import quantized_weights
from tilewright.compiler.simplify.integer_products import INTEGER_PRODUCTS, integer_product
from tilewright.compiler.simplify.moves import expand, gather, slice_, split
from tilewright.compiler.simplify.normalization import (
    group_normalization,
    instance_normalization,
    layer_normalization,
    lp_normalization,
    rms_normalization,
)
from tilewright.compiler.simplify.padding import pad
from tilewright.compiler.simplify.pools import global_pool, pool
from tilewright.compiler.simplify.products import conv, gemm, matmul
from tilewright.compiler.simplify.qoperators import FORMS, take_apart
from tilewright.compiler.simplify.quantizers import dequantize_linear, quantize_linear
from tilewright.compiler.simplify.reductions import reduction
from tilewright.compiler.simplify.resize import resize
from tilewright.compiler.simplify.rewrite import GraphView, Replacement
from tilewright.compiler.simplify.softmax import softmax
from tilewright.compiler.simplify.transposed_conv import conv_transpose
from tilewright.compiler.simplify.transposes import transpose


def identity(operator: Operator, view: GraphView) -> Replacement | None:
    with attributes_of(operator):
        pass
    return Replacement(aliases={operator.outputs[0]: operator.inputs[0]})


def dropout(operator: Operator, view: GraphView) -> Replacement | None:
    """At inference Dropout is the identity."""
    with attributes_of(operator) as attributes:
        attributes.ignore("ratio", "seed")
    mode = view.constant(operator.inputs[2]) if len(operator.inputs) > 2 and operator.inputs[2] else np.array(False)
    if mode is None or bool(mode) or any(name in view.outputs or view.users(name) for name in operator.outputs[1:]):
        raise CompileError(operator, expected="inference: training_mode false, and no mask")
    return Replacement(aliases={operator.outputs[0]: operator.inputs[0]})


def reshape(operator: Operator, view: GraphView) -> Replacement | None:
    """Flatten, Reshape, Squeeze, Unsqueeze: the elements stay in order; shape inference has found the shape."""
    with attributes_of(operator) as attributes:
        attributes.ignore("axis", "axes", "allowzero")
    weights, shape = constant_weights(operator.inputs[0], view), view.type(operator.outputs[0]).shape
    stored = None if weights is None else reshaped(weights, shape)
    if stored is not None:
        real, change = stored_weights(stored, f"{operator.name}.shaped", view)
        return replace(change, aliases={operator.outputs[0]: real})
    return Replacement((Operator(operator.name, "reshape", operator.inputs[:1], operator.outputs, {}, operator.nodes),))


CANONICALIZE = {
    # quantisation
    "onnx.QuantizeLinear": (quantize_linear,),
    "onnx.DequantizeLinear": (dequantize_linear,),
    **dict.fromkeys(FORMS, (take_apart,)),
    # products
    "onnx.Conv": (quantized_weights, conv),
    "onnx.Gemm": (quantized_weights, product_of_activation_blocks, gemm, computed_gemm),
    "onnx.MatMul": (
        quantized_weights,
        product_of_activation_blocks,
        matmul,
        constant_times_computed,
        computed_matmul,
    ),
    **dict.fromkeys(INTEGER_PRODUCTS, (integer_product,)),
    # pools and padding
    "onnx.MaxPool": (pool,),
    "onnx.AveragePool": (pool,),
    "onnx.GlobalMaxPool": (global_pool,),
    "onnx.GlobalAveragePool": (global_pool,),
    "onnx.ReduceMean": (reduction,),
    "onnx.ReduceSum": (reduction,),
    "onnx.ReduceMax": (reduction,),
    "onnx.Softmax": (softmax,),
    "onnx.LayerNormalization": (layer_normalization,),
    "onnx.RMSNormalization": (rms_normalization,),
    "onnx.LpNormalization": (lp_normalization,),
    "onnx.InstanceNormalization": (instance_normalization,),
    "onnx.GroupNormalization": (group_normalization,),
    "onnx.Pad": (pad,),
    "onnx.ConvTranspose": (quantized_weights, conv_transpose),
    # only moved
    "onnx.Resize": (resize,),
    "onnx.SpaceToDepth": (space_to_depth,),
    "onnx.DepthToSpace": (depth_to_space,),
    "onnx.Concat": (concat,),
    "onnx.Slice": (slice_,),
    "onnx.Split": (split,),
    "onnx.Gather": (gather,),
    "onnx.Expand": (expand,),
    "onnx.Tile": (expand,),
    # element by element
    "onnx.Relu": (relu,),
    "onnx.Clip": (clip,),
    "onnx.Add": (combine_with_constant,),
    "onnx.Sub": (combine_with_constant,),
    "onnx.Mul": (combine_with_constant,),
    "onnx.Div": (combine_with_constant,),
    "onnx.BatchNormalization": (batch_normalization,),
    **dict.fromkeys(("add", "sub", "mul"), (constant_after_all,)),
    # no computation
    "onnx.Identity": (identity,),
    "onnx.Dropout": (dropout,),
    "onnx.Flatten": (reshape,),
    "onnx.Reshape": (reshape,),
    "onnx.Squeeze": (reshape,),
    "onnx.Unsqueeze": (reshape,),
    "onnx.Transpose": (transpose,),
}
"""ONNX operator → its rule. A rule returns None where the operands are not (yet) what it can take."""

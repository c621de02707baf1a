"""The lowering of each kind of operator, in one table."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tilewright.compiler.graph.graph import Operator
from tilewright.compiler.lower.block_products import lower_convolution
from tilewright.compiler.lower.elements import (
    lower_add,
    lower_extreme,
    lower_lookup,
    lower_max_pool,
    lower_mul,
    lower_rescale,
)
from tilewright.compiler.lower.interpolate import lower_interpolate
from tilewright.compiler.lower.matmul import lower_product
from tilewright.compiler.lower.moves import (
    lower_concat,
    lower_depth_to_space,
    lower_pad,
    lower_refold,
    lower_space_to_depth,
    lower_take,
)
from tilewright.compiler.lower.network import LoweringNetwork
from tilewright.compiler.lower.normalize import lower_normalize
from tilewright.compiler.lower.permute import lower_permute
from tilewright.compiler.lower.products import lower_average_pool
from tilewright.compiler.lower.softmax import lower_channel_max, lower_softmax
from tilewright.compiler.lower.transposed import lower_conv_transpose
from tilewright.compiler.nest.nest import Nest

LOWERINGS: Mapping[str, Callable[[Operator, LoweringNetwork], list[Nest]]] = {
    "conv": lower_convolution,
    "average_pool": lower_average_pool,
    "max_pool": lower_max_pool,
    "add": lower_add,
    "sub": lower_add,
    "mul": lower_mul,
    "maximum": lower_extreme,
    "minimum": lower_extreme,
    "lookup": lower_lookup,
    "rescale": lower_rescale,
    "concat": lower_concat,
    "take": lower_take,
    "refold": lower_refold,
    "space_to_depth": lower_space_to_depth,
    "depth_to_space": lower_depth_to_space,
    "conv_transpose": lower_conv_transpose,
    "interpolate": lower_interpolate,
    "pad": lower_pad,
    "product": lower_product,
    "softmax": lower_softmax,
    "normalize": lower_normalize,
    "channel_max": lower_channel_max,
    "permute": lower_permute,
}
"""Canonical operator → the function that makes its nests."""

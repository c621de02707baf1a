"""Preconditions of operators that move elements."""

from __future__ import annotations

from tilewright.compiler.importers.preconditions.node import ModelNode, product


def transpose(node: ModelNode) -> None:
    """`perm` has every dimension of the operand once."""
    shape, axes = node.shape(0), node.integers("perm")
    if shape is None or axes is None:
        return
    is_permutation = sorted(axes) == list(range(len(shape)))
    node.require(is_permutation, f"perm = {list(axes)}", f"each of 0 to {len(shape) - 1} once")


def split(node: ModelNode) -> None:
    """Sizes that are not negative; or, without sizes, as many parts as there are results, none beyond the end."""
    shape, sizes = node.shape(0), node.constant(1)
    if sizes is not None:
        node.require(int(sizes.min(initial=0)) >= 0, f"sizes {sizes.tolist()}", "no negative size")
    elif shape is not None and not node.has(1) and "split" not in node.attributes:
        results, size = len(node.outputs), shape[int(node.attributes["axis"])]
        wanted = int(node.attributes.get("num_outputs", results))
        node.require(wanted == results, f"num_outputs = {wanted} for {results} results", "as many of both")
        fits = -(-size // results) * (results - 1) <= size
        node.require(fits, f"{size} elements in {results} equal parts", "at most as many parts as fit")


def slice_(node: ModelNode) -> None:
    """Starts, ends, axes and steps are lists, all of one length."""
    starts = node.shape(1)
    for position, name in ((1, "starts"), (2, "ends"), (3, "axes"), (4, "steps")):
        shape = node.shape(position)
        if shape is not None and starts is not None:
            fact = f"{name} of shape {list(shape)} beside starts of {list(starts)}"
            node.require(len(shape) == 1 and shape == starts, fact, "lists of one length")


def squeeze(node: ModelNode) -> None:
    """A list of axes names some: ONNX's shape inference takes an empty one for none, ONNX Runtime for all."""
    node.require(node.shape(1) != (0,), "an empty list of axes", "axes, or no second operand")


def pad(node: ModelNode) -> None:
    """What is cut off is there; and what is reflected."""
    node.require_one_of("mode", "constant", "reflect", "edge", "wrap")
    shape, pads, axes = node.shape(0), node.constant(1), node.constant(3)
    count = product(node.shape(2) or ())
    node.require(count == 1, f"{count} values to pad with", "one")
    if shape is None or pads is None or (node.has(3) and axes is None):
        return
    moved = tuple(map(int, axes.ravel())) if axes is not None else tuple(range(len(shape)))
    begin, end = pads.ravel()[: len(moved)], pads.ravel()[len(moved) :]
    for axis, before, after in zip(moved, begin.tolist(), end.tolist(), strict=True):
        left = shape[axis] + min(before, 0) + min(after, 0)
        node.require(left >= 0, f"paddings {before} and {after} of {shape[axis]} elements", "to leave some")
        if node.attributes["mode"] == "reflect" and max(before, after) > 0:
            node.require(max(before, after) < left, f"reflects {max(before, after)} of {left} elements", "fewer")


def reshape(node: ModelNode) -> None:
    """As many elements as before, in a shape that is a list of sizes."""
    node.require_one_of("allowzero", 0, 1)
    sizes = node.shape(1)
    node.require(sizes is None or len(sizes) == 1, f"its shape is a tensor {list(sizes or ())}", "a list of sizes")
    before, after = node.shape(0), node.shapes.get(node.outputs[0])
    if before is not None and after is not None:
        node.require(product(before) == product(after), f"{list(before)} as {list(after)}", "as many elements")


def gather(node: ModelNode) -> None:
    """Indices of the axis, from the front or the back."""
    shape, indices = node.shape(0), node.constant(1)
    if shape is not None and indices is not None and indices.size:
        low, high, size = int(indices.min()), int(indices.max()), shape[int(node.attributes["axis"])]
        node.require(-size <= low and high < size, f"indices {low} to {high}", f"{-size} to {size - 1}")


def space_to_depth(node: ModelNode) -> None:
    """[N, C, H, W] of whole blocks."""
    shape, block = node.shape(0), _block(node)
    if shape is not None:
        is_whole = len(shape) == 4 and shape[2] % block == 0 and shape[3] % block == 0
        node.require(is_whole, f"blocks of {block} in {list(shape)}", "[N, C, H, W] of whole blocks")


def depth_to_space(node: ModelNode) -> None:
    """[N, C, H, W] whose channels are whole blocks."""
    node.require_one_of("mode", "DCR", "CRD")
    shape, block = node.shape(0), _block(node)
    if shape is not None:
        pixels = block * block
        is_whole = len(shape) == 4 and shape[1] % pixels == 0
        node.require(is_whole, f"blocks of {block} from {list(shape)}", f"[N, C, H, W], C a multiple of {pixels}")


def _block(node: ModelNode) -> int:
    block = int(node.attributes["blocksize"])
    node.require(block > 0, f"blocksize = {block}", "a positive number")
    return block

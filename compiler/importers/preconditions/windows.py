"""Preconditions of operators whose kernel moves over an image: Conv and its kind, and pools."""

from __future__ import annotations

from tilewright.compiler.importers.preconditions.node import ModelNode, Shape

AUTO_PADS = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")


def conv(node: ModelNode) -> None:
    """X [N, C, …] and W [M, C / group, kernel…]: group divides C and M; B has M elements."""
    _products(node, image=0, weights=1, bias=2)


def conv_integer(node: ModelNode) -> None:
    """The same without a bias; a zero point for X, and one for W or one for each of its M results."""
    _products(node, image=0, weights=1, bias=None)
    weights = node.shape(1)
    results = () if weights is None else ((weights[0],),)
    for position, name, allowed in ((2, "x", ()), (3, "w", results)):
        shape = node.shape(position)
        fits = shape in (None, (), (1,), *allowed)
        node.require(fits, f"zero points {_text(shape)} for {name}", " or ".join(["one", *map(_text, allowed)]))


def qlinear_conv(node: ModelNode) -> None:
    _products(node, image=0, weights=3, bias=8)


def conv_transpose(node: ModelNode) -> None:
    """X [N, C, …] and W [C, M / group, kernel…]: group divides C; B has M elements."""
    image, weights = node.shape(0), node.shape(1)
    if image is None or weights is None:
        return
    _ranks(node, image, weights)
    group = _group(node)
    node.require(weights[0] == image[1], f"{image[1]} channels, the weights are {list(weights)}", f"[{image[1]}, …]")
    node.require(image[1] % group == 0, f"{image[1]} channels in group = {group}", "a group that divides them")
    _bias(node, 2, weights[1] * group)
    kernel = _kernel(node, weights[2:])
    strides, dilations = _moves(node, len(kernel))
    extra = node.integers("output_padding")
    if extra is not None:
        node.require(len(extra) == len(kernel), f"output_padding = {list(extra)}", f"{len(kernel)} numbers")
        for more, stride, dilation in zip(extra, strides, dilations, strict=True):
            limit = max(stride, dilation)
            node.require(0 <= more < limit, f"output_padding = {list(extra)}", "0 to less than the stride or dilation")
    sizes = node.integers("output_shape")
    if sizes is not None:
        node.require(len(sizes) in (len(kernel), len(image)), f"output_shape = {list(sizes)}", f"{len(kernel)} sizes")
    _result(node)


def max_pool(node: ModelNode) -> None:
    node.require_one_of("storage_order", 0, 1)
    _pool(node)


def average_pool(node: ModelNode) -> None:
    node.require_one_of("count_include_pad", 0, 1)
    _pool(node)


def lp_pool(node: ModelNode) -> None:
    node.require(node.attributes.get("p", 2) > 0, f"p = {node.attributes.get('p')}", "a positive number")
    _pool(node)


def global_pool(node: ModelNode) -> None:
    image = node.shape(0)
    node.require(image is None or len(image) > 2, f"an operand of shape {_text(image)}", "[N, C, …]")


# -- what they share ---------------------------------------------------------------------------------------------------


def _products(node: ModelNode, image: int, weights: int, bias: int | None) -> None:
    x, w = node.shape(image), node.shape(weights)
    if x is None or w is None:
        return
    _ranks(node, x, w)
    group = _group(node)
    node.require(
        w[1] * group == x[1],
        f"{x[1]} channels, the weights are {list(w)} and group = {group}",
        "as many channels as weights × group",
    )
    node.require(w[0] % group == 0, f"{w[0]} results in group = {group}", "a group that divides them")
    if bias is not None:
        _bias(node, bias, w[0])
    _moves(node, len(_kernel(node, w[2:])))
    _result(node)


def _pool(node: ModelNode) -> None:
    image, kernel = node.shape(0), node.integers("kernel_shape")
    assert kernel is not None  # ONNX's schema requires it
    node.require_one_of("ceil_mode", 0, 1)
    node.require(bool(kernel) and min(kernel) > 0, f"kernel_shape = {list(kernel)}", "positive numbers")
    node.require(
        image is None or len(image) == len(kernel) + 2,
        f"kernel_shape = {list(kernel)} over an operand of shape {_text(image)}",
        "a number for each spatial dimension",
    )
    strides, dilations = _moves(node, len(kernel))
    auto_pad = node.attributes["auto_pad"]
    node.require(  # ONNX counts the gaps of a dilated window, ONNX Runtime does not
        not (auto_pad.startswith("SAME") and max(dilations) > 1),
        f"auto_pad = {auto_pad!r} of a window with dilations = {list(dilations)}",
        "pads, which all readers of ONNX understand alike",
    )
    pads = node.integers("pads")
    if pads is not None:
        node.require(
            all(pad < size for pad, size in zip(pads, (*kernel, *kernel), strict=True)),
            f"pads = {list(pads)} around a kernel of {list(kernel)}",
            "less than the kernel, so that every window meets the image",
        )
    _result(node)
    if image is not None and auto_pad in ("NOTSET", "VALID"):
        around = (0,) * 2 * len(kernel) if pads is None or auto_pad == "VALID" else pads
        for axis, (size, taps) in enumerate(zip(image[2:], kernel, strict=True)):
            room = size + around[axis] + around[axis + len(kernel)]
            beyond = strides[axis] - 1 if node.attributes.get("ceil_mode") else 0
            node.require(
                (taps - 1) * dilations[axis] < room + beyond,
                f"kernel_shape = {list(kernel)} over an operand of shape {list(image)}",
                "a window that fits the padded operand",
            )


def _ranks(node: ModelNode, image: Shape, weights: Shape) -> None:
    node.require(
        len(image) == len(weights) > 2,
        f"operands of shape {list(image)} and {list(weights)}",
        "[N, C, …] and weights of as many dimensions",
    )


def _group(node: ModelNode) -> int:
    group = int(node.attributes["group"])
    node.require(group > 0, f"group = {group}", "a positive number")
    return group


def _bias(node: ModelNode, position: int, results: int) -> None:
    shape = node.shape(position)
    node.require(shape in (None, (results,)), f"a bias of shape {_text(shape)}", f"[{results}]")


def _kernel(node: ModelNode, sizes: Shape) -> Shape:
    kernel = node.integers("kernel_shape")
    node.require(
        kernel in (None, sizes), f"kernel_shape = {_text(kernel)}, the weights have {list(sizes)}", "the same numbers"
    )
    node.require(min(sizes) > 0, f"a kernel of {list(sizes)}", "positive numbers")
    return sizes


def _moves(node: ModelNode, rank: int) -> tuple[Shape, Shape]:
    """Strides and dilations, which are positive; and paddings, which are said in one way."""
    found = []
    for name in ("strides", "dilations"):
        values = node.integers(name)
        node.require(
            values is None or (len(values) == rank and min(values) > 0),
            f"{name} = {_text(values)}",
            f"{rank} positive numbers",
        )
        found.append(values or (1,) * rank)
    node.require_one_of("auto_pad", *AUTO_PADS)
    pads, auto_pad = node.integers("pads"), node.attributes["auto_pad"]
    if pads is not None:
        node.require(len(pads) == 2 * rank and min(pads) >= 0, f"pads = {list(pads)}", f"{2 * rank} numbers from 0 on")
        is_said_twice = auto_pad.startswith("SAME") or (auto_pad == "VALID" and any(pads))
        node.require(not is_said_twice, f"auto_pad = {auto_pad!r} and pads = {list(pads)}", "only one of them")
    return found[0], found[1]


def _result(node: ModelNode) -> None:
    shape = node.shapes.get(node.outputs[0])
    node.require(
        shape is None or min(shape) > 0, f"a result of shape {_text(shape)}", "a window that fits the padded operand"
    )


def _text(shape: Shape | None) -> str:
    return "no known size" if shape is None else str(list(shape))

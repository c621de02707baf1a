"""Operators that put several elements together. Sums go from the first element to the last, in float32."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.bundle.c_text import real
from tilewright.bundle.nodes.code import (
    CElement,
    CNode,
    Code,
    Elements,
    ElementWalk,
    NoCode,
    NodeOperand,
    broadcast,
    literal,
    require_floats,
    row_major,
)

KINDS: Mapping[str, tuple[str, str]] = {
    "ReduceSum": ("total = total + {x};", "total"),
    "ReduceMean": ("total = total + {x};", "total / {count}"),
    "GlobalAveragePool": ("total = total + {x};", "total / {count}"),
    "ReduceMax": ("total = {x} > total ? {x} : total;", "total"),
    "GlobalMaxPool": ("total = {x} > total ? {x} : total;", "total"),
    "ReduceMin": ("total = {x} < total ? {x} : total;", "total"),
}
"""What each element does to `total`, and the result then. A sum begins with 0, others with the first element."""


@dataclass(frozen=True, slots=True)
class ReducedRows:
    """An array as rows: the box of `outer` sizes has one for each element, with the box of `inner` sizes in it."""

    outer: tuple[int, ...]
    inner: tuple[int, ...]
    outer_strides: tuple[int, ...]
    inner_strides: tuple[int, ...]

    @property
    def count(self) -> int:
        return int(np.prod(self.inner, dtype=np.int64))

    def inside(self, first: CElement) -> ElementWalk:
        """The elements of the row that begins with one."""
        return ElementWalk(first.operand, self.inner_strides, base=first.index)


def rows(shape: Sequence[int], axes: Sequence[int]) -> ReducedRows:
    """Rows along some axes."""
    wanted, strides = {axis % len(shape) for axis in axes}, row_major(shape)
    outer = [axis for axis in range(len(shape)) if axis not in wanted]
    inner = sorted(wanted)
    outer_sizes, inner_sizes = (tuple(shape[axis] for axis in each) for each in (outer, inner))
    return ReducedRows(outer_sizes, inner_sizes, tuple(strides[at] for at in outer), tuple(strides[at] for at in inner))


def reduce(node: CNode, code: Code) -> list[str]:
    """The operators of KINDS."""
    x, y = node.required(0), node.outputs[0]
    require_floats(x, y)
    step, result = KINDS[node.op_type]
    row = rows(x.shape, _axes(node, x))
    total, first = code.variable("float", "total"), "0.0F" if "total + " in step else "{x}"

    def each(at: Elements) -> list[str]:
        return [step.format(x=at["x"])]

    def one(at: Elements) -> list[str]:
        inner = code.loops(row.inner, {"x": row.inside(at["x"])}, each)
        ends = result.format(count=real(float(row.count)))
        return [f"{total} = {first.format(x=at['x'])};", *inner, f"{at['y']} = {ends};"]

    return code.loops(
        row.outer, {"x": ElementWalk(x, row.outer_strides), "y": ElementWalk(y, row_major(row.outer))}, one
    )


def arg_max(node: CNode, code: Code) -> list[str]:
    x, y = node.required(0), node.outputs[0]
    if y.dtype != "int64" or node.attributes.get("select_last_index", 0):
        raise NoCode("it takes the last of several largest elements")
    row = rows(x.shape, [node.attributes.get("axis", 0)])
    (size,), (stride,) = row.inner, row.inner_strides
    counter, best = code.variable("size_t", "place"), code.variable("size_t", "best")

    def one(at: Elements) -> list[str]:
        first = at["x"]
        here, there = (CElement(x, f"{first.index} + {name} * {stride}U") for name in (counter, best))
        return [
            f"{best} = 0;",
            f"for ({counter} = 1; {counter} < {size}U; {counter}++) {{",
            f"    {best} = {here} > {there} ? {counter} : {best};",
            "}",
            f"{at['y']} = (int64_t){best};",
        ]

    return code.loops(
        row.outer, {"x": ElementWalk(x, row.outer_strides), "y": ElementWalk(y, row_major(row.outer))}, one
    )


def softmax(node: CNode, code: Code) -> list[str]:
    """exp(x - max) / Σ exp(x - max), in three passes."""
    x, y = node.required(0), node.outputs[0]
    require_floats(x, y)
    axis = node.attributes.get("axis", -1 if node.opset >= FIRST_OF_ONE_AXIS else 1)
    if node.opset < FIRST_OF_ONE_AXIS and axis % len(x.shape) != len(x.shape) - 1:
        raise NoCode(f"before opset {FIRST_OF_ONE_AXIS} it is over several axes, unless it is over the last one")
    row = rows(x.shape, [axis])
    peak, total = code.variable("float", "peak"), code.variable("float", "total")

    def one(at: Elements) -> list[str]:
        xs, ys = row.inside(at["x"]), row.inside(at["y"])
        return [
            f"{peak} = {at['x']};",
            *code.loops(row.inner, {"x": xs}, lambda e: [f"{peak} = {e['x']} > {peak} ? {e['x']} : {peak};"]),
            f"{total} = 0.0F;",
            *code.loops(
                row.inner,
                {"x": xs, "y": ys},
                lambda e: [f"{e['y']} = tilewright_exp({e['x']} - {peak});", f"{total} = {total} + {e['y']};"],
            ),
            *code.loops(row.inner, {"y": ys}, lambda e: [f"{e['y']} = {e['y']} / {total};"]),
        ]

    walks = {"x": ElementWalk(x, row.outer_strides), "y": ElementWalk(y, row.outer_strides)}
    return code.loops(row.outer, walks, one)


FIRST_OF_ONE_AXIS = 13
"""The first opset in which Softmax is over one axis."""


def layer_normalization(node: CNode, code: Code) -> list[str]:
    """(x - mean) / sqrt(variance + epsilon) · scale + bias, over the axes from `axis` on."""
    x, scale, bias, y = node.required(0), node.required(1), node.input(2), node.outputs[0]
    if len(node.outputs) > 1 or node.attributes.get("stash_type", 1) != 1:
        raise NoCode("it also gives the mean or the deviation, or computes in another type")
    axis = node.attributes.get("axis", -1) % len(x.shape)
    row = rows(x.shape, range(axis, len(x.shape)))
    parameters = {"scale": scale} | ({} if bias is None else {"bias": bias})
    require_floats(x, y, *parameters.values())
    for operand in parameters.values():
        if operand.elements != row.count:
            raise NoCode(f"its scale or bias has shape {list(operand.shape)}; expected {list(row.inner)}")
    total, mean, inverse = (code.variable("float", name) for name in ("total", "mean", "inverse"))
    epsilon = literal(np.float32(node.attributes.get("epsilon", 1e-5)), "float32")

    def last(e: Elements) -> list[str]:
        plus = f" + {e['bias']}" if bias is not None else ""
        return [f"{e['y']} = ({e['x']} - {mean}) * {inverse} * {e['scale']}{plus};"]

    def one(at: Elements) -> list[str]:
        xs, ys = row.inside(at["x"]), row.inside(at["y"])
        own = {name: ElementWalk(operand, row_major(row.inner)) for name, operand in parameters.items()}
        count = real(float(row.count))
        return [
            f"{total} = 0.0F;",
            *code.loops(row.inner, {"x": xs}, lambda e: [f"{total} = {total} + {e['x']};"]),
            f"{mean} = {total} / {count};",
            f"{total} = 0.0F;",
            *code.loops(
                row.inner,
                {"x": xs},
                lambda e: [f"{total} = {total} + ({e['x']} - {mean}) * ({e['x']} - {mean});"],
            ),
            f"{inverse} = 1.0F / tilewright_sqrt({total} / {count} + {epsilon});",
            *code.loops(row.inner, {"x": xs, "y": ys, **own}, last),
        ]

    walks = {"x": ElementWalk(x, row.outer_strides), "y": ElementWalk(y, row.outer_strides)}
    return code.loops(row.outer, walks, one)


def gemm(node: CNode, code: Code) -> list[str]:
    """alpha · A · B + beta · C of matrices, each turned if asked."""
    a, b, bias, y = node.required(0), node.required(1), node.input(2), node.outputs[0]
    alpha, beta = (float(node.attributes.get(name, 1.0)) for name in ("alpha", "beta"))
    if alpha != 1 or beta != 1:
        raise NoCode(f"it multiplies by alpha {alpha} and beta {beta}; the C is for 1 and 1")
    sizes = (*y.shape, a.shape[0 if node.attributes.get("transA", 0) else 1])
    steps = {
        "a": _turned(a, node.attributes.get("transA", 0), (0, 2)),
        "b": _turned(b, node.attributes.get("transB", 0), (2, 1)),
    }
    return _products(code, sizes, steps, bias, y)


def matmul(node: CNode, code: Code) -> list[str]:
    """A · B of matrices, or of stacks of them that are repeated as ONNX says."""
    a, b, y = node.required(0), node.required(1), node.outputs[0]
    if min(len(a.shape), len(b.shape)) < 2:
        raise NoCode("an operand is a vector; the C is for matrices")
    *stack, rows_, columns = y.shape
    depth = a.shape[-1]
    left = broadcast(a, (*stack, rows_, depth)).strides
    right = broadcast(b, (*stack, depth, columns)).strides
    steps = {
        "a": ElementWalk(a, (*left[:-1], 0, left[-1])),
        "b": ElementWalk(b, (*right[:-2], 0, right[-1], right[-2])),
    }
    return _products(code, (*y.shape, depth), steps, None, y)


def _turned(operand: NodeOperand, is_turned: int, axes: tuple[int, int]) -> ElementWalk:
    """A matrix whose rows and columns are these of the loops of row, column, depth."""
    strides = [0, 0, 0]
    for axis, stride in zip(axes, row_major(operand.shape)[:: -1 if is_turned else 1], strict=True):
        strides[axis] = stride
    return ElementWalk(operand, tuple(strides))


def _products(
    code: Code, sizes: Sequence[int], factors: Mapping[str, ElementWalk], bias: NodeOperand | None, y: NodeOperand
) -> list[str]:
    """y = Σ a · b + bias; the last of the sizes is that of the sum."""
    require_floats(y, *(walk.operand for walk in factors.values()), *([] if bias is None else [bias]))
    total = code.variable("float", "total")
    outer = {name: ElementWalk(walk.operand, walk.strides[:-1]) for name, walk in factors.items()}
    outer |= {"y": ElementWalk(y, row_major(y.shape))} | ({} if bias is None else {"c": broadcast(bias, y.shape)})

    def one(at: Elements) -> list[str]:
        inner = {n: ElementWalk(walk.operand, walk.strides[-1:], base=at[n].index) for n, walk in factors.items()}
        step = code.loops(sizes[-1:], inner, lambda e: [f"{total} = {total} + {e['a']} * {e['b']};"])
        plus = "" if bias is None else f" + {at['c']}"
        return [f"{total} = 0.0F;", *step, f"{at['y']} = {total}{plus};"]

    return code.loops(sizes[:-1], outer, one)


def _axes(node: CNode, x: NodeOperand) -> list[int]:
    """What a reduction is over: an attribute before opset 18, an operand since; nothing there means all axes."""
    if node.op_type.startswith("Global"):
        return list(range(2, len(x.shape)))
    given = node.constant(1, "axes")
    axes = node.attributes.get("axes") if given is None else [int(axis) for axis in given.reshape(-1)]
    if not axes and node.attributes.get("noop_with_empty_axes", 0):
        raise NoCode("it is over no axes")
    return list(axes or range(len(x.shape)))

"""Reshapes and transpositions in the middle of a network: each chain that moves elements becomes one `permute`.

A reshape is free where its result is stored as its operand is, [N, C, H, W], and at the ends of the graph, where the
host has the elements in the same order. A transposition is free at an end. All others are moves. Example: the heads of
an attention, [1, T, H · D] reshaped to [1, T, H, D] and transposed to [1, H, T, D].
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod

from tilewright.compiler.errors import RAISING, Blame
from tilewright.compiler.graph.element_order import ElementOrder, effort, order_of, same_order
from tilewright.compiler.graph.graph import Graph, Operator, TensorType, fresh_name, stored_shape
from tilewright.compiler.simplify.check import require_integer
from tilewright.compiler.simplify.kinds import NAMING, QUANTIZING
from tilewright.compiler.simplify.rewrite import drop_dead_code
from tilewright.compiler.simplify.transposes import is_at_an_end


def permute_moves(graph: Graph, blame: Blame = RAISING) -> Graph:
    """The graph with `permute` where elements move; the reshapes and transpositions that stay only name tensors.

    It is the last pass of simplification: raises CompileError for an operator that is none on integers. Afterwards,
    quantize reads only graph inputs, dequantize makes only graph outputs, and everything between is integer: products,
    sums, pools and moves of elements.
    """
    permutes = _Permutes(graph)
    for operator in graph.operators:
        permutes.visit(operator, blame)
    moved = drop_dead_code(permutes.graph())
    require_integer(moved, blame)
    return moved


@dataclass(frozen=True, slots=True)
class _Moved:
    """Where a tensor's elements are: they are those of `source`, in another order."""

    root: str  # the tensor whose buffer it is
    source: str  # a tensor that the same buffer is, with its elements in the same order
    order: ElementOrder
    by: tuple[Operator, ...] = ()  # what moved them


class _Permutes:
    """The operators so far, and where each quantised tensor's elements are."""

    def __init__(self, graph: Graph) -> None:
        self._before = graph
        self._operators: list[Operator] = []
        self._tensors: dict[str, TensorType] = dict(graph.tensors)
        self._outputs: dict[str, str] = dict(graph.outputs)
        self._moved = {name: _Moved(name, name, same_order(graph.tensors[name].shape)) for name in graph.inputs}
        self._stored: dict[str, tuple[int, int, int, int]] = {}  # by root: how operators compute or read it
        self._computing = {node for o in graph.operators if o.kind not in NAMING for node in o.nodes}
        self._by_host: set[str] = set()  # results of transpositions that the host makes
        self._made: dict[tuple[str, ElementOrder, tuple[int, ...]], str] = {}

    def graph(self) -> Graph:
        """The graph, after all operators."""
        outputs = {name: self._settled(tensor) for name, tensor in self._outputs.items()}
        return replace(self._before, operators=tuple(self._operators), tensors=self._tensors, outputs=outputs)

    def visit(self, operator: Operator, blame: Blame) -> None:
        """Take the next operator: name its result, or give it operands that are stored as it reads them."""
        with blame.on(operator.nodes):
            operator = self._with_operands(operator)
            if operator.kind not in NAMING:
                self._moved |= {name: _Moved(name, name, same_order(self._shape(name))) for name in operator.outputs}
            elif operator.inputs[0] in self._moved:
                self._moved[operator.outputs[0]] = self._name(operator, self._moved[operator.inputs[0]])
        self._operators.append(operator)

    def _with_operands(self, operator: Operator) -> Operator:
        match operator.kind:
            case "transpose" if self._is_ordered_by_host(operator):
                x = operator.inputs[0]
                return replace(operator, inputs=(self._shaped(x, self._moved[x]),))
            case "reshape" | "transpose":
                return operator
            case "quantize" | "dequantize":
                return replace(operator, inputs=tuple(map(self._settled, operator.inputs)))
        inputs = tuple(self._read(name, operator) if name in self._moved else name for name in operator.inputs)
        for name in operator.outputs:
            self._stored[name] = stored_shape(self._shape(name), f"tensor {name!r}")
        return replace(operator, inputs=inputs)

    def _name(self, operator: Operator, moved: _Moved) -> _Moved:
        """Where the elements of the result of an operator are that the machine does not execute."""
        x, y = operator.inputs[0], operator.outputs[0]
        if operator.kind in QUANTIZING:
            return replace(moved, source=y) if moved.order.is_same else _Moved(y, y, same_order(self._shape(y)))
        if operator.kind == "reshape":
            return replace(moved, by=(*moved.by, operator))
        if operator.outputs[0] in self._by_host:
            return replace(moved, source=y, by=())
        axes = operator.attributes["axes"]
        order = moved.order.transposed(self._shape(x), axes)
        if order is not None:
            return replace(moved, order=order, by=(*moved.by, operator))
        order = order_of(self._shape(x), axes)
        between = self._moved[self._settled(x, order)]
        return replace(between, order=order, by=(operator,))

    def _read(self, name: str, reader: Operator) -> str:
        """The tensor that an operator reads: the same, if it is stored so, or moved to be."""
        moved, shape = self._moved[name], self._shape(name)
        wanted = stored_shape(shape, f"tensor {name!r}")
        if moved.order.is_same and self._stored.setdefault(moved.root, wanted) == wanted:
            return self._shaped(name, moved)
        return self._permuted(name, moved if moved.by else replace(moved, by=(reader,)), shape)

    def _is_ordered_by_host(self, transpose: Operator) -> bool:
        """Whether a transposition is at an end of the graph, and nothing has moved elements there before."""
        moved = self._moved.get(transpose.inputs[0])
        is_host = moved is not None and moved.order.is_same and is_at_an_end(transpose, self._before)
        self._by_host |= set(transpose.outputs) if is_host else set()
        return is_host

    def _settled(self, name: str, following: ElementOrder | None = None) -> str:
        """A tensor that stores its elements in their own order, for the host or for a further transposition.

        Its shape is the best for this move, and for the order that follows, if any.
        """
        moved = self._moved.get(name)
        if moved is None or moved.order.is_same:
            return name if moved is None else self._shaped(name, moved)
        source = self._stored.get(moved.root) or stored_shape(at_most_four(self._shape(moved.source)))
        shapes = [at_most_four(self._shape(name)), *_views(moved.order.result_sizes)]
        if following is not None:
            shapes = [shape for shape in shapes if following.cut_as_source(stored_shape(shape)) is not None] or shapes
        shape = min(shapes, key=lambda shape: effort(moved.order, source, stored_shape(shape)))
        stored = self._permuted(name, moved, shape)
        if self._shape(stored) == self._shape(name):
            return stored
        result = fresh_name(f"{name}.shaped", self._tensors)
        self._add("reshape", stored, result, self._shape(name), {}, moved)
        self._moved[result] = self._moved[stored]
        return result

    def _shaped(self, name: str, moved: _Moved) -> str:
        """A tensor without transpositions that only name it: of those that undo each other, a reshape is left."""
        if all(operator.kind == "reshape" for operator in moved.by):
            return name
        if self._shape(moved.source) == self._shape(name):
            return moved.source
        result = fresh_name(f"{name}.shaped", self._tensors)
        self._add("reshape", moved.source, result, self._shape(name), {}, moved)
        self._moved[result] = replace(moved, by=())
        return result

    def _permuted(self, name: str, moved: _Moved, shape: tuple[int, ...]) -> str:
        """A permute's result that holds a tensor's elements in their order, in a shape of at most four dimensions."""
        key = (moved.root, moved.order, shape)
        if key in self._made:
            return self._made[key]
        source = self._source(moved, stored_shape(shape))
        result = self._made[key] = fresh_name(f"{name}.permuted", self._tensors)
        attributes = {"shape": moved.order.sizes, "axes": moved.order.axes}
        self._add("permute", source, result, shape, attributes, moved)
        self._moved[result] = _Moved(result, result, same_order(shape))
        self._stored[result] = stored_shape(shape)
        return result

    def _source(self, moved: _Moved, wanted: tuple[int, int, int, int]) -> str:
        """The stored tensor, in the shape in which it is computed or read; for an input, in the best shape."""
        shape = self._shape(moved.source)
        if moved.root not in self._stored:
            shapes = [at_most_four(shape), *_views(moved.order.sizes)]
            best = min(shapes, key=lambda shape: effort(moved.order, stored_shape(shape), wanted))
            self._stored[moved.root] = stored_shape(best)
        stored = self._stored[moved.root]
        if len(shape) <= 4 and stored_shape(shape) == stored:
            return moved.source
        result = fresh_name(f"{moved.source}.stored", self._tensors)
        self._add("reshape", moved.source, result, stored, {}, moved)
        return result

    def _add(
        self, kind: str, source: str, result: str, shape: tuple[int, ...], attributes: Mapping[str, object],
        moved: _Moved,
    ) -> None:  # fmt: skip
        """Add an operator, named after the last of those whose place it takes.

        Its nodes are those that only move elements, if there are any: the host may then do these, and no others.
        """
        self._tensors[result] = replace(self._tensors[moved.source], shape=shape)
        all_nodes = tuple(dict.fromkeys(node for operator in moved.by for node in operator.nodes))
        nodes = tuple(node for node in all_nodes if node not in self._computing) or all_nodes
        name = next((operator.name for operator in reversed(moved.by)), result)
        while any(operator.name == name and operator.kind == kind for operator in self._operators):
            name += "'"
        self._operators.append(Operator(name, kind, (source,), (result,), attributes, nodes))

    def _shape(self, name: str) -> tuple[int, ...]:
        return self._tensors[name].shape


def _views(sizes: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Shapes [N, C, 1, W] of a tensor, elements in the same order, with each of its factors as channels."""
    for position, size in enumerate(sizes):
        yield prod(sizes[:position]), size, 1, prod(sizes[position + 1 :])


def at_most_four(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape of at most four dimensions: the first ones joined."""
    return shape if len(shape) <= 4 else (prod(shape[:-3]), *shape[-3:])

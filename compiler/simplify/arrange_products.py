"""Products of two computed operands, each in the form that moves the fewest elements.

A product can be written in four ways: with its second operand [N, L, 1, K] or [N, K, 1, L] (`is_transposed`), and as
the transposed product, whose operands have changed places: y = a · b is yᵀ = bᵀ · aᵀ. The reshapes and transpositions
around it show which form fits the layouts in which its operands are computed and its result is read. Example: the
scores of an attention, q · kᵀ with a pixel for each query and key, are `is_transposed`, and nothing is moved.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tilewright.compiler.graph.element_order import ElementOrder, effort, keeps_channels, same_order
from tilewright.compiler.graph.graph import Graph, Operator, TensorType, fresh_name, stored_shape
from tilewright.compiler.simplify.kinds import QUANTIZING, REORDERING
from tilewright.compiler.simplify.reordered_concats import REORDERED_CONCAT_RULES, is_from_host
from tilewright.compiler.simplify.rewrite import GraphView, Rules, rewrite
from tilewright.compiler.simplify.transposes import (
    EXCHANGED,
    exchange,
    exchanged_shape,
    is_at_an_end,
    reshape_after_rescale,
)

READ_TRANSPOSED = 0.25
"""The cost of reading an operand transposed. It is less than any move, so it only decides between equals."""


def arrange_products(graph: Graph) -> Graph:
    """The graph with each product in its best form, and the transpositions that keep its meaning."""
    arranged = _Arranged(graph)
    for operator in graph.operators:
        if operator.kind == "product":
            arranged.add_product(operator)
        elif operator.kind == "softmax":
            arranged.add_softmax(operator)
        else:
            arranged.add(operator)
    graph = replace(graph, operators=tuple(arranged.operators), tensors=arranged.tensors)
    return rewrite(graph, AFTERWARDS)


AFTERWARDS: Rules = {**dict.fromkeys(("rescale", "lookup"), (reshape_after_rescale,)), **REORDERED_CONCAT_RULES}
"""What reshapes and transpositions of a product's operands and result may pass."""


@dataclass(frozen=True, slots=True)
class _Form:
    """A way to write a product."""

    is_swapped: bool  # as the transposed product, with its operands in each other's place
    is_transposed: bool


FORMS = tuple(_Form(is_swapped, is_transposed) for is_swapped in (False, True) for is_transposed in (False, True))


class _Arranged:
    """The operators so far."""

    def __init__(self, graph: Graph) -> None:
        self.operators: list[Operator] = []
        self.tensors: dict[str, TensorType] = dict(graph.tensors)
        self._graph = graph
        self._view = GraphView(graph)
        self._producers: dict[str, Operator] = {}

    def add(self, operator: Operator) -> None:
        self.operators.append(operator)
        self._producers |= dict.fromkeys(operator.outputs, operator)

    def add_product(self, product: Operator) -> None:
        """Add a product in the form of the least effort; of equals, the one that changes the least."""
        form = min(FORMS, key=lambda form: self._effort(product, form))
        result = product.outputs[0]
        (vector, is_vector_turned), (matrix, is_matrix_turned) = _operands(product, form)
        inputs = tuple(
            self._exchanged(name, product) if is_turned else name
            for name, is_turned in ((vector, is_vector_turned), (matrix, is_matrix_turned))
        )
        attributes = {**product.attributes, "is_transposed": form.is_transposed}
        made = replace(product, inputs=inputs, attributes=attributes)
        if not form.is_swapped:
            self.add(made)
            return
        swapped = fresh_name(f"{result}.swapped", self.tensors)
        self._type_exchanged(result, swapped)
        self.add(replace(made, outputs=(swapped,)))
        self.add(exchange(f"{product.name}.back", swapped, result, product))

    def add_softmax(self, softmax: Operator) -> None:
        """Add a softmax in the layout in which its operand is computed, if that has the same channels.

        The moves before it then are behind it, where they may undo those of a product that reads it.
        """
        name, result = softmax.inputs[0], softmax.outputs[0]
        moves = self._moves_before(name)
        root, order = self._order_of(name)
        own = self.tensors[root].shape
        if not moves or order is None or len(own) > 4 or self._is_fed(root) or not self._is_alike_for_all(softmax):
            self.add(softmax)
            return
        stored, wanted = stored_shape(own), stored_shape(self.tensors[name].shape)
        if effort(order, stored, wanted) == 0 or not keeps_channels(order, stored, wanted):
            self.add(softmax)
            return
        made = self._typed(root, f"{name}.unmoved", root, stored)
        self.add(Operator(f"{softmax.name}.shape", "reshape", (root,), (made,), {}, softmax.nodes))
        taken = self._typed(result, f"{result}.unmoved", root, stored)
        self.add(replace(softmax, inputs=(made, *softmax.inputs[1:]), outputs=(taken,)))
        last = self._typed(result, f"{result}.unmoved", root, own)
        self.add(Operator(f"{softmax.name}.shape", "reshape", (taken,), (last,), {}, softmax.nodes))
        for move in moves:
            is_last = move.outputs[0] == name
            moved = result if is_last else self._typed(result, f"{result}.unmoved", move.outputs[0])
            self.add(replace(move, inputs=(last,), outputs=(moved,)))
            last = moved

    def _typed(self, like: str, name: str, shaped: str, shape: tuple[int, ...] | None = None) -> str:
        """A new tensor that is like one but for its shape, which is given or that of another."""
        fresh = fresh_name(name, self.tensors)
        self.tensors[fresh] = replace(self.tensors[like], shape=shape or self.tensors[shaped].shape)
        return fresh

    def _is_alike_for_all(self, softmax: Operator) -> bool:
        """Whether a softmax leaves out the same channels of all pixels."""
        kept = [stored_shape(self.tensors[name].shape) for name in softmax.inputs[1:]]
        return len(softmax.attributes["mask"]) == 0 and all((n, h, w) == (1, 1, 1) for n, _, h, w in kept)

    def _exchanged(self, name: str, product: Operator) -> str:
        turned = fresh_name(f"{name}.turned", self.tensors)
        self._type_exchanged(name, turned)
        self.add(exchange(f"{product.name}.turn", name, turned, product))
        return turned

    def _type_exchanged(self, name: str, turned: str) -> None:
        tensor_type = self.tensors[name]
        self.tensors[turned] = replace(tensor_type, shape=exchanged_shape(tensor_type.shape))

    # -- efforts -------------------------------------------------------------------------------------------------------

    def _effort(self, product: Operator, form: _Form) -> float:
        operands = sum(self._effort_of_operand(name, is_turned) for name, is_turned in _operands(product, form))
        shape = self.tensors[product.outputs[0]].shape
        order = same_order(shape)
        if form.is_swapped:
            shape = exchanged_shape(shape)
            turned = order.transposed(shape, EXCHANGED)
            assert turned is not None
            order = turned
        results = sum(self._efforts_of_readers(product.outputs[0], order, shape))
        return operands + results + READ_TRANSPOSED * form.is_transposed

    def _effort_of_operand(self, name: str, is_turned: bool) -> int:
        """The effort to move an operand from where it is computed, with channels and columns exchanged or not.

        Of a concatenation that an input goes into, each part is moved by itself, and the host does that of the input.
        """
        joint = self._producers.get(name)
        if joint is not None and joint.kind == "concat" and any(map(self._is_from_host, joint.inputs)):
            parts = [part for part in joint.inputs if not self._is_from_host(part)]
            return sum(self._effort_of_part(part, is_turned) for part in parts)
        return self._effort_of_part(name, is_turned)

    def _is_from_host(self, name: str) -> bool:
        return is_from_host(name, self._view)

    def _effort_of_part(self, name: str, is_turned: bool) -> int:
        wanted: tuple[int, ...] = stored_shape(self.tensors[name].shape)
        root, order = self._order_of(name)
        if is_turned:
            order = None if order is None else order.transposed(wanted, EXCHANGED)
            wanted = exchanged_shape(wanted)
        shape = self.tensors[root].shape
        if len(shape) > 4 or (self._is_fed(root) and order is not None and order.is_same):
            return 0 if order is not None and order.is_same else 4
        return effort(order, stored_shape(shape), wanted)

    def _is_fed(self, root: str) -> bool:
        """Whether the host gives a tensor."""
        return root not in self._producers or self._producers[root].kind in (*QUANTIZING, "transpose")

    def _order_of(self, name: str) -> tuple[str, ElementOrder | None]:
        """The tensor that a chain of moves begins with, and how the elements of a tensor come from it."""
        moves = self._moves_before(name)
        root = moves[0].inputs[0] if moves else name
        order: ElementOrder | None = same_order(self.tensors[root].shape)
        for move in moves:
            if move.kind == "transpose" and order is not None:
                order = order.transposed(self.tensors[move.inputs[0]].shape, move.attributes["axes"])
        return root, order

    def _moves_before(self, name: str) -> list[Operator]:
        """The chain of moves that ends with a tensor, the first one first."""
        chain: list[Operator] = []
        while (producer := self._producers.get(name)) is not None and producer.kind in REORDERING:
            is_new = producer.outputs[0] not in self._graph.tensors or producer.inputs[0] not in self._graph.tensors
            if producer.kind == "transpose" and not is_new and is_at_an_end(producer, self._graph):
                break
            chain.insert(0, producer)
            name = producer.inputs[0]
        return chain

    def _efforts_of_readers(self, name: str, order: ElementOrder | None, stored: tuple[int, ...]) -> Iterator[int]:
        """The efforts to move a result, stored in a shape with its elements in an order, to each of its readers."""
        shape = self.tensors[name].shape
        for reader in self._graph.readers.get(name, ()):
            following = order
            if reader.kind == "transpose":
                if order is not None and order.is_same and is_at_an_end(reader, self._graph):
                    continue
                following = None if order is None else order.transposed(shape, reader.attributes["axes"])
            if reader.kind in REORDERING:
                yield from self._efforts_of_readers(reader.outputs[0], following, stored)
            elif reader.kind == "rescale" or (reader.kind == "lookup" and reader.attributes["table"].ndim == 1):
                yield from self._efforts_of_readers(reader.outputs[0], order, stored)
            elif reader.kind in QUANTIZING:
                yield 0 if order is not None and order.is_same else 3
            elif reader.kind == "product":
                turned = None if order is None else order.transposed(shape, EXCHANGED)
                other = exchanged_shape(shape)
                yield min(effort(order, stored, shape), effort(turned, stored, other))
            else:
                yield effort(order, stored, stored_shape(shape)) if len(shape) <= 4 else 4
        if name in self._graph.outputs.values():
            yield 0 if order is not None and order.is_same else 3


def _operands(product: Operator, form: _Form) -> tuple[tuple[str, bool], tuple[str, bool]]:
    """The vector and the matrix of a form, each with whether its channels and columns are exchanged for that."""
    a, b = product.inputs
    is_b_turned = bool(product.attributes["is_transposed"])
    if form.is_swapped:
        return (b, not is_b_turned), (a, not form.is_transposed)
    return (a, False), (b, form.is_transposed != is_b_turned)

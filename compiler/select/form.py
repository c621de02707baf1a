"""What selection sees of a nest.

Nests of one form differ only in names, in the elements of constants, and in the pixels at which they begin.
"""

from __future__ import annotations

from typing import NamedTuple

from tilewright.compiler.graph.graph import CHANNEL, COLUMN
from tilewright.compiler.nest.nest import Access, Affine, Nest, NestLoop, NestProgram
from tilewright.isa.language.expressions import Expr
from tilewright.isa.language.numeric import IntegerType, Interval

RANK = COLUMN + 1


class TensorFacts(NamedTuple):
    """What is known of a tensor that is read or written; `values` and what follows it are of constants only."""

    type: IntegerType
    values: Interval | None = None
    rank: int = 0
    entries: int = 0  # of a table: its last dimension


class Form(NamedTuple):
    """Loops, expression and accesses of a nest, with the facts of each tensor in place of its name."""

    loops: tuple[NestLoop, ...]
    expr: Expr
    reads: tuple[tuple[str, tuple[Affine, ...], int | None, TensorFacts], ...]
    result: tuple[tuple[Affine, ...], TensorFacts]


class FormsOfNests:
    """The forms of one program's nests; each constant is looked through once."""

    def __init__(self, program: NestProgram) -> None:
        self._program = program
        self._facts: dict[str, TensorFacts] = {}

    def of(self, nest: Nest) -> Form:
        reads = tuple((name, *self._seen(access)) for name, access in nest.reads.items())
        index, _, facts = self._seen(nest.result)
        return Form(nest.loops, nest.expr, reads, (index, facts))

    def _seen(self, access: Access) -> tuple[tuple[Affine, ...], int | None, TensorFacts]:
        index = access.index
        if len(index) == RANK and access.tensor in self._program.buffers:
            index = tuple([i if d == CHANNEL or not i.constant else Affine(i.terms) for d, i in enumerate(index)])
        return index, access.outside, self._facts_of(access.tensor)

    def _facts_of(self, tensor: str) -> TensorFacts:
        if tensor not in self._facts:
            self._facts[tensor] = self._looked_up(tensor)
        return self._facts[tensor]

    def _looked_up(self, tensor: str) -> TensorFacts:
        buffer = self._program.buffers.get(tensor)
        if buffer is not None:
            return TensorFacts(buffer.type)
        values = self._program.constants[tensor]
        limits = Interval(int(values.min()), int(values.max())) if values.size else None
        return TensorFacts(
            self._program.constant_types[tensor], limits, values.ndim, values.shape[-1] if values.ndim else 0
        )

"""What the tiler sees of a nest: nests that are alike are cut alike, and lowered once."""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial

from tilewright.compiler.canonical_form import CanonicalForm
from tilewright.compiler.nest.canonical_nests import canonical_nests, stored_facts
from tilewright.compiler.nest.nest import NestProgram
from tilewright.compiler.select.bindings import Binding, Parameters
from tilewright.compiler.select.cover import Step
from tilewright.compiler.tiling.shape import NestShape


def likeness(shape: NestShape, program: NestProgram) -> CanonicalForm:
    """The canonical form of a nest, with its instructions, and with what stays on chip.

    The values of constants do not matter, but where a matrix has only zeros; nor do zero points and limits.
    """
    told = (
        tuple(map(_told, shape.cover.steps)),
        None if shape.weights is None else (shape.weights.boxes, shape.weights.pieces),
        (tuple(sorted(shape.off_chip)), shape.stores_result, shape.result_on_chip),
        tuple(sorted(shape.pixel_blocks.items())),
        tuple([(each.read, likeness(each.shape, program)) for each in shape.within]),
    )
    return canonical_nests([shape.cover.nest], lambda _: told, partial(stored_facts, program))


def _told(step: Step) -> Hashable:
    inputs = tuple([(operand, _told_binding(bound)) for operand, bound in sorted(step.inputs.items())])
    return step.format.mnemonic, inputs, step.words, step.word_loop, len(step.corrections)


def _told_binding(bound: Binding) -> Hashable:
    return (tuple(sorted(bound.fields.items())), bound.free) if isinstance(bound, Parameters) else bound

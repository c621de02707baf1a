"""Constants of the same channels, packed so that several steps of a cover read the same words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tilewright.compiler.select.bindings import Parameters
from tilewright.compiler.select.cover import Step
from tilewright.isa.machine.encoding import Operand


def with_shared_parameters(steps: Sequence[Step]) -> tuple[Step, ...]:
    """The steps, with constants of the same channels packed into the same words where fields allow it."""
    shared: dict[tuple[str, bool], list[Parameters]] = {}  # by memory, and whether a reduction runs over the channels
    for step, operand, own in _parameters(steps):
        groups = shared.setdefault((operand.memory, operand.name in step.across), [])
        for position, group in enumerate(groups):
            if (both := group.joined(own)) is not None:
                groups[position] = both
                break
        else:
            groups.append(own)
    inputs = {id(step): dict(step.inputs) for step in steps}
    for step, operand, own in _parameters(steps):
        groups = shared[operand.memory, operand.name in step.across]
        inputs[id(step)][operand.name] = next(group for group in groups if group.joined(own) == group)
    return tuple(replace(step, inputs=inputs[id(step)]) for step in steps)


def _parameters(steps: Sequence[Step]) -> Iterator[tuple[Step, Operand, Parameters]]:
    for step in steps:
        for operand in step.format.sources:
            bound = step.inputs[operand.name]
            if isinstance(bound, Parameters):
                yield step, operand, bound

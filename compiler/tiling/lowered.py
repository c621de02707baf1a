"""Nests that are alike are lowered once: what was made for one is made again with the names and constants of another.

Networks repeat their layers, and a search lowers all nests again to change one of them. What is made again is, byte for
byte, what lowering would make.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tilewright.compiler.canonical_form import CanonicalForm, NameNumbers
from tilewright.compiler.nest.nest import NestProgram
from tilewright.compiler.select.cover import Step
from tilewright.compiler.session import MemoStage, SameObject, Session
from tilewright.compiler.tile.program import BufferAddress, TileBuffer, TileOperation
from tilewright.compiler.tiling.builder import TileBuilder
from tilewright.compiler.tiling.job import Constants, Content, NestJob, WholeTensor
from tilewright.compiler.tiling.layout import InDram
from tilewright.compiler.tiling.nest_stages import NestLowering
from tilewright.compiler.tiling.stage import Stage

MOST_OPERATIONS = 1 << 17
"""So many operations are remembered, of all nests together."""


def lowered_stages(
    job: NestJob, look: CanonicalForm, program: NestProgram, builder: TileBuilder, session: Session
) -> list[Stage]:
    """The stages of a nest; `look` is its likeness (`likeness.py`)."""
    form = _form(job, look, builder)
    known = None if form is None else session.known(_LOWERED, form)
    if known is not None and form is not None:
        return known.again(job, form, program.constants, builder)
    first, lowering = len(builder.made), NestLowering(job, program, builder)
    stages = list(lowering.stages())
    if form is not None:
        made = [(name, builder.buffers[fresh]) for name, fresh in builder.made[first:]]
        session.keep(_LOWERED, form, _Lowered.of(job, form, stages, made, lowering.contents))
    return stages


@dataclass(frozen=True)
class _NestBuffer:
    """A buffer of a nest: what it is called behind the nest's name, and, of a constant, how it gets its bytes."""

    suffix: str
    buffer: TileBuffer
    content: Content | None


@dataclass(frozen=True)
class _Lowered:
    """What was made for a nest: buffers, in order, and operations in their stages, under the names that they had."""

    form: CanonicalForm  # with the names of the buffers that were there before
    made: tuple[_NestBuffer, ...]
    stages: tuple[tuple[tuple[TileOperation, ...], ...], ...]
    immediates: Mapping[str, Mapping[str, int]]  # by mnemonic, where they may differ from nest to nest

    @property
    def operations(self) -> int:
        return sum(len(operations) for stage in self.stages for operations in stage)

    @staticmethod
    def of(
        job: NestJob,
        form: CanonicalForm,
        stages: Sequence[Stage],
        made: Sequence[tuple[str, TileBuffer]],
        contents: Mapping[str, Content],
    ) -> _Lowered:
        """What `made` names is called after the nest."""
        prefix = job.cover.nest.name
        return _Lowered(
            form,
            tuple([_NestBuffer(name.removeprefix(prefix), own, contents.get(own.name)) for name, own in made]),
            tuple([(tuple(s.early), tuple(s.products), tuple(s.late), tuple(s.rest)) for s in stages]),
            _immediates(job),
        )

    def again(self, job: NestJob, form: CanonicalForm, constants: Constants, builder: TileBuilder) -> list[Stage]:
        """The same for a nest of the same form."""
        names = form.names_from(self.form)
        prefix = job.cover.nest.name
        for made in self.made:
            name, old = prefix + made.suffix, made.buffer
            if made.content is not None:
                names[old.name] = builder.constant(name, made.content(job, constants))
            else:
                names[old.name] = builder.buffer(name, old.place, old.size, old.alignment, old.offset, old.is_in_bank)
        fields = _Fields(self.immediates, _immediates(job))
        layer = builder.layer

        def moved(operations: Sequence[TileOperation]) -> list[TileOperation]:
            return [
                TileOperation(
                    mnemonic,
                    fields.of(mnemonic, old),
                    {operand: BufferAddress(names[buffer], offset) for operand, (buffer, offset) in bases.items()},
                    layer,
                )
                for mnemonic, old, bases, _ in operations
            ]

        return [Stage(*map(moved, stage)) for stage in self.stages]


_LOWERED = MemoStage[_Lowered](MOST_OPERATIONS, renewed=False, weight=lambda lowered: lowered.operations)


class _Fields:
    """The fields of operations with other immediates in place of those that they had."""

    def __init__(self, before: Mapping[str, Mapping[str, int]], now: Mapping[str, Mapping[str, int]]) -> None:
        self._other = {mnemonic: own for mnemonic, own in now.items() if own != before[mnemonic]}
        self._known: dict[tuple[str, int], Mapping[str, int]] = {}  # by mnemonic and identity of the fields before

    def of(self, mnemonic: str, before: Mapping[str, int]) -> Mapping[str, int]:
        """Of operations that are alike it is one object, as the builder makes it."""
        if mnemonic not in self._other:
            return before
        key = mnemonic, id(before)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = {**before, **self._other[mnemonic]}
        return found


# -- what a nest's lowering follows from -------------------------------------------------------------------------------


def _form(job: NestJob, look: CanonicalForm, builder: TileBuilder) -> CanonicalForm | None:
    """The canonical form of a nest with all decisions made: its names are those of the buffers that it finds.

    None for nests whose lowering follows from more than this: those with others in their tiles, with parameters of
    pixels, and with products that are summed apart.
    """
    shape, nest, steps = job.shape, job.cover.nest, job.cover.steps
    if job.within or shape.pixel_blocks or any(step.adding is not None for step in steps):
        return None
    apart = _immediates(job)
    outside = list(job.fills)

    def tell(numbers: NameNumbers) -> Hashable:
        return (
            SameObject(builder.machine),
            look,
            tuple(job.choice.sizes.items()),
            job.choice.points_outer,
            tuple([_place(place) for place in _places(job)]),
            tuple([(numbers[name], builder.buffers[name].place) for name in _references(job)]),
            tuple(
                [None if access.outside is None else outside.index(access.outside) for access in nest.reads.values()]
            ),
            tuple([None if fill.step is None else _of_step(fill.step, apart) for fill in job.fills.values()]),
            tuple([(_of_step(step, apart), step.reduces, step.is_uniform, step.corrections) for step in steps]),
        )

    return CanonicalForm.of(tell)


def _of_step(step: Step, apart: Mapping[str, Mapping[str, int]]) -> Hashable:
    """An instruction, with its immediates unless they may differ."""
    mnemonic = step.format.mnemonic
    return mnemonic, tuple(step.immediates if mnemonic in apart else step.immediates.items())


def _immediates(job: NestJob) -> Mapping[str, Mapping[str, int]]:
    """By mnemonic, the immediates of instructions that occur once, so that each operation tells whose it has."""
    steps = [*job.cover.steps, *(fill.step for fill in job.fills.values() if fill.step is not None)]
    counts = Counter(step.format.mnemonic for step in steps)
    return {step.format.mnemonic: step.immediates for step in steps if counts[step.format.mnemonic] == 1}


def _places(job: NestJob) -> Iterator[WholeTensor | InDram | None]:
    """Where everything is that a nest reads, and its result."""
    for access in job.cover.nest.reads.values():
        yield job.homes.get(access.tensor)
    yield job.result
    yield job.result_in_dram


def _place(place: WholeTensor | InDram | None) -> Hashable:
    """A place without the name of its buffer."""
    if isinstance(place, InDram):
        return place.layout, place.memory, tuple([_place(part) for part in place.parts])
    return None if place is None else place.layout


def _references(job: NestJob) -> list[str]:
    """The buffers that a nest finds: of the tensors that it reads, of its result, and with words to fill others."""
    found: list[str] = []
    for place in _places(job):
        found += _buffers(place)
    return [*found, *(fill.constant for fill in job.fills.values() if fill.constant)]


def _buffers(place: WholeTensor | InDram | None) -> list[str]:
    if place is None:
        return []
    parts = place.parts if isinstance(place, InDram) else ()
    return [place.buffer, *(name for part in parts for name in _buffers(part))]

"""What a search sees of a network: its selection with other names, weights and numbers, the same for all networks that
differ in nothing else. So what is found follows from the key alone, and holds for weights that are trained again.

Constants are filled anew (`contents.py`). Numbers beside them, such as zero points, become small ones that are equal
where they were.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tilewright.compiler.canonical_form import NameNumbers
from tilewright.compiler.nest.nest import Access, Buffer, Nest, NestProgram
from tilewright.compiler.search.contents import ConstantContent, contents_of
from tilewright.compiler.select.bindings import Binding, Parameters
from tilewright.compiler.select.cover import Cover, Selection, Step
from tilewright.compiler.select.selector import Selector
from tilewright.compiler.session import Session
from tilewright.compiler.tiling.options import TilingOptions
from tilewright.isa.language.expressions import const
from tilewright.isa.language.numeric import IntegerType
from tilewright.isa.program.program import Tensor


@dataclass(frozen=True)
class StandIn:
    """The stand-in of a selection. Its buffers are called `b0`, `b1` …, its nests `n0`, `n1` …; `buffers` and `nests`
    have their own names, in order. `key` is equal for equal stand-ins.
    """

    key: str
    buffers: tuple[str, ...]
    nests: tuple[str, ...]
    _without_constants: Selection
    _contents: Mapping[str, ConstantContent]

    @cached_property
    def selection(self) -> Selection:
        """What a search is given."""
        program = self._without_constants.program
        constants = {name: content.values() for name, content in self._contents.items()}
        return replace(self._without_constants, program=replace(program, constants=constants))

    def own(self, found: TilingOptions) -> TilingOptions:
        """Options of the stand-in, with the selection's own names."""
        return _renamed(found, _numbered("n", self.nests), _numbered("b", self.buffers))

    def theirs(self, wanted: TilingOptions) -> TilingOptions:
        """Options of the selection, with the names of the stand-in."""
        nests, buffers = _numbered("n", self.nests), _numbered("b", self.buffers)
        return _renamed(
            wanted, {own: name for name, own in nests.items()}, {own: name for name, own in buffers.items()}
        )


def stand_in(selection: Selection, session: Session | None = None) -> StandIn:
    """The stand-in of a selection."""
    return _Maker(_spread(selection), session or Session()).made()


class _Maker:
    """Makes the stand-in of one selection: what is met first has the lowest number."""

    def __init__(self, selection: Selection, session: Session) -> None:
        self._machine, self._covers, program = selection.machine, selection.covers, selection.program
        self._program = program
        self._selector = Selector(selection.machine, program, session)
        self._layers, constants = NameNumbers(), NameNumbers()
        read = [access.tensor for nest in program.nests for access in nest.reads.values()]
        self._names = {name: f"c{constants[name]}" for name in read if name not in program.buffers}
        self._names |= {name: f"b{number}" for number, name in enumerate(program.buffers)}
        self._numbers: dict[int, int] = {}  # of corrections
        self._outside: dict[str, dict[int, int]] = {}  # by tensor: the values beyond its bounds
        self._filled: dict[int, tuple[str, ...]] = {}

    def made(self) -> StandIn:
        program, nests = self._program, tuple([self._nest(*each) for each in enumerate(self._program.nests)])
        types = {self._names[name]: of for name, of in program.constant_types.items() if name in self._names}
        told = NestProgram(
            name="network",
            nests=nests,
            buffers={self._names[name]: self._buffer(name) for name in program.buffers},
            constants={},
            constant_types=types,
            inputs=tuple(map(self._end, program.inputs)),
            outputs=tuple(map(self._end, program.outputs)),
        )
        covers = tuple([self._cover(cover, nest) for cover, nest in zip(self._covers, nests, strict=True)])
        contents = contents_of(self._program, self._covers, self._machine.lanes)
        named = {self._names[name]: content for name, content in contents.items()}
        selection = Selection(self._machine, told, covers)
        names = tuple([nest.name for nest in program.nests])
        return StandIn(_key(selection, named), tuple(program.buffers), names, selection, named)

    def _buffer(self, name: str) -> Buffer:
        buffer = self._program.buffers[name]
        parts = tuple([replace(part, tensor=self._names[part.tensor]) for part in buffer.parts])
        return replace(buffer, name=self._names[name], parts=parts)

    def _end(self, tensor: Tensor) -> Tensor:
        """How the host stores a tensor, whatever its integers mean."""
        plain = replace(tensor, name=self._names[tensor.name], shape=tensor.stored, axes=(), view=())
        return replace(plain, scale=1.0, zero_point=0, scales=None)

    def _nest(self, position: int, nest: Nest) -> Nest:
        layer = nest.layer or nest.name
        return Nest(
            name=f"n{position}",
            nodes=(),
            loops=nest.loops,
            reads={name: self._access(access, nest) for name, access in nest.reads.items()},
            result=self._access(nest.result, nest),
            expr=const(0),
            macs=0,
            layer=f"l{self._layers[layer]}",
        )

    def _access(self, access: Access, nest: Nest) -> Access:
        name, outside = self._names[access.tensor], access.outside
        if outside is not None:
            numbers = self._outside.setdefault(access.tensor, {})
            number = numbers.setdefault(outside, len(numbers))
            filled = self._filled_by(outside, nest)
            outside = number if any(filled) and self._filled_by(number, nest) == filled else outside
        return replace(access, tensor=name, outside=outside)

    def _filled_by(self, value: int, nest: Nest) -> tuple[str, ...]:
        """For each memory, the instruction that writes a value to its words; empty where a constant is loaded."""
        if value not in self._filled:
            steps = [self._selector.cover_value(nest, const(value), memory) for memory in self._machine.memories]
            self._filled[value] = tuple(["" if step is None else step.format.mnemonic for step in steps])
        return self._filled[value]

    def _cover(self, cover: Cover, nest: Nest) -> Cover:
        return Cover(nest, cover.space, tuple([self._step(step) for step in cover.steps]))

    def _step(self, step: Step) -> Step:
        types = step.format.immediates
        corrections = [replace(each, number=self._number(each.number)) for each in step.corrections]
        return replace(
            step,
            inputs={operand: _plain(bound) for operand, bound in step.inputs.items()},
            immediates={name: _nearest_zero(types[name]) for name in step.immediates},
            corrections=tuple(corrections),
        )

    def _number(self, correction: int) -> int:
        """1, 2, … for the numbers of corrections, and from 128 on -128, …, as bytes hold them."""
        count = self._numbers.setdefault(correction, len(self._numbers) + 1)
        return (count + 128) % 256 - 128


def _spread(selection: Selection) -> Selection:
    """The selection with a value for each channel where all channels share one and have other fields of their own.

    Whether all shifts of a layer are equal is a matter of chance; the words are the same.
    """
    program = selection.program
    counts = Counter(access.tensor for nest in program.nests for access in nest.reads.values())
    constants, nests = dict(program.constants), []
    for cover in selection.covers:
        reads = dict(cover.nest.reads)
        for name, like in _shared(cover):
            tensor, shape = reads[name].tensor, constants[reads[like].tensor].shape
            if counts[tensor] == 1 and constants[tensor].size == 1:
                constants[tensor] = np.broadcast_to(constants[tensor], shape)
                reads[name] = replace(reads[name], index=reads[like].index)
        nests.append(replace(cover.nest, reads=reads))
    covers = tuple([replace(cover, nest=nest) for cover, nest in zip(selection.covers, nests, strict=True)])
    return replace(selection, program=replace(program, nests=tuple(nests), constants=constants), covers=covers)


def _shared(cover: Cover) -> Iterator[tuple[str, str]]:
    """The reads of one value for all channels, each with a read of one for each channel in the same words."""
    for step in cover.steps:
        for bound in step.inputs.values():
            if isinstance(bound, Parameters):
                names = [name for name in bound.fields.values() if isinstance(name, str)]
                plain = [name for name in names if len(cover.nest.reads[name].index) == 1]
                moving = [name for name in plain if cover.nest.reads[name].index[0].terms]
                if moving:
                    yield from ((name, moving[0]) for name in plain if name not in moving)


def _key(selection: Selection, contents: Mapping[str, ConstantContent]) -> str:
    """A hash of all that a stand-in says."""
    machine, program = selection.machine, selection.program
    total = hashlib.sha256(repr((machine.hash, machine.memories, machine.engines, list(machine.formats))).encode())
    total.update(repr((program.buffers, program.inputs, program.outputs)).encode())
    for name, content in contents.items():
        total.update(f"{name} {content.told}".encode())
    for cover in selection.covers:
        total.update(repr((cover.nest, cover.space, [_told(step) for step in cover.steps])).encode())
    return total.hexdigest()


def _told(step: Step) -> tuple[object, ...]:
    """A step by the names of its instructions."""
    facts = step.words, step.is_uniform, step.reduces, step.word_loop, step.corrections
    adding = step.adding and step.adding.mnemonic
    return step.format.mnemonic, sorted(step.inputs.items()), sorted(step.immediates), *facts, adding


def _numbered(letter: str, names: Sequence[str]) -> dict[str, str]:
    """Names of the selection by those of its stand-in."""
    return {f"{letter}{number}": name for number, name in enumerate(names)}


def _renamed(options: TilingOptions, nests: Mapping[str, str], buffers: Mapping[str, str]) -> TilingOptions:
    """Options with other names, without what has none."""
    tiles = {nests[name]: cut for name, cut in options.tiles.items() if name in nests}
    return replace(options, off_chip=frozenset([buffers[b] for b in options.off_chip if b in buffers]), tiles=tiles)


def _plain(bound: Binding) -> Binding:
    """A binding without numbers."""
    if not isinstance(bound, Parameters):
        return bound
    return replace(bound, fields={name: of if isinstance(of, str) else 0 for name, of in bound.fields.items()})


def _nearest_zero(of: IntegerType) -> int:
    return min(max(0, of.interval.low), of.interval.high)

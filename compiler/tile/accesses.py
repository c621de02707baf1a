"""What all operations of a tile program touch, as columns of numbers: one entry for each operand of each operation.

So what is asked of every access is asked of all at once, by numpy or by a kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.tile.footprint import Footprint, operation_footprints
from tilewright.compiler.tile.program import BufferAddress, TileProgram, engines, forms

Integers = NDArray[np.int64]


class WordForms(NamedTuple):
    """Sets of words, numbered, each as its runs of words in order: those of form f from `begins[f]` on.

    Words count from the first of the set: `starts` of the first run is 0.
    """

    begins: Integers
    starts: Integers
    stops: Integers

    @property
    def lengths(self) -> Integers:
        """Of each, one more than its last word."""
        return self.stops[self.begins[1:] - 1]

    @property
    def steps(self) -> Integers:
        """Of each, the largest number of words that always go together: 0011 1100 → 2."""
        if not len(self.starts):
            return self.starts
        return np.gcd.reduceat(np.gcd(self.starts, self.stops), self.begins[:-1])

    @staticmethod
    def of(edges: Sequence[Integers], lengths: Sequence[int]) -> WordForms:
        """Of the words at which each begins or ends between its first and its last, and of their numbers of words."""
        bounds = [[0, *own.tolist(), length] for own, length in zip(edges, lengths, strict=True)]
        runs = np.fromiter(chain.from_iterable(bounds), np.int64).reshape(-1, 2)
        begins = np.cumsum([0, *(len(own) // 2 for own in bounds)])
        return WordForms(begins, runs[:, 0].copy(), runs[:, 1].copy())


@dataclass(frozen=True, slots=True)
class Accesses:
    """Accesses in program order, those of one operation in the order of its operands, from `begins[operation]` on.

    `buffer` counts the program's buffers as they are declared; `first` is the first word, from the buffer's start.
    """

    begins: Integers
    buffer: Integers
    first: Integers
    form: Integers
    is_read: NDArray[np.bool_]
    is_write: NDArray[np.bool_]
    forms: WordForms

    @property
    def operation(self) -> Integers:
        """Whose accesses they are."""
        return np.repeat(np.arange(len(self.begins) - 1), np.diff(self.begins))


def program_accesses(program: TileProgram) -> Accesses:
    """The accesses of every operation; what operations that differ only in their bases touch is found once."""
    form_of = program.of_each(forms)
    alike: dict[int, tuple[Footprint, ...]] = {}
    for operation, form in zip(program.operations, form_of, strict=True):
        if form not in alike:
            elsewhere = {name: BufferAddress("", 0) for name in operation.bases}
            alike[form] = operation_footprints(program.machine, operation._replace(bases=elsewhere))
    words = _Words()
    at, begin = np.zeros(max(alike, default=0) + 1, np.int64), 0  # where each form's own rows begin
    rows: list[tuple[int, int, bool, bool]] = []
    for form, footprints in alike.items():
        at[form] = begin
        rows += [(f.first, words.form(f), f.is_read, f.is_write) for f in footprints]
        begin += len(footprints)
    operands = {form: [f.operand for f in footprints] for form, footprints in alike.items()}
    numbers = {name: number for number, name in enumerate(program.buffers)}
    bases = [
        (numbers[base.buffer], base.offset)
        for operation, form in zip(program.operations, form_of, strict=True)
        for base in map(operation.bases.__getitem__, operands[form])
    ]
    begins = np.cumsum([0, *(len(operands[form]) for form in form_of)])
    counts = np.diff(begins)
    own = np.repeat(at[np.array(form_of, np.int64)] - begins[:-1], counts) + np.arange(begins[-1])
    first, word_form, is_read, is_write = np.array(rows, np.int64).reshape(-1, 4)[own].T
    buffer, offset = np.array(bases, np.int64).reshape(-1, 2).T
    return Accesses(begins, buffer.copy(), first + offset, word_form.copy(), is_read != 0, is_write != 0, words.forms())


def engine_numbers(program: TileProgram) -> Integers:
    """The engine of each operation, as its number in the machine."""
    return np.array([engine.number for engine in program.of_each(engines)], np.int64)


class _Words:
    """The sets of words found so far; equal ones are mostly one object (`affine_mask`)."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, int], int] = {}
        self._footprints: list[Footprint] = []  # which keep the identity of their masks

    def form(self, of: Footprint) -> int:
        """The number of a footprint's words, wherever they begin."""
        key = len(of.mask), id(of.mask) if len(of.edges) else 0
        number = self._numbers.setdefault(key, len(self._footprints))
        if number == len(self._footprints):
            self._footprints.append(of)
        return number

    def forms(self) -> WordForms:
        return WordForms.of([of.edges for of in self._footprints], [len(of.mask) for of in self._footprints])

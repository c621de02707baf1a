"""Where the words of masks lie in their rows: two that touch no common place of a row have no word in common.

Most accesses are some places of some rows of an image, and so this is known at once of all that lie in other rows.
Example: in rows of 8 words, the columns 0 and 1 of rows 0 to 2 never meet columns 4 and 5 of rows 1 to 9.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

NOTHING = np.iinfo(np.int64).min
"""Neither a form nor a place in a row."""


@dataclass(slots=True)
class _Form:
    """A mask, the words from one row of it to the next, and what is known of other forms beside it."""

    mask: NDArray[np.bool_] | None  # None: every word
    pitch: int
    asked: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))  # in order
    answers: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))


class MaskRows:
    """The forms of accesses, numbered, and which of them may meet at which distance."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, int], int] = {}
        self._forms: list[_Form] = []
        self._folded: dict[tuple[int, int], NDArray[np.bool_]] = {}

    def form(self, length: int, mask: NDArray[np.bool_] | None) -> int:
        """The number of a mask, or of all words up to a length; equal masks should be one object."""
        key = length, 0 if mask is None else id(mask)  # which stays its own, since the form keeps it
        number = self._numbers.setdefault(key, len(self._forms))
        if number == len(self._forms):
            self._forms.append(_Form(mask, 1 if mask is None else row_pitch(mask)))
        return number

    def may_meet(self, one: int, others: NDArray[np.int64], distances: NDArray[np.int64]) -> NDArray[np.bool_]:
        """For each other form that begins so many words before one: whether both touch a common place of a row.

        Rows are those of the one form. If not, they have no word in common; if so, they may have none either.
        """
        form = self._forms[one]
        if form.mask is None:
            return np.ones(len(others), np.bool_)
        asked = others * form.pitch + distances % form.pitch
        at = np.searchsorted(form.asked, asked)
        is_new = np.append(form.asked, NOTHING)[at] != asked
        if is_new.any():
            self._answer(one, np.unique(asked[is_new]))
            at = np.searchsorted(form.asked, asked)
        return form.answers[at]

    def _answer(self, one: int, asked: NDArray[np.int64]) -> None:
        """Find answers that are not known yet."""
        form = self._forms[one]
        pitch = form.pitch
        mine = self._places(one, pitch)[:pitch]
        answers = [
            bool((mine & self._places(other, pitch)[distance : distance + pitch]).any())
            for other, distance in zip(*(each.tolist() for each in np.divmod(asked, pitch)), strict=True)
        ]
        form.asked = np.append(form.asked, asked)
        order = np.argsort(form.asked, kind="stable")
        form.asked, form.answers = form.asked[order], np.append(form.answers, answers)[order]

    def _places(self, number: int, pitch: int) -> NDArray[np.bool_]:
        """Which places of a row a mask has words at, twice one after the other."""
        places = self._folded.get((number, pitch))
        if places is None:
            places = self._folded[number, pitch] = np.tile(_folded(self._forms[number].mask, pitch), 2)
        return places


def _folded(mask: NDArray[np.bool_] | None, pitch: int) -> NDArray[np.bool_]:
    """The rows of a mask on top of each other."""
    if mask is None:
        return np.ones(pitch, np.bool_)
    rows = np.zeros(-(-len(mask) // pitch) * pitch, np.bool_)
    rows[: len(mask)] = mask
    return np.logical_or.reduce(rows.reshape(-1, pitch))


def row_pitch(mask: NDArray[np.bool_]) -> int:
    """Words from one row to the next, as a mask's runs of words have it; its length if it is one row.

    A row ends where the distance from run to run changes, or with each run if it never does.
    """
    starts = np.flatnonzero(mask[1:] & ~mask[:-1]) + 1
    if not len(starts):
        return len(mask)
    distances = np.diff(starts, prepend=0)
    changes = np.flatnonzero(distances != distances[0])
    return int(starts[changes[0]] if len(changes) else starts[0])

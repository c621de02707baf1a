"""What an access to a storage takes: measured where the library has the macro with one port, else by a fit over those.

The fit is c + a·√words + bits · (b + d·√words + e·words), no coefficient below 0: so what has more words or bits takes
no less. Its error is the largest that it makes of a macro that it was not made from. Where fewer macros are measured
than say how far it is off, an energy is not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import inf

import numpy as np
from numpy.typing import NDArray

from tilewright.codesign.price.process import Macro

TERMS = 5
"""Of the fit."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class AccessEnergy:
    """Of one access, in pJ. `error` is 0 for what is measured, and for others how far it may be off: 0.1 is a tenth."""

    read_pj: float
    write_pj: float
    error: float = 0.0


@lru_cache(maxsize=4096)
def storage_energy(macros: tuple[Macro, ...], words: int, bits: int, ports: int) -> AccessEnergy | None:
    """The energy of a storage in the macros with so many ports that take the least area; None where it is not known.

    No less than that of any smaller storage: where more words come to lie in several macros, of which only one is
    accessed, what it takes to choose that one is not measured.
    """
    pairs = [macro for macro in macros if macro.ports == ports]
    energies = [macro_energy(macros, macro.words, macro.bits) for macro in pairs]
    deep = _sizes([macro.words for macro in pairs], words)
    wide = _sizes([macro.bits for macro in pairs], bits)
    chosen, across = _chosen(pairs, deep, wide)
    own = energies[chosen[-1, -1]]
    if own is None:
        return None
    known = np.array([[e.read_pj, e.write_pj, e.error] if e else [0.0] * 3 for e in energies])
    reads, writes = (known[chosen, kind] * across for kind in (0, 1))
    read, write = float(reads.max()), float(writes.max())
    beyond = max(read / float(reads[-1, -1]), write / float(writes[-1, -1])) - 1
    errors = [float(known[chosen.flat[of.argmax()], 2]) for of in (reads, writes)]
    return AccessEnergy(read, write, max(own.error, beyond, *errors))


def _sizes(steps: Sequence[int], last: int) -> NDArray[np.int64]:
    """Up to `last`, every size beyond which more macros are needed."""
    found = {size for step in set(steps) for size in range(step, last, step)}
    return np.array(sorted(found | {last}), np.int64)


def _chosen(
    macros: Sequence[Macro], deep: NDArray[np.int64], wide: NDArray[np.int64]
) -> tuple[NDArray[np.int64], Floats]:
    """By words and bits: which macro takes the least area, of equals the fewest; and how many of it lie across."""
    counts = np.array([np.outer(-(-deep // macro.words), -(-wide // macro.bits)) for macro in macros])
    areas = counts * np.array([macro.area_um2 for macro in macros])[:, None, None]
    least = areas.min(axis=0)
    chosen = np.where(areas == least, counts, np.iinfo(np.int64).max).argmin(axis=0)
    across = np.array([-(-wide // macro.bits) for macro in macros], float)
    return chosen, across[chosen, np.arange(len(wide))]


@lru_cache(maxsize=256)
def macro_energy(macros: tuple[Macro, ...], words: int, bits: int) -> AccessEnergy | None:
    """Of a macro of so many words and bits: that of one with one port where it is measured, else by the fit.

    The fit keeps within the measured ones that have no more, and no less, of both.
    """
    known = [macro for macro in macros if macro.ports == 1 and macro.read_pj and macro.write_pj]
    for macro in known:
        if (macro.words, macro.bits) == (words, bits):
            assert macro.read_pj is not None and macro.write_pj is not None
            return AccessEnergy(macro.read_pj, macro.write_pj)
    sizes = tuple((macro.words, macro.bits) for macro in known)
    reads = _estimated(sizes, tuple(macro.read_pj or 0.0 for macro in known), words, bits)
    writes = _estimated(sizes, tuple(macro.write_pj or 0.0 for macro in known), words, bits)
    if reads is None or writes is None:
        return None
    return AccessEnergy(reads[0], writes[0], max(reads[1], writes[1]))


Sizes = tuple[tuple[int, int], ...]


def _estimated(sizes: Sizes, known: tuple[float, ...], words: int, bits: int) -> tuple[float, float] | None:
    """An energy with its error; None where too few are known."""
    if len(sizes) <= TERMS or any(len(set(axis)) < 2 for axis in zip(*sizes, strict=True)):
        return None
    coefficients, error = _fit(sizes, known)
    energy = float(_terms(((words, bits),))[0] @ coefficients)
    below = [pj for (w, b), pj in zip(sizes, known, strict=True) if w <= words and b <= bits]
    above = [pj for (w, b), pj in zip(sizes, known, strict=True) if w >= words and b >= bits]
    return max(min(energy, min(above, default=inf)), max(below, default=0.0)), error


@lru_cache(maxsize=16)
def _fit(sizes: Sizes, known: tuple[float, ...]) -> tuple[Floats, float]:
    """The coefficients, and the largest error that those of all macros but one make of that one."""
    terms, values = _terms(sizes), np.array(known)
    errors = []
    for at in range(len(values)):
        others = np.arange(len(values)) != at
        errors.append(abs(float(terms[at] @ _least_squares(terms[others], values[others])) / known[at] - 1))
    return _least_squares(terms, values), max(errors)


def _terms(sizes: Sizes) -> Floats:
    words, bits = np.array(sizes, float).T
    return np.stack([np.ones_like(words), np.sqrt(words), bits, bits * np.sqrt(words), bits * words], axis=1)


def _least_squares(terms: Floats, values: Floats) -> Floats:
    """Coefficients of at least 0 with the least squares of relative errors: of all choices of terms, the best."""
    scaled, best, least = terms / values[:, None], np.zeros(TERMS), inf
    for count in range(1, TERMS + 1):
        for chosen in map(list, combinations(range(TERMS), count)):
            found = np.linalg.lstsq(scaled[:, chosen], np.ones(len(values)), rcond=None)[0]
            loss = float(((scaled[:, chosen] @ found - 1) ** 2).sum())
            if found.min() >= 0 and loss < least:
                best, least = np.zeros(TERMS), loss
                best[chosen] = found
    return best

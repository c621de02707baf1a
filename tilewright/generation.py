"""Tokens one after the other from a decoder: a program for one token, run again and again with a cache of those before.

The cache is an input of the program, of a fixed number of places. A mask says which places are in use. What the token
itself adds to the cache is a result, and is put in its place between two runs: nothing else of the cache changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.errors import InputError
from tilewright.program import Program

Arrays = Mapping[str, NDArray[Any]]

OUT_OF_USE = np.finfo(np.float32).min
"""What a mask adds to the score of a place that is not in use."""


@dataclass(frozen=True, slots=True)
class Generated:
    """The tokens, first those that were given; and the cycles of each run, None where there is no clock."""

    tokens: tuple[int, ...]
    cycles: tuple[int, ...] | None


def most_likely(logits: NDArray[Any]) -> int:
    """The token with the largest value; the first of several."""
    return int(logits.reshape(-1).argmax())


def generate(
    step: Program,
    prompt: Sequence[int],
    count: int,
    *,
    inputs: Callable[[int, int], Arrays],
    cache: Mapping[str, str],
    mask: str = "mask",
    logits: str = "logits",
    choose: Callable[[NDArray[Any]], int] = most_likely,
    on: str = "sim",
) -> Generated:
    """Read a prompt, and give `count` tokens that follow it.

    `step` is a network of one token. `cache` names its inputs of earlier tokens, each with the output of what the token
    adds: of one place, or of all places and its own behind them. `mask` is the input that is added to the scores, of
    the cache's places and the token's own behind them: 0 for those in use. `inputs` gives all other inputs for a token
    and its place, from 0 on. `choose` gives the next token, from the output `logits`. Raises InputError for names and
    shapes that do not fit and for more tokens than the cache has places, before anything runs.
    """
    places = _CachePlaces.of(step, cache, mask)
    runs = len(prompt) + count - 1
    if not prompt or count < 1:
        raise InputError(f"a prompt of {len(prompt)} tokens and {count} more; expected at least one of each")
    if runs > places.length + 1:
        raise InputError(
            f"a prompt of {len(prompt)} tokens and {count} more need {runs - 1} places of the cache; it has "
            f"{places.length}: compile the network for more, or ask for fewer tokens"
        )
    held = {name: np.zeros(shape, np.float32) for name, shape in places.shapes.items()}
    tokens, cycles = list(prompt), []
    for place in range(runs):
        given = {**inputs(tokens[place], place), **held, mask: places.mask(place)}
        result = step.run(given, on=on)
        if result.profile is not None:
            cycles.append(result.profile.typed.cycles)
        if place < places.length:
            for name, made in cache.items():
                held[name][places.at(name, place)] = result.outputs[made][places.at(name, -1)]
        if place + 1 == len(tokens):
            tokens.append(choose(result.outputs[logits]))
    return Generated(tuple(tokens), tuple(cycles) if len(cycles) == runs else None)


@dataclass(frozen=True, slots=True)
class _CachePlaces:
    """Where the tokens lie in a cache: `dimensions` and `shapes` by the names of inputs."""

    length: int
    dimensions: Mapping[str, int]
    shapes: Mapping[str, tuple[int, ...]]
    mask_shape: tuple[int, ...]

    @classmethod
    def of(cls, step: Program, cache: Mapping[str, str], mask: str) -> _CachePlaces:
        """Raises InputError for names and shapes that do not fit."""
        ends = (step.inputs, step.outputs)
        inputs, outputs = ({of.name: tuple(size or 0 for size in of.shape) for of in each} for each in ends)
        for name, known, what in (
            *((name, inputs, "input") for name in (*cache, mask)),
            *((name, outputs, "output") for name in cache.values()),
        ):
            if name not in known:
                raise InputError(f"the step has no {what} {name!r}; it has: {', '.join(known)}")
        if not cache:
            raise InputError("no cache is named; expected the inputs of earlier tokens, each with its output")
        dimensions = {name: _dimension(name, inputs[name], made, outputs[made]) for name, made in cache.items()}
        lengths = {name: inputs[name][dimension] for name, dimension in dimensions.items()}
        length = min(lengths.values())
        for name, each in lengths.items():
            if each != length:
                raise InputError(f"input {name!r} has {each} places; another of the cache has {length}")
        if inputs[mask][-1] != length + 1 or np.prod(inputs[mask]) != length + 1:
            raise InputError(
                f"input {mask!r} has shape {list(inputs[mask])}; expected {length + 1} values, for the {length} places "
                "of the cache and the token itself"
            )
        return cls(length, dimensions, {name: inputs[name] for name in cache}, inputs[mask])

    def at(self, name: str, place: int) -> tuple[slice | int, ...]:
        """The index of a place; -1 is the last."""
        return (*[slice(None)] * self.dimensions[name], place)

    def mask(self, place: int) -> NDArray[np.float32]:
        """The places before this one are in use, and the token's own."""
        values = np.full(self.length + 1, OUT_OF_USE, np.float32)
        values[:place] = values[-1] = 0
        return values.reshape(self.mask_shape)


def _dimension(name: str, shape: tuple[int, ...], made: str, of_made: tuple[int, ...]) -> int:
    """The one in which a cache and what a token adds to it differ."""
    unequal = [d for d, (whole, own) in enumerate(zip(shape, of_made, strict=False)) if whole != own]
    if len(shape) == len(of_made) and len(unequal) == 1:
        (dimension,) = unequal
        if of_made[dimension] in (1, shape[dimension] + 1):
            return dimension
    raise InputError(
        f"input {name!r} has shape {list(shape)} and output {made!r} {list(of_made)}; expected the same but for one "
        "dimension, in which the output has one place, or one more than the input"
    )

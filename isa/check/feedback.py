"""Whether an instruction feeds itself: reads a word in a later iteration than it writes it.

In place is fine, feeding itself is not: then a pipeline of any depth has the meaning of the sequential loop.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.check.footprint import affine_ranges, extent, operand_steps
from tilewright.isa.errors import IsaError
from tilewright.isa.machine.encoding import Instruction, Operand
from tilewright.isa.machine.machine import TEMPLATES, Machine, Template

MAX_ITERATIONS = 1 << 24
"""The most iterations that are examined one by one; more than any memory has words."""


def fed_back_word(instruction: Instruction, machine: Machine) -> tuple[str, int] | None:
    """(source, word) that is written before it is read for the last time, or None. Accesses must be in bounds.

    Raises IsaError when source and destination overlap over more than MAX_ITERATIONS iterations.
    """
    format = instruction.format
    for source in format.sources:
        if source.memory == format.destination.memory and _may_overlap(instruction, source, machine):
            word = _first_fed_back(instruction, source)
            if word is not None:
                return source.name, word
    return None


def repeated_sum(instruction: Instruction) -> bool:
    """True when a systolic instruction adds two different sums into one word: its sums must have words of their own."""
    format = instruction.format
    if TEMPLATES[format.engine] is not Template.SYSTOLIC:
        return False
    reduced = set(format.reduce_loops)
    trips = [instruction[f"trip.{loop.name}"] for loop in format.loops if loop.name not in reduced]
    ranges = affine_ranges(0, operand_steps(instruction, format.destination), format.destination.block)
    return int((ranges[:, 1] - ranges[:, 0]).sum()) != math.prod(trips) * format.destination.block


def _may_overlap(instruction: Instruction, source: Operand, machine: Machine) -> bool:
    destination = instruction.format.destination
    read, written = extent(instruction, source, machine), extent(instruction, destination, machine)
    if read[0] >= written[1] or written[0] >= read[1]:
        return False
    return not _is_in_place(instruction, source)


def _is_in_place(instruction: Instruction, source: Operand) -> bool:
    """Both move alike and visit each word once, so each word is read in the iteration that writes it."""
    destination = instruction.format.destination
    trips = instruction.trips
    read, written = instruction.strides(source), instruction.strides(destination)
    moving = [loop for loop, trip in trips.items() if trip > 1]
    is_alike = (
        instruction.base(source.name) == instruction.base(destination.name)
        and source.block == destination.block
        and all(read[loop] == written[loop] for loop in moving)
    )
    if not is_alike:
        return False
    ranges = affine_ranges(0, tuple((written[loop], trips[loop]) for loop in moving), destination.block)
    return int((ranges[:, 1] - ranges[:, 0]).sum()) == math.prod(trips.values()) * destination.block


def _first_fed_back(instruction: Instruction, source: Operand) -> int | None:
    destination = instruction.format.destination
    iterations = math.prod(instruction.trips.values())
    if iterations > MAX_ITERATIONS:
        raise IsaError(
            f"{source.name} and {destination.name} overlap over {iterations} iterations; expected at most "
            f"{MAX_ITERATIONS}: split the instruction"
        )
    order = np.arange(iterations)
    read, written = _words(instruction, source), _words(instruction, destination)
    finishing = order[_finishes(instruction)]
    depth = int(max(read.max(), written.max())) + 1
    last_read = np.full(depth, -1)
    for words in read.T:
        np.maximum.at(last_read, words, order)
    first_write = np.full(depth, iterations)
    for words in written.T:
        np.minimum.at(first_write, words[finishing], finishing)
    fed_back = np.flatnonzero(last_read > first_write)
    return int(fed_back[0]) if len(fed_back) else None


def _words(instruction: Instruction, operand: Operand) -> NDArray[np.int64]:
    """The words of every iteration in nest order: int64 [iterations, block]."""
    words = np.array([instruction.base(operand.name)], np.int64)
    strides = instruction.strides(operand)
    for loop, trip in instruction.trips.items():
        words = (words[:, None] + np.arange(trip) * strides[loop]).reshape(-1)
    return words[:, None] + np.arange(operand.block)


def _finishes(instruction: Instruction) -> NDArray[np.bool_]:
    """Per iteration in nest order: whether it writes. Only a systolic engine writes partial sums."""
    is_last = np.ones(1, bool)
    writes_all = TEMPLATES[instruction.engine] is Template.SYSTOLIC
    for loop in instruction.format.loops:
        trip = instruction[f"trip.{loop.name}"]
        here = np.ones(trip, bool)
        if loop.is_reduce and not writes_all:
            here[:-1] = False
        is_last = (is_last[:, None] & here).reshape(-1)
    return is_last

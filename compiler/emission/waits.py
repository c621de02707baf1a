"""Waits: for every instruction, the completed instructions of each engine that it must see before it may start.

Engines run side by side, so a word that one engine writes and another touches orders the two instructions:
read after write, write after read and write after write. Within an engine the hardware keeps the order of reads and of
writes; only a read of what an earlier instruction of the same engine wrote needs a wait, because its write may still
be in the pipeline. The array's sums are an exception to that: it adds to its own accumulators in order.
"""

from __future__ import annotations

import numpy as np

from tilewright.compiler.emission.kernels.last_touch import find_waits
from tilewright.compiler.emission.placed import OrderedTiles, PlacedTiles, Placement
from tilewright.compiler.tile.accesses import Accesses, Integers, WordForms, engine_numbers, program_accesses
from tilewright.compiler.tile.program import TileProgram

NOWHERE = -1
"""The place of what nobody writes, for which nobody waits."""


def waits(placed: PlacedTiles) -> OrderedTiles:
    """The tiles with the fewest wait counts, each as low as possible, that keep their sequential meaning.

    A wait is left out when what the instruction sees anyway implies it: its own engine's earlier instructions have
    started, so what they waited for has completed; and what a completed instruction waited for has completed too.
    """
    program = placed.tiles
    accesses, count = program.of_order(program_accesses), len(program.operations)
    engine = engine_numbers(program)
    place, first = _places(program, placed.placement, accesses)
    first, form, forms = _in_units(accesses, place, first)
    rows, words = _rows(accesses, len(program.machine.engines), engine, place, first + forms.lengths[form])
    engines = program.machine.engines
    found = np.zeros((count, len(engines)), np.int32)
    find_waits(
        accesses.begins,
        engine,
        place,
        first,
        form,
        accesses.is_read,
        accesses.is_write,
        *forms,
        rows,
        np.zeros(words, np.int32),
        np.zeros((len(engines), count), np.int64),
        np.zeros(len(engines), np.int64),
        np.zeros(len(engines), np.int32),
        np.zeros((count, len(engines)), np.int32),
        found,
    )
    of_operations = tuple([{e: c for e, c in zip(engines, own, strict=True) if c} for own in found.tolist()])
    return OrderedTiles(program, placed.placement, of_operations)


def _places(program: TileProgram, placement: Placement, accesses: Accesses) -> tuple[Integers, Integers]:
    """Of each access, the number of its memory or region, if somebody writes there, and its first word in that."""
    buffers, addresses = program.buffers, placement.addresses
    numbers = {name: number for number, name in enumerate(dict.fromkeys(b.place for b in buffers.values()))}
    # A buffer that no operation names has no address.
    of_buffer = [(numbers[buffer.place], addresses.get(name, 0)) for name, buffer in buffers.items()]
    place, address = np.array(of_buffer, np.int64).reshape(-1, 2)[accesses.buffer].T
    is_written = np.zeros(len(numbers), np.bool_)
    is_written[place[accesses.is_write]] = True
    return np.where(is_written[place], place, NOWHERE), accesses.first + address


def _in_units(accesses: Accesses, place: Integers, first: Integers) -> tuple[Integers, Integers, WordForms]:
    """First words, forms and their words, all in units: as many words, or bytes, as all of a place keep together."""
    forms = accesses.forms
    units = np.zeros(int(place.max(initial=0)) + 2, np.int64)  # the last one is of what nobody writes
    np.gcd.at(units, place, np.gcd(first, forms.steps[accesses.form]))
    unit = np.maximum(units, 1)[place]
    beyond = int(unit.max(initial=1)) + 1
    pairs, form = np.unique(accesses.form * beyond + unit, return_inverse=True)
    old, by = np.divmod(pairs, beyond)
    runs = np.diff(forms.begins)[old]
    begins = np.concatenate([[0], np.cumsum(runs)])
    taken = np.repeat(forms.begins[old] - begins[:-1], runs) + np.arange(begins[-1])
    by = np.repeat(by, runs)
    return first // unit, form, WordForms(begins, forms.starts[taken] // by, forms.stops[taken] // by)


def _rows(accesses: Accesses, engines: int, engine: Integers, place: Integers, stop: Integers) -> tuple[Integers, int]:
    """Where the row of each place, engine and kind of access begins (-1: there is none), and what all take together."""
    places = int(place.max(initial=0)) + 1
    uses = np.zeros((places + 1, engines, 2), np.int64)  # the last place is that of what nobody writes
    own = engine[accesses.operation]
    for kind, does in enumerate((accesses.is_read, accesses.is_write)):
        uses[place[does], own[does], kind] = 1
    words = np.zeros(places + 1, np.int64)
    np.maximum.at(words, place, stop)
    sizes = (uses * words[:, None, None])[:-1]
    ends = np.cumsum(sizes.reshape(-1)).reshape(sizes.shape)
    return np.where(sizes > 0, ends - sizes, -1), int(ends[-1, -1, -1])

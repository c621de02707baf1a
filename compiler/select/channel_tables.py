"""Functions of one value as a table for each channel: where that streams less than computing them.

An activation of eight bits has 256 values, so a table with an entry for each is exact, whatever is computed: constants
of a channel, rounding and limits are all in it. An instruction `y = lut(t, x)` takes a word a cycle. So a normalisation
behind a sum, which can be no part of a convolution, needs neither the array nor two words of the vector engine:

    loops   o=64 y=32 x=32, reduce i=64    x: sum[n, i, y, x]    w: weight[o, i - o, 0, 0]    bias, scale, shift: [o]
            clamp(round_shift((sum(x * w) + bias) * scale, shift) + zero, low, high)
    becomes o=64 y=32 x=32                 x: sum[n, o, y, x]    t: table[o]
            lut(t, x)

Tables must be loaded: a word for each entry and block of lanes, or for all of them where channels do not differ. Where
there are few pixels, that takes longer than it saves.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.arithmetic import Arithmetic, arithmetic_of
from tilewright.compiler.graph.graph import CHANNEL, fresh_name
from tilewright.compiler.nest.expressions import source
from tilewright.compiler.nest.interpreter import run_nest
from tilewright.compiler.nest.nest import Access, Affine, Nest, NestLoop, NestProgram, stored_dtype
from tilewright.compiler.nest.space import NO_LOOP
from tilewright.compiler.select.bindings import ConstantMatrix, Parameters, TableBinding
from tilewright.compiler.select.cover import Cover, Step
from tilewright.compiler.select.diagonals import NestForm, forms
from tilewright.compiler.select.selector import Selector
from tilewright.compiler.session import Session
from tilewright.isa.language.expressions import Expr
from tilewright.isa.language.numeric import IntegerType
from tilewright.isa.language.operations import Op
from tilewright.isa.machine.encoding import Operand
from tilewright.isa.machine.machine import Machine
from tilewright.isa.timing import word_parts

KnownTables = dict[Hashable, NDArray[Any]]
"""Tables by what the nests mean that they stand for."""

VALUES, ENTRY = "values", "entry"
"""The tensor with all values, and the loop over them, in the nest that computes a table."""


def channel_tables(program: NestProgram, machine: Machine, session: Session | None = None) -> NestProgram:
    """The same program with each function of one value as a table, where that streams less."""
    known: KnownTables = {}
    session = session or Session()
    arithmetic = arithmetic_of(machine)
    for nest in program.nests:
        table = as_tables(nest, program, machine, arithmetic, known)
        if table is not None and is_worth_it(table, NestForm("", nest, program), machine, session):
            program = table.program
    return program


def as_tables(
    nest: Nest, program: NestProgram, machine: Machine, arithmetic: Arithmetic, known: KnownTables | None = None
) -> NestForm | None:
    """A nest as a lookup; None if it is one already, or no function of one value with constants of channels.

    None also for a machine that looks no activations up. `known` are tables of other nests; it gets that of this one.
    """
    if nest.expr.op is Op.LUT and nest.expr.args[0].op is Op.SOURCE:
        return None
    values = arithmetic.activation
    if not arithmetic.entries(values):
        return None
    tables: KnownTables = {} if known is None else known
    found = (_as_lookup(form, values, tables) for form in forms(nest, program, machine))
    return next((form for form in found if form is not None), None)


def is_worth_it(table: NestForm, other: NestForm, machine: Machine, session: Session) -> bool:
    """Whether a nest as a lookup streams less than in another form, counting all engines and the bus."""
    covers = (Selector(machine, form.program, session).cover_if_possible(form.nest) for form in (table, other))
    by_table, computed = (None if cover is None else streamed(cover, machine) for cover in covers)
    return by_table is not None and (computed is None or by_table < computed)


def streamed(cover: Cover, machine: Machine) -> int:
    """The cycles of all engines if none worked beside another: the words that they stream, and loads of constants."""
    loads = 0
    for step in cover.steps:
        for operand in step.format.sources:
            cycles = word_parts(machine.memories[operand.memory].word_bytes, machine.dram.bus_bytes)
            loads += cycles * _constant_words(cover, step, operand, machine.lanes)
    return sum(cover.words.values()) + loads


def _constant_words(cover: Cover, step: Step, operand: Operand, lanes: int) -> int:
    """The words of constants that a step's operand reads, each once."""
    blocks = -(-cover.space.trips[cover.space.lane] // lanes)
    match step.inputs[operand.name]:
        case ConstantMatrix():
            return operand.block * (step.words // cover.space.pixels)
        case Parameters() as parameters:
            return 1 if parameters.is_the_same_for_all(cover.nest.reads) else blocks
        case TableBinding(read):
            return operand.block * (blocks if cover.nest.reads[read].index[0].terms else 1)
        case _:
            return 0


# -- the nest as a lookup ----------------------------------------------------------------------------------------------


def _as_lookup(form: NestForm, values: IntegerType, known: KnownTables) -> NestForm | None:
    """The same values from a table; None unless they follow from one value of a type, with constants of channels."""
    nest, program = form.nest, form.program
    lane = next((loop for loop, _ in nest.result.index[CHANNEL].terms), NO_LOOP)
    read = _only_read(nest, values, program, lane)
    if read is None:
        return None
    entries = _table(nest, read, values, lane, program, known)
    is_common = bool((entries == entries[0]).all())
    name = fresh_name(f"{nest.name}.table", program.buffers, program.constants)
    single = frozenset(loop.name for loop in nest.loops if loop.is_reduce)
    a = _standing(nest.reads[read], single)
    t = Access(name, (Affine(() if is_common else ((lane, 1),)),))
    looked_up = Expr(Op.LUT, nest.expr.range, (source("a", values.interval),), name="t")
    loops = tuple(loop for loop in nest.loops if not loop.is_reduce)
    made = replace(nest, loops=loops, reads={"a": a, "t": t}, expr=looked_up)
    constants = {**program.constants, name: entries[:1] if is_common else entries}
    types = {**program.constant_types, name: values}
    nests = tuple(made if old is nest else old for old in program.nests)
    return NestForm("as tables", made, replace(program, nests=nests, constants=constants, constant_types=types))


def _only_read(nest: Nest, values: IntegerType, program: NestProgram, lane: str) -> str | None:
    """The read of the one value of a type that each element of the result depends on; None if that is not all."""
    trips = {loop.name: loop.trip for loop in nest.loops}
    computed = [read for read, access in nest.reads.items() if access.tensor in program.buffers]
    if len(computed) != 1 or any(loop.is_reduce and loop.trip > 1 for loop in nest.loops):
        return None
    (read,) = computed
    held = {program.buffers[access.tensor].type for access in (nest.reads[read], nest.result)}
    if held != {values} or nest.reads[read].outside is not None:
        return None
    constants = [access for access in nest.reads.values() if access.tensor in program.constants]
    moving = {loop for access in constants for index in access.index for loop, _ in index.terms if trips[loop] > 1}
    return read if moving <= {lane} else None


def _table(nest: Nest, read: str, of: IntegerType, lane: str, program: NestProgram, known: KnownTables) -> NDArray[Any]:
    """[C, values] or [1, values]: what the nest makes of each value in each channel, by its own meaning.

    Steps of a recurrent network have the same tables: it is computed once for all nests that mean the same.
    """
    values = np.arange(of.interval.low, of.interval.high + 1)
    kept = [loop for loop in nest.loops if loop.name == lane or loop.is_reduce]
    others = frozenset(loop.name for loop in nest.loops) - {loop.name for loop in kept}
    reads = {name: _standing(access, others) for name, access in nest.reads.items()}
    reads[read] = Access(VALUES, (Affine(((ENTRY, 1),)),))
    channels = next((loop.trip for loop in kept if loop.name == lane), 1)
    result = Access("", (Affine(((lane, 1),) if channels > 1 else ()), Affine(((ENTRY, 1),))))
    of_values = replace(nest, loops=(*kept, NestLoop(ENTRY, values.size)), reads=reads, result=result)
    constants = [program.constants[access.tensor] for name, access in reads.items() if name != read]
    means = (
        (of_values.loops, of_values.expr, channels),
        tuple((name, access.index) for name, access in reads.items()),
        tuple((values.shape, values.dtype.str, values.tobytes()) for values in constants),
    )
    if means not in known:
        entries = np.zeros((channels, values.size), np.int64)
        run_nest(of_values, {**program.constants, VALUES: values}, entries)
        # A value that never comes may have an entry that would not fit.
        entries = entries.clip(of.interval.low, of.interval.high)
        known[means] = entries.astype(stored_dtype(of))
    return known[means]


def _standing(access: Access, loops: frozenset[str]) -> Access:
    """The access in the first iteration of some loops."""
    return replace(access, index=tuple(_without(index, loops) for index in access.index))


def _without(index: Affine, loops: frozenset[str]) -> Affine:
    return replace(index, terms=tuple(term for term in index.terms if term[0] not in loops))

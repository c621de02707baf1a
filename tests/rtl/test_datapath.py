"""The vector datapath against each statement read as plain Python arithmetic."""

import random
import zlib
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pytest
from amaranth.sim import Simulator

from tests.engines import vector_of
from tests.lanes import across_lanes
from tests.rings import slow_beyond
from tests.rtl.statements import Evaluator, random_element, random_integer, types_of_memories
from tilewright.isa.files.loader import load_machine, load_machine_text, shipped_machines
from tilewright.isa.language.expressions import walk
from tilewright.isa.language.operations import Op
from tilewright.isa.machine.encoding import InstructionFormat
from tilewright.isa.machine.engine import Template
from tilewright.isa.machine.machine import Machine
from tilewright.isa.templates.datapath_schedule import PipelineEnd, StagePlace, bind, schedule
from tilewright.isa.timing import format_stages
from tilewright.rtl.datapath import VectorDatapath
from tilewright.rtl.datapath_widths import immediates_bits
from tilewright.rtl.layout import immediate_places

EVERY_WORD = """
extends: tiny8
lanes: 2
array: {rows: 2, cols: 2}
rounding: ROUNDING
memories:
  act: {element: int16}
  acc: {element: int20}
  par: {element: {bias: int12, scale: uint12, shift: uint6}}
engines: {vec: {writes: [act, acc]}}
instructions:
  mma: {do: "c = wrap(sum(dot(a, w)), int20)"}
  mma_transposed: {do: "c = wrap(sum(dot(a, transpose(w))), int20)"}
  sum: null
  add_bias: null
  add_sums: null
  lookup: {from: {t: "256 * lut[]"}, do: "y = lut(t, wrap(a, int8))"}
  shifts:
    engine: vec
    loops: {i: 4}
    from: {a: act, p: par}
    to: {y: act}
    imm: {n: uint4}
    do: y = wrap((a << min(p.shift, 40)) + (a >> n), int16)
  compares:
    engine: vec
    loops: {i: 4}
    from: {a: act, b: acc}
    to: {y: act}
    do: y = (a < b) + 2 * (a <= b) + 4 * (a == b) + 8 * (a != b) + 16 * (a > 5) + 32 * (-3 >= b)
  picks:
    engine: vec
    loops: {i: 4}
    from: {a: act, b: acc, p: par}
    to: {y: acc}
    do: y = sat(where(a < p.bias, abs(a) * 3 - min(b, p.scale), max(a, b) + abs(p.bias)), int20)
  normalize:
    engine: vec
    loops: {i: 4}
    from: {a: acc, b: act}
    to: {y: acc}
    do: y = sat((max(a, 0) << (clz(max(a, 0)) - 45)) + clz(b), int20)
  wide_shift:
    engine: vec
    loops: {i: 4}
    from: {a: acc, p: par}
    to: {y: act}
    do: y = sat(round_shift(a * p.scale * p.bias * 37, p.shift), int16)
  fixed_shift:
    engine: vec
    loops: {i: 4}
    from: {a: acc}
    to: {y: acc}
    do: y = sat(round_shift(a, 5) - round_shift(a, 0) + wrap(a - 7, uint8) + wrap(min(a, 3), int5), int20)
  total:
    engine: vec
    loops: {i: 4, r: 2, s: 3}
    reduce: [r, s]
    from: {a: act, p: par}
    to: {y: "acc[i]"}
    imm: {zero: uint9}
    do: y = sat(round_shift(sum(a - zero), 3) + p.bias, int20)
  lowest:
    engine: vec
    loops: {i: 4, r: 2}
    reduce: [r]
    from: {a: act, b: acc}
    to: {y: "act[i]"}
    do: y = sat(min_over(a - b) * 2, int16)
"""


class Iteration:
    """Random inputs of one iteration of a format, in every lane."""

    def __init__(self, machine: Machine, of: InstructionFormat, immediates: Mapping[str, int], seed: Any) -> None:
        self.words: list[int] = []
        self.first: dict[int, int] = {}  # by position of the source: where a table begins
        self.names: list[dict[str, Any]] = [dict(immediates) for _ in range(machine.lanes)]
        for table in of.tables:
            first = seed.randrange(machine.memories[table.memory].depth - table.block + 1)
            self.first[of.sources.index(table)] = first
            least = next(node.args[0].range.low for node in walk(of.statement.expr) if node.name == table.name)
            for lane in range(machine.lanes):
                self.names[lane][table.name] = partial(element_at, machine, table.memory, lane, first - least)
        for source in of.streams:
            word = 0
            for lane in range(machine.lanes):
                bits, values = random_element(source.element, seed)
                word |= bits << lane * source.element.bits
                for field, value in values.items():
                    self.names[lane][f"{source.name}.{field}" if field else source.name] = value
            self.words.append(word)


def element_at(machine: Machine, memory: str, lane: int, origin: int, index: int) -> int:
    """The element of a lane in word origin + index of a memory of tables: any number, but always the same."""
    of = machine.memories[memory].element.type
    assert of is not None
    return random_integer(of, random.Random(f"{memory} {lane} {origin + index}"))


def looked_up(machine: Machine, memory: str, addresses: int) -> int:
    """What the lanes find at the addresses of `lookup_<memory>_address`."""
    of, word = machine.memories[memory], 0
    for lane in range(machine.lanes):
        address = addresses >> lane * of.address_bits & ((1 << of.address_bits) - 1)
        word |= element_at(machine, memory, lane, 0, address) % (1 << of.element.bits) << lane * of.element.bits
    return word


def pack_immediates(of: InstructionFormat, immediates: Mapping[str, int], formats: Sequence[InstructionFormat]) -> int:
    """An instruction's immediates as the datapath of these formats takes them."""
    places = immediate_places(formats)
    return sum(immediates[name] % (1 << type_.bits) << places[name] for name, type_ in of.immediates.items())


def check_statements(machine: Machine, rounding: str, groups: int) -> None:
    """Send random groups of random formats through the datapath, with bubbles, and compare every result."""
    seed = random.Random(zlib.crc32(machine.name.encode()) + len(rounding))
    formats = machine.formats_of(Template.VECTOR)
    datapath = VectorDatapath(machine, vector_of(machine))
    expected: dict[int, tuple[str, list[int], int]] = {}  # by the cycle in which the result is seen

    async def bench(ctx: Any) -> None:
        cycle = 0
        pending = [seed.choice(formats) for _ in range(groups)]
        while pending or cycle <= max(expected, default=0):
            if pending:
                cycle = await send(ctx, pending.pop(), cycle)
            else:
                cycle = await step(ctx, cycle)

    async def send(ctx: Any, of: InstructionFormat, cycle: int) -> int:
        immediates = {name: random_integer(type_, seed) for name, type_ in of.immediates.items()}
        length = seed.randint(1, 5) if of.reduce_loops else 1
        while cycle + format_stages(of) <= max(expected, default=-1):  # no overtaking
            cycle = await step(ctx, cycle)
        group = [Iteration(machine, of, immediates, seed) for _ in range(length)]
        ctx.set(datapath.format, formats.index(of))
        ctx.set(datapath.immediates, pack_immediates(of, immediates, formats))
        for count, iteration in enumerate(group):
            for i, word in enumerate(iteration.words):
                ctx.set(getattr(datapath, f"source_{i}"), word)
            for i, first in iteration.first.items():
                ctx.set(getattr(datapath, f"first_{i}"), first)
            ctx.set(datapath.is_first, count == 0)
            ctx.set(datapath.valid, 1)
            if count == length - 1:
                stored_bits = of.destination.element.bits
                types = types_of_memories(machine)
                lanes = [[it.names[lane] for it in group] for lane in range(machine.lanes)]
                values = [
                    Evaluator(lane, rounding, lanes, types).store(of.statement.text) % (1 << stored_bits)
                    for lane in lanes
                ]
                text = f"{of.statement.text} at cycle {cycle}"
                expected[cycle + format_stages(of)] = text, values, stored_bits
            cycle = await step(ctx, cycle)
            ctx.set(datapath.valid, 0)
            while seed.random() < 0.2:
                for i in range(len(iteration.words)):
                    ctx.set(getattr(datapath, f"source_{i}"), seed.getrandbits(64))
                for i in iteration.first:
                    ctx.set(getattr(datapath, f"first_{i}"), seed.getrandbits(8))
                ctx.set(datapath.is_first, seed.randint(0, 1))
                cycle = await step(ctx, cycle)
        return cycle

    async def step(ctx: Any, cycle: int) -> int:
        found = {
            name: looked_up(machine, name, ctx.get(getattr(datapath, f"lookup_{name}_address")))
            for name in machine.table_memories
        }
        await ctx.tick()
        for name, word in found.items():
            ctx.set(getattr(datapath, f"lookup_{name}_data"), word)
        if cycle + 1 in expected:
            text, values, stored_bits = expected[cycle + 1]
            word, bits = ctx.get(datapath.result), len(datapath.result) // machine.lanes
            assert [word >> lane * bits & ((1 << stored_bits) - 1) for lane in range(machine.lanes)] == values, text
        return cycle + 1

    simulator = Simulator(datapath)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()


@pytest.mark.parametrize("rounding", ["even", "up", "away"])
@pytest.mark.parametrize("name", ["tiny8", "base16"])
def test_computes_every_statement_of_the_shipped_machines(name: str, rounding: str) -> None:
    lanes = 2  # every lane is alike
    machine = load_machine(name, [f"rounding={rounding}", f"lanes={lanes}", "array.rows=4", "array.cols=4"])
    check_statements(machine, rounding, groups=400)


@pytest.mark.parametrize("rounding", slow_beyond(1, ["even", "up", "away"]))
def test_computes_every_word_of_the_language(rounding: str) -> None:
    machine = load_machine_text(EVERY_WORD.replace("ROUNDING", rounding), f"words-{rounding}")
    check_statements(machine, rounding, groups=600)


@pytest.mark.parametrize("lanes", slow_beyond(4, [1, 2, 3, 5, 8]))
def test_reduces_across_lanes(lanes: int) -> None:
    check_statements(load_machine_text(across_lanes(lanes), f"{lanes} lanes"), "even", groups=300)


def test_an_immediate_has_one_place_in_all_formats_and_no_two_of_a_format_share_one() -> None:
    formats = load_machine("base16").formats_of(Template.VECTOR)
    places = immediate_places(formats)
    for of in formats:
        taken = [places[name] + bit for name, type_ in of.immediates.items() for bit in range(type_.bits)]
        assert len(set(taken)) == len(taken)
    widest = max(sum(type_.bits for type_ in of.immediates.values()) for of in formats)
    assert immediates_bits(formats) == widest  # those of `add`, and all others within them


def test_values_that_need_no_sum_pass_the_adder_where_sums_are() -> None:
    formats = load_machine("tiny8").formats_of(Template.VECTOR)
    passing = {formats[each.format].mnemonic for unit in bind(schedule(formats)) for each in unit.passes}
    assert passing == {"rescale", "mul"}


def test_a_source_that_waits_passes_an_adder_that_takes_it_from_others() -> None:
    formats = load_machine("dw16").formats_of(Template.VECTOR)
    (adder,) = (
        unit for unit in bind(schedule(formats)) if unit.op is Op.ADD and unit.place == StagePlace(PipelineEnd.START, 0)
    )
    assert [(formats[each.format].mnemonic, each.expr.name, each.expr.field) for each in adder.passes] == [
        ("depthwise", "p", "bias")  # which it needs four stages later; `requantize` and `add_bias` at once
    ]


def test_wide_products_share_the_multipliers_where_most_wide_ones_are() -> None:
    products = [unit for unit in bind(schedule(load_machine("dw16").formats_of(Template.VECTOR))) if unit.op is Op.MUL]
    bits = sorted(tuple(unit.argument_range(i).bits for i in (0, 1)) for unit in products)
    assert bits == [(8, 8), (8, 8), (9, 9), (17, 16), (17, 17)]  # three taps, and both halves of what is scaled


def test_no_two_operations_or_passes_of_a_format_share_a_unit() -> None:
    for name in shipped_machines():
        for unit in bind(schedule(load_machine(name).formats_of(Template.VECTOR))):
            served = [each.format for each in unit.operations] + [each.format for each in unit.passes]
            assert len(served) == len(set(served))
            assert all(unit.place in each.places for each in unit.operations)


def test_ports_are_as_wide_as_the_widest_words() -> None:
    machine = load_machine("tiny8")
    datapath = VectorDatapath(machine, vector_of(machine))
    assert len(datapath.source_0) == 8 * 32  # lanes of acc
    assert len(datapath.source_1) == 8 * 64  # lanes of par
    assert len(datapath.result) == 8 * 32  # lanes of acc

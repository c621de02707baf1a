"""The time line, read back by Perfetto's own schema: it shows the run, every instruction once, and its sums."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent

from tests.engines import ENGINES
from tests.generators import random_program
from tilewright.api import compile  # noqa: A004
from tilewright.errors import InputError
from tilewright.host.segments import ProgramRun
from tilewright.isa.files.loader import load_machine
from tilewright.isa.program.program import Layer, dram_bytes
from tilewright.profiles import trace
from tilewright.profiles.trace import trace_bytes
from tilewright.profiles.traffic import live_words, queue_fills, transfer_rates
from tilewright.program import Program


@dataclass
class Slice:
    name: str
    begin: int
    end: int
    fields: dict[str, int | str]
    flows: tuple[int, ...]


@dataclass
class ReadTrace:
    """Slices and counters by the names of their tracks; in `rows`, by each track's number."""

    slices: dict[str, list[Slice]] = field(default_factory=lambda: defaultdict(list))
    rows: dict[int, list[Slice]] = field(default_factory=lambda: defaultdict(list))
    counters: dict[str, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))


def read(content: bytes) -> ReadTrace:
    found, tracks, names, fields = ReadTrace(), {}, {}, {}
    open_slices: dict[int, Slice] = {}
    for packet in Trace.FromString(content).packet:
        if packet.HasField("track_descriptor"):
            tracks[packet.track_descriptor.uuid] = packet.track_descriptor.name
            continue
        names |= {entry.iid: entry.name for entry in packet.interned_data.event_names}
        fields |= {entry.iid: entry.name for entry in packet.interned_data.debug_annotation_names}
        event = packet.track_event
        match event.type:
            case TrackEvent.TYPE_SLICE_BEGIN:
                assert event.track_uuid not in open_slices
                values = {fields[a.name_iid]: a.string_value or a.int_value for a in event.debug_annotations}
                open_slices[event.track_uuid] = Slice(
                    names[event.name_iid], packet.timestamp, -1, values, tuple(event.flow_ids)
                )
            case TrackEvent.TYPE_SLICE_END:
                ended = open_slices.pop(event.track_uuid)
                ended.end = packet.timestamp
                found.slices[tracks[event.track_uuid]].append(ended)
                found.rows[event.track_uuid].append(ended)
            case TrackEvent.TYPE_COUNTER:
                found.counters[tracks[event.track_uuid]].append((packet.timestamp, event.counter_value))
    assert not open_slices
    return found


@pytest.fixture(scope="module")
def program() -> Program:
    return compile("programs/digits/digits_int8.onnx", "base16")


@pytest.fixture(scope="module")
def found(program: Program) -> ReadTrace:
    return read(trace_bytes(program.runs()))


def test_layers_take_the_cycles_of_the_profile(program: Program, found: ReadTrace) -> None:
    assert_layers_are_the_profiles(program, found)


def test_layers_take_turns() -> None:
    binary = random_program(load_machine("tiny8"), np.random.default_rng(3), 24)
    layers = tuple(Layer(name, 0, (), 0) for name in ("even", "odd"))
    serves = tuple(at % 2 for at in range(len(binary.instructions)))
    program = Program(replace(binary, layers=layers, provenance=serves))
    found = read(trace_bytes(program.runs(unchecked=True)))
    assert len(found.slices["layers"]) > 4
    assert_layers_are_the_profiles(program, found)


def assert_layers_are_the_profiles(program: Program, found: ReadTrace) -> None:
    """Each slice begins where the one before it ends, in the order of the file too."""
    shown: Counter[str] = Counter()
    end = 0
    for one in found.slices["layers"]:
        assert one.begin == end
        shown[one.name] += one.end - one.begin
        end = one.end
    assert shown == {layer["name"]: layer["cycles"] for layer in program.profile()["layers"] if layer["cycles"]}
    assert end == program.profile()["cycles"]


def test_every_instruction_is_there_once_with_its_times(program: Program, found: ReadTrace) -> None:
    (run,) = program.runs()
    for engine in ENGINES:
        own = [index for index, one in enumerate(run.program.instructions) if one.engine.name == engine]
        shown = sorted((one.fields.get("number", 0), one.begin, one.end) for one in found.slices[engine])
        expected = [(i, int(run.counters.started[i]), int(run.counters.retired[i])) for i in own]
        assert shown == expected
        names = {one.fields.get("number", 0): one.name for one in found.slices[engine]}
        assert names == {index: run.program.instructions[index].mnemonic for index in own}


def test_slices_of_one_row_do_not_overlap(found: ReadTrace) -> None:
    for slices in found.rows.values():
        ordered = sorted(slices, key=lambda one: one.begin)
        assert all(one.end <= two.begin for one, two in zip(ordered, ordered[1:], strict=False))


def test_arrows_lead_from_an_end_to_the_start_in_that_cycle(program: Program, found: ReadTrace) -> None:
    by_flow = defaultdict(list)
    for slices in (found.slices[engine] for engine in ENGINES):
        for one in slices:
            for flow in one.flows:
                by_flow[flow].append(one)
    assert by_flow
    for pair in by_flow.values():
        first, second = sorted(pair, key=lambda one: one.begin)
        assert first.end == second.begin


def test_transfers_move_the_bytes_of_loads_and_stores(program: Program) -> None:
    (run,) = program.runs()
    samples = transfer_rates(run)
    ends = [*(cycle for cycle, _ in samples[1:]), run.counters.cycles]
    moved = sum(rate * (end - cycle) for (cycle, rate), end in zip(samples, ends, strict=True))
    fetched = len(run.program.text)
    total = run.counters.dram_bytes_read + run.counters.dram_bytes_written - fetched
    assert moved == pytest.approx(total, rel=0.05)  # rates are whole bytes; writes count whole beats
    assert samples[-1][1] == 0


def test_words_in_use_are_those_that_are_read_later() -> None:
    machine = load_machine("tiny8")
    program = Program(random_program(machine, np.random.default_rng(3), 24))
    (run,) = program.runs(unchecked=True)
    samples = live_words(run)
    assert dram_bytes(run.program.limits) and set(samples) == set(machine.memories)
    for name, changes in samples.items():
        assert all(0 <= value <= machine.memories[name].depth for _, value in changes)
        assert not changes or changes[-1][1] == 0
    assert any(value for changes in samples.values() for _, value in changes)


def test_every_queue_is_full_once_and_never_more_than_full() -> None:
    program = compile("programs/digits/digits_int8.onnx", "base16", ["engines.mma.queue=1", "engines.load.queue=3"])
    (run,) = program.runs()
    fills = queue_fills(run)
    depths = {name: engine.queue_depth for name, engine in run.program.machine.engines.items()}
    assert depths == {"load": 3, "mma": 1, "vec": 4, "store": 1}
    assert {name: max(value for _, value in samples) for name, samples in fills.items()} == depths
    assert all(value >= 0 for samples in fills.values() for _, value in samples)
    assert all(samples[-1][1] == 0 for samples in fills.values())


def test_each_instruction_is_in_its_queue_from_dispatch_to_start(program: Program, found: ReadTrace) -> None:
    (run,) = program.runs()
    assert run.counters.dispatched is not None
    assert (np.diff(run.counters.dispatched) > 0).all()  # in program order, at most one a cycle
    for engine in ENGINES:
        own = [index for index, one in enumerate(run.program.instructions) if one.engine.name == engine]
        waiting = run.counters.started[own] - run.counters.dispatched[own]
        assert (waiting > 0).all()
        samples = found.counters[f"queue of {engine}"]
        ends = [*(cycle for cycle, _ in samples[1:]), run.counters.cycles]
        held = sum(value * (end - cycle) for (cycle, value), end in zip(samples, ends, strict=True))
        assert held == waiting.sum()


def test_hardware_that_starts_as_the_model_has_the_models_queues(program: Program) -> None:
    (run,) = program.runs()
    told = replace(run.counters, dispatched=None)
    assert queue_fills(ProgramRun(run.program, told)) == queue_fills(run)
    late = replace(told, started=told.started + 1)
    assert queue_fills(ProgramRun(run.program, late)) == {}


def test_one_layer_has_only_its_own_instructions(program: Program) -> None:
    position = [layer.name for layer in program.layers].index("dense")
    found = read(trace_bytes(program.runs(), position))
    assert [one.name for one in found.slices["layers"]] == ["dense"]
    shown = {one.fields["number"] for engine in ENGINES for one in found.slices[engine]}
    assert shown == {i for i, serves in enumerate(program.binary.provenance) if serves == position}


def test_the_same_run_gives_the_same_bytes(program: Program) -> None:
    assert trace_bytes(program.runs()) == trace_bytes(program.runs())


def test_refuses_a_trace_that_is_too_large(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace, "MOST_INSTRUCTIONS", 10)
    with pytest.raises(InputError, match=r"^\d+ instructions, and a trace holds 10: choose a layer with --layer$"):
        trace_bytes(program.runs())
    assert trace_bytes(program.runs(), 0)

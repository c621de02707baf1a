"""A run as a time line for Perfetto (https://ui.perfetto.dev): one cycle of the machine is one nanosecond there.

Each program of a network is a process with a track for its layers and one for each engine, whose slices are
instructions with their fields. Arrows lead to an instruction from the one that it waited for. Counters show the bytes
that transfers move in each cycle, the words of each memory that hold what is still to be read, and the instructions
in each queue.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING

from tilewright.errors import InputError
from tilewright.host.segments import ProgramRun
from tilewright.isa.assembly.disassembler import format_instruction
from tilewright.isa.program.program import Layer
from tilewright.profiles.one_layer import TimedInstruction, timed_instructions
from tilewright.profiles.traffic import Sample, live_words, queue_fills, transfer_rates
from tilewright.simulator.cycle_owners import cycle_owners
from tilewright.simulator.profile import instructions_of_layers, layers_of

if TYPE_CHECKING:
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TracePacket

MOST_INSTRUCTIONS = 150_000
"""A trace of more would be larger than a browser loads with ease: about 30 MB."""

Fields = Mapping[str, str | int]

SEQUENCE = 1
"""All packets are of one sequence, in which a name is sent once and is a number from then on."""


def trace_bytes(runs: Sequence[ProgramRun], layer: int | None = None) -> bytes:
    """The trace as protobuf, as Perfetto defines it; of one layer, counted over all programs, or of all of them.

    Raises InputError for more than MOST_INSTRUCTIONS instructions.
    """
    instructions = sum(len(run.program.instructions) for run in runs)
    if layer is None and instructions > MOST_INSTRUCTIONS:
        raise InputError(
            f"{instructions:,} instructions, and a trace holds {MOST_INSTRUCTIONS:,}: choose a layer with --layer"
        )
    trace, start = _Trace(), 0
    for number, run in enumerate(runs, 1):
        layers = layers_of(run.program)
        positions = [at for at in range(len(layers)) if layer is None or at == layer]
        if positions:
            _Process(trace, number, run, start, layers, positions).write()
        layer = None if layer is None else layer - len(layers)
        start += run.counters.cycles
    return trace.content()


class _Trace:
    """Packets of one trace, and the names and numbers that are given so far."""

    def __init__(self) -> None:
        from perfetto.trace_builder.proto_builder import TraceProtoBuilder

        self._builder = TraceProtoBuilder()
        self._names: dict[tuple[str, str], int] = {}
        self.track_numbers, self.flow_numbers = count(1), count(1)

    def content(self) -> bytes:
        return bytes(self._builder.serialize())

    def track(self, name: str, parent: int | None) -> int:
        """A new track below another one, or a process."""
        descriptor = self._builder.add_packet().track_descriptor
        descriptor.uuid = next(self.track_numbers)
        if parent is None:
            descriptor.process.pid, descriptor.process.process_name = descriptor.uuid, name
            descriptor.child_ordering = descriptor.EXPLICIT
        else:
            descriptor.name, descriptor.parent_uuid = name, parent
            descriptor.sibling_order_rank = descriptor.uuid
        return int(descriptor.uuid)

    def counter(self, name: str, parent: int, unit: str, samples: Sequence[Sample]) -> None:
        descriptor = self._builder.add_packet().track_descriptor
        descriptor.uuid, descriptor.name, descriptor.parent_uuid = next(self.track_numbers), name, parent
        descriptor.counter.unit_name, descriptor.sibling_order_rank = unit, descriptor.uuid
        for cycle, value in samples:
            event = self._packet(cycle).track_event
            event.type, event.track_uuid, event.counter_value = event.TYPE_COUNTER, descriptor.uuid, value

    def slice(self, track: int, name: str, span: tuple[int, int], fields: Fields, flows: tuple[int, ...] = ()) -> None:
        """A slice from its first cycle to one beyond its last; slices with the same flow have an arrow between them."""
        packet = self._packet(span[0])
        event = packet.track_event
        event.type, event.track_uuid = event.TYPE_SLICE_BEGIN, track
        event.name_iid = self._name(packet, "event_names", name)
        event.flow_ids.extend(flows)
        for key, value in fields.items():
            annotation = event.debug_annotations.add()
            annotation.name_iid = self._name(packet, "debug_annotation_names", key)
            if isinstance(value, int):
                annotation.int_value = value
            else:
                annotation.string_value = value
        end = self._packet(span[1]).track_event
        end.type, end.track_uuid = end.TYPE_SLICE_END, track

    def _packet(self, cycle: int) -> TracePacket:
        packet = self._builder.add_packet()
        packet.timestamp, packet.trusted_packet_sequence_id = cycle, SEQUENCE
        packet.sequence_flags = packet.SEQ_NEEDS_INCREMENTAL_STATE
        if not self._names:
            packet.sequence_flags |= packet.SEQ_INCREMENTAL_STATE_CLEARED
        return packet

    def _name(self, packet: TracePacket, kind: str, name: str) -> int:
        """The number of a name; the packet in which it stands first also says what it is."""
        if (kind, name) not in self._names:
            self._names[kind, name] = len(self._names) + 1
            entry = getattr(packet.interned_data, kind).add()
            entry.iid, entry.name = self._names[kind, name], name
        return self._names[kind, name]


class _Process:
    """The tracks of one program, whose first cycle is the trace's `start`."""

    def __init__(
        self,
        trace: _Trace,
        number: int,
        run: ProgramRun,
        start: int,
        layers: Sequence[Layer],
        positions: Sequence[int],
    ) -> None:
        self._trace, self._run, self._start = trace, run, start
        self._layers, self._positions = layers, positions
        self._of_layer = instructions_of_layers(run.program, layers)
        self._track = trace.track(f"program {number} on {run.program.machine.name}", None)

    def write(self) -> None:
        self._write_layers()
        first, last = self._write_engines()
        counters = [("DRAM transfers", "bytes a cycle", transfer_rates(self._run))]
        counters += [(f"{name}, words in use", "words", samples) for name, samples in live_words(self._run).items()]
        counters += [(f"queue of {name}", "instructions", fill) for name, fill in queue_fills(self._run).items()]
        for name, unit, samples in counters:
            shown = [(self._start + cycle, value) for cycle, value in samples if first <= cycle <= last]
            self._trace.counter(name, self._track, unit, shown)

    def _write_layers(self) -> None:
        track = self._trace.track("layers", self._track)
        owners = cycle_owners(self._run.program, self._of_layer, self._run.counters)
        spans = [(span, self._layers[position]) for position in self._positions for span in owners.of_layer(position)]
        for (begin, end), layer in sorted(spans, key=lambda entry: entry[0]):  # a slice must end before the next begins
            fields: Fields = {"nodes": " ".join(layer.nodes), "multiply-accumulates": layer.macs}
            self._trace.slice(track, layer.name, (self._start + begin, self._start + end), fields)

    def _write_engines(self) -> tuple[int, int]:
        """Slices for the instructions of the layers; the first and the last cycle of any."""
        names = {index: self._layers[at].name for at in self._positions for index in self._of_layer[at]}
        timed = list(timed_instructions(self._run, sorted(names)))
        flows: dict[int, list[int]] = {}
        for one in timed:
            if one.held_by in names:
                number = next(self._trace.flow_numbers)
                flows.setdefault(one.index, []).append(number)
                flows.setdefault(one.held_by, []).append(number)
        for engine in self._run.program.machine.engines:
            own = [one for one in timed if one.instruction.engine.name == engine]
            for track, one in self._in_lanes(engine, own):
                span = (self._start + one.started, self._start + one.retired)
                text = format_instruction(one.instruction)
                fields: Fields = {"layer": names[one.index], "number": one.index, "text": text}
                self._trace.slice(track, one.instruction.mnemonic, span, fields, tuple(flows.get(one.index, ())))
        return min(one.started for one in timed), max(one.retired for one in timed)

    def _in_lanes(self, engine: str, timed: Sequence[TimedInstruction]) -> Iterator[tuple[int, TimedInstruction]]:
        """Each instruction with a track of its engine on which nothing else is in flight at that time."""
        lanes: list[tuple[int, int]] = []  # the track, and when it is free
        for one in timed:
            free = next((at for at, (_, end) in enumerate(lanes) if end <= one.started), len(lanes))
            track = lanes[free][0] if free < len(lanes) else self._trace.track(engine, self._track)
            lanes[free : free + 1] = [(track, one.retired)]
            yield track, one

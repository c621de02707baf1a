"""Networks in parts with right checksums: their description, order of parts and host models changed.

What is accepted and checked then runs on the simulator as on the interpreter.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
import onnx
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError
from hypothesis import strategies
from hypothesis.strategies import DrawFn

import tilewright
from tests.fuzz.harness import Outcome, Target, accepted
from tests.fuzz.orders import require_one_meaning
from tests.fuzz.targets.binaries import VALUES, dram_of, require_same_run
from tests.fuzz.targets.instructions import DOUBLE, LEAVE_OUT, Change, changed_instructions, changes_of
from tests.fuzz.trees import Edit, edited, edits
from tests.mixed_networks import sandwich
from tilewright.errors import USER_ERRORS, InputError
from tilewright.isa.binary import partitioned_elf
from tilewright.isa.binary.partitioned_elf import partitioned_to_bytes
from tilewright.isa.errors import IsaError
from tilewright.isa.program.partitioned import HostSegment, NpuSegment, Partitioned, Segment
from tilewright.isa.program.program import place_regions
from tilewright.simulator.cycles import simulate_cycles

WORDS = ["x", "y", "Relu", "CumSum", "Identity", "Cast", "If", "Loop", "Scan", "ai.onnx.ml", "", "conv1.q"]
WORDS += [str(number) for number in (-1, 0, 1, 2, 3, 4, 5, 7, 16)]


@dataclass(frozen=True)
class ChangedNetwork:
    """A network of three parts: `order` of its parts, changes of its description and of its host model as JSON.

    `instructions` changes the machine's parts, `links` the names of tensors that the host's part reads and makes: the
    (number of a name, number of the tensor whose name it gets).
    """

    order: tuple[int, ...] = (0, 1, 2)
    description: tuple[Edit, ...] = ()
    host: tuple[Edit, ...] = ()
    instructions: tuple[Change, ...] = ()
    links: tuple[tuple[int, int], ...] = ()

    def image(self) -> bytes:
        """The file's bytes. Raises IsaError where the writer refuses, ParseError for what is no ONNX model at all."""
        network = _network()
        segments = tuple(self._segment(network.segments[position]) for position in self.order)
        changed = replace(network, segments=segments)
        tree = edited(json.loads(partitioned_elf.described(changed)), self.description)
        text = json.dumps(tree, sort_keys=True, ensure_ascii=False, indent=1).encode(errors="surrogatepass")
        with patch.object(partitioned_elf, "described", return_value=text):
            return partitioned_to_bytes(changed)

    def _segment(self, segment: Segment) -> Segment:
        if isinstance(segment, NpuSegment):
            program = segment.program
            changed = changed_instructions(program.instructions, self.instructions)
            return replace(segment, program=replace(program, instructions=changed))
        message = ParseDict(edited(_host_tree(), self.host), onnx.ModelProto()) if self.host else None
        content = segment.onnx if message is None else message.SerializeToString()
        ends, known = [*segment.inputs, *segment.outputs], _tensor_names()
        for number, other in self.links:
            ends[number % len(ends)] = known[other % len(known)]
        count = len(segment.inputs)
        return replace(segment, onnx=content, inputs=tuple(ends[:count]), outputs=tuple(ends[count:]))


@cache
def _network() -> Partitioned:
    network = tilewright.compile(sandwich(), "tiny8").network
    assert isinstance(network, Partitioned)
    return network


@cache
def _tensor_names() -> tuple[str, ...]:
    """Of what the parts read and make, and of what the host's part computes in between."""
    network = _network()
    names = [name for segment in network.segments for name in (*segment.inputs, *segment.outputs)]
    names += [name for node in _host_tree()["graph"]["node"] for name in node["output"]]
    return tuple(dict.fromkeys(names))


@cache
def _host_tree() -> Any:
    (host,) = (segment for segment in _network().segments if isinstance(segment, HostSegment))
    return MessageToDict(onnx.ModelProto.FromString(host.onnx))


@strategies.composite
def changed_networks(draw: DrawFn) -> ChangedNetwork:
    orders = [(0, 1, 2)] * 6 + [(), (0,), (1,), (0, 2), (1, 2), (2, 1, 0), (0, 1, 1, 2), (0, 1, 2, 2)]
    programs = strategies.sampled_from(_network().programs)
    change = programs.flatmap(changes_of).filter(lambda change: change[1] not in (LEAVE_OUT, DOUBLE))
    link = strategies.tuples(strategies.integers(0, 7), strategies.integers(0, 15))
    match draw(strategies.sampled_from(["instructions", "links", "file", "file"])):
        case "instructions":
            return ChangedNetwork(instructions=tuple(draw(strategies.lists(change, min_size=1, max_size=2))))
        case "links":
            return ChangedNetwork(links=tuple(draw(strategies.lists(link, min_size=1, max_size=2))))
    order = draw(strategies.sampled_from(orders))
    tree = json.loads(partitioned_elf.described(_network()))
    host_values = strategies.one_of(strategies.sampled_from(WORDS), VALUES.filter(lambda value: value != "\ud800"))
    return ChangedNetwork(
        order,
        draw(edits(tree, ["name", "inputs", "kind", "other"], VALUES, 2)),
        draw(edits(_host_tree(), ["name", "input", "output", "opType", "initializer"], host_values, 3)),
    )


def attempt(changed: ChangedNetwork) -> Outcome:
    try:
        image = changed.image()
        with TemporaryDirectory() as folder:
            path = Path(folder) / "changed.npu"
            path.write_bytes(image)
            program = tilewright.Program.load(path)
    except (IsaError, InputError):
        return Outcome.REFUSED
    except (ParseError, OverflowError):
        return Outcome.REFUSED  # no ONNX model can hold that
    if program.check():
        _run_unchecked(program)
        return Outcome.REFUSED
    try:
        program.require_host()
        program.run(program.zero_inputs(), on="interpreter")
    except InputError:
        return Outcome.REFUSED  # by the host's evaluators
    with accepted("partitioned"):
        require_same_run(program, "partitioned")
        rng = np.random.default_rng(0)
        for part in program.network.programs if isinstance(program.network, Partitioned) else (program.network,):
            require_one_meaning(part, dram_of(part, rng), rng, "partitioned")
    return Outcome.RIGHT


def _run_unchecked(program: tilewright.Program) -> None:
    """Whatever comes of it, it is an error of ours."""
    try:
        program.run(program.zero_inputs(), on="sim", unchecked=True)
    except USER_ERRORS:
        return


@cache
def prepare_networks() -> None:
    """Make the network, and compile the cycle model."""
    for program in _network().programs:
        simulate_cycles(program, place_regions(program.limits))


TARGET = Target("networks in parts", changed_networks(), attempt, prepare=prepare_networks)

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

import onnx
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError
from hypothesis import strategies
from hypothesis.strategies import DrawFn

import tilewright
from tests.fuzz.harness import Outcome, Target, accepted
from tests.fuzz.targets.binaries import VALUES, require_same_run
from tests.fuzz.trees import Edit, edited, edits
from tests.mixed_networks import sandwich
from tilewright.errors import USER_ERRORS, InputError
from tilewright.isa.binary import partitioned_elf
from tilewright.isa.binary.partitioned_elf import partitioned_to_bytes
from tilewright.isa.errors import IsaError
from tilewright.isa.program.partitioned import HostSegment, Partitioned, Segment

WORDS = ["x", "y", "Relu", "CumSum", "Identity", "Cast", "If", "Loop", "Scan", "ai.onnx.ml", "", "conv1.q"]
WORDS += [str(number) for number in (-1, 0, 1, 2, 3, 4, 5, 7, 16)]


@dataclass(frozen=True)
class ChangedNetwork:
    """A network of three parts: `order` of its parts, changes of its description and of its host model as JSON."""

    order: tuple[int, ...] = (0, 1, 2)
    description: tuple[Edit, ...] = ()
    host: tuple[Edit, ...] = ()

    def image(self) -> bytes:
        """The file's bytes. Raises IsaError where the writer refuses, ParseError for what is no ONNX model at all."""
        network = _network()
        segments = tuple(self._segment(network.segments[position]) for position in self.order)
        changed = replace(network, segments=segments)
        tree = edited(json.loads(partitioned_elf._describe(changed)), self.description)
        text = json.dumps(tree, sort_keys=True, ensure_ascii=False, indent=1).encode(errors="surrogatepass")
        with patch.object(partitioned_elf, "_describe", return_value=text):
            return partitioned_to_bytes(changed)

    def _segment(self, segment: Segment) -> Segment:
        if not isinstance(segment, HostSegment) or not self.host:
            return segment
        message = ParseDict(edited(_host_tree(), self.host), onnx.ModelProto())
        return replace(segment, onnx=message.SerializeToString())


@cache
def _network() -> Partitioned:
    network = tilewright.compile(sandwich(), "tiny8").network
    assert isinstance(network, Partitioned)
    return network


@cache
def _host_tree() -> Any:
    (host,) = (segment for segment in _network().segments if isinstance(segment, HostSegment))
    return MessageToDict(onnx.ModelProto.FromString(host.onnx))


@strategies.composite
def changed_networks(draw: DrawFn) -> ChangedNetwork:
    orders = [(0, 1, 2)] * 6 + [(), (0,), (1,), (0, 2), (1, 2), (2, 1, 0), (0, 1, 1, 2), (0, 1, 2, 2)]
    order = draw(strategies.sampled_from(orders))
    tree = json.loads(partitioned_elf._describe(_network()))
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
    return Outcome.RIGHT


def _run_unchecked(program: tilewright.Program) -> None:
    """Whatever comes of it, it is an error of ours."""
    try:
        program.run(program.zero_inputs(), on="sim", unchecked=True)
    except USER_ERRORS:
        return


TARGET = Target("networks in parts", changed_networks(), attempt, prepare=_network)

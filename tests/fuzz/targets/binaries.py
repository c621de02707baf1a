"""Programs as files with right checksums: what the file says of its program changed, or fields of the ELF itself.

What loads is written as the same bytes, and what the checker accepts then runs, on the simulator as on the interpreter.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cache
from typing import Any
from unittest.mock import patch

import numpy as np
from hypothesis import strategies
from hypothesis.strategies import DrawFn, SearchStrategy
from numpy.random import Generator
from numpy.typing import NDArray

import tilewright
from tests.fuzz.executors import MOST_WORK, work
from tests.fuzz.harness import Outcome, Target, WrongAnswer, accepted
from tests.fuzz.orders import require_one_meaning
from tests.fuzz.targets.instructions import DOUBLE, LEAVE_OUT, Change, changed_instructions, changes_of
from tests.fuzz.trees import Edit, edited, edits
from tests.fuzz.valid_programs import prepare_programs, valid_program
from tests.generators import random_dram
from tilewright.isa.binary.description import describe, read_description
from tilewright.isa.binary.elf import from_bytes
from tilewright.isa.binary.elf_writer import DIGEST_BYTES, FILE_DIGEST_OFFSET, HEADER, SECTION, file_digest, to_bytes
from tilewright.isa.errors import IsaError
from tilewright.isa.program.program import Program, place_regions

NETWORKS = ("residual", "gemm")
SIZES = ("workspace_bytes", "input_bytes", "output_bytes")

VALUES: SearchStrategy[Any] = strategies.sampled_from(
    [-1, 0, 1, 2, 3, 4, 8, 16, 100, 4096, -128, 255, 0.5, 1e-30, 1e300, float("nan"), float("inf"), True, None, "", "x"]
    + ["int8", "uint8", "int32", "int4", "float32", "a\0b", "\ud800", [], [1], [0, 1, 2, 3], [1, 2, 3, 4], {}]
)


@dataclass(frozen=True)
class ChangedFile:
    """A network's file: its instructions, places of tensors, description, sizes and layers changed, then its bytes.

    `places` are (number of a tensor, its offset); `fields` are (offset, width, value), where an offset below 0 counts
    from the table of sections.
    """

    network: str
    instructions: tuple[Change, ...] = ()
    places: tuple[tuple[int, int], ...] = ()
    description: tuple[Edit, ...] = ()
    sizes: tuple[tuple[str, int], ...] = ()
    provenance: tuple[tuple[int, int], ...] = ()
    fields: tuple[tuple[int, int, int], ...] = ()

    def image(self) -> bytes:
        """The file's bytes. Raises IsaError where the writer itself refuses."""
        program = replace(valid_program(self.network), **dict(self.sizes))  # type: ignore[arg-type]
        program = replace(program, instructions=changed_instructions(program.instructions, self.instructions))
        provenance = list(program.provenance)
        for position, layer in self.provenance:
            provenance[position % len(provenance)] = layer
        program = replace(program, provenance=tuple(provenance))
        return self._with_fields(self._written(program))

    def _written(self, program: Program) -> bytes:
        """With the changed description and, where it can be read, the symbols that go with it."""
        tree = edited(_description(self.network), self.description)
        for number, offset in self.places:
            tensors = [*_listed(tree, "inputs"), *_listed(tree, "outputs")]
            if tensors and isinstance(tensors[number % len(tensors)], dict):
                tensors[number % len(tensors)]["offset"] = offset
        text = json.dumps(tree, sort_keys=True, ensure_ascii=False, indent=1).encode(errors="surrogatepass")
        try:
            described = read_description(text)
        except IsaError:
            with patch("tilewright.isa.binary.elf_writer.describe", return_value=text):
                return to_bytes(program)
        return to_bytes(
            replace(
                program,
                inputs=described.inputs,
                outputs=described.outputs,
                layers=described.layers,
                metadata=described.metadata,
            )
        )

    def _with_fields(self, image: bytes) -> bytes:
        changed = bytearray(image)
        table = HEADER.unpack_from(image)[6]
        for offset, width, value in self.fields:
            start = table - offset if offset < 0 else offset
            if start + width <= len(changed):
                changed[start : start + width] = value.to_bytes(width, "little")
        end = FILE_DIGEST_OFFSET + DIGEST_BYTES
        changed[FILE_DIGEST_OFFSET:end] = file_digest(bytes(changed), FILE_DIGEST_OFFSET)
        return bytes(changed)


def _listed(tree: Any, key: str) -> list[Any]:
    items = tree.get(key) if isinstance(tree, dict) else None
    return items if isinstance(items, list) else []


@cache
def _description(network: str) -> Any:
    return json.loads(describe(valid_program(network)))


@strategies.composite
def changed_files(draw: DrawFn) -> ChangedFile:
    network = draw(strategies.sampled_from(NETWORKS))
    names = ["name", "shape", "stored", "dtype", "scale", "offset", "other"]
    size = strategies.tuples(strategies.sampled_from(SIZES), strategies.integers(-1, 8192))
    layer = strategies.tuples(strategies.integers(0, 99), strategies.sampled_from([0, 1, 2, 7, 2**31, 2**32 - 1]))
    change = changes_of(valid_program(network)).filter(lambda change: change[1] not in (LEAVE_OUT, DOUBLE))
    place = strategies.tuples(strategies.integers(0, 3), strategies.integers(0, 256).map(lambda words: 8 * words))
    aim = draw(strategies.sampled_from(["instructions", "places", "file"]))
    if aim != "file":
        changes = draw(strategies.lists(change, min_size=1, max_size=2)) if aim == "instructions" else []
        places = draw(strategies.lists(place, min_size=1, max_size=2)) if aim == "places" else []
        sizes = draw(strategies.lists(size, max_size=1))
        return ChangedFile(network, tuple(changes), tuple(places), sizes=tuple(sizes))
    return ChangedFile(
        network,
        (),
        (),
        draw(edits(_description(network), names, VALUES, 3)),
        tuple(draw(strategies.lists(size, max_size=1))),
        tuple(draw(strategies.lists(layer, max_size=1))),
        tuple(draw(strategies.lists(_fields(), max_size=2))) if not draw(strategies.integers(0, 2)) else (),
    )


@strategies.composite
def _fields(draw: DrawFn) -> tuple[int, int, int]:
    """A number in the headers, the table of sections, or anywhere."""
    offsets = [(0, 2048), (-20 * SECTION.size, -1), (0, 1 << 15)]
    places = [strategies.integers(low, high) for low, high in offsets]
    width = draw(strategies.sampled_from([1, 2, 4, 8]))
    values = strategies.sampled_from([0, 1, 2, 8, 64, 4096, 2 ** (8 * width) - 1, 2 ** (8 * width - 1)])
    return draw(strategies.one_of(*places)), width, draw(values) & (2 ** (8 * width) - 1)


def attempt(changed: ChangedFile) -> Outcome:
    try:
        image = changed.image()
        loaded = from_bytes(image, "changed.npu")
    except IsaError:
        return Outcome.REFUSED
    with accepted("binary"):
        if to_bytes(loaded) != image:
            raise WrongAnswer("it is written as another file", "binary: bytes")
        program = tilewright.Program(loaded)
        if program.check():
            return Outcome.REFUSED
        if work(loaded) > MOST_WORK:
            return Outcome.UNJUDGED
        require_same_run(program, "binary")
        rng = np.random.default_rng(0)
        require_one_meaning(loaded, dram_of(loaded, rng), rng, "binary")
        program.profile()
    return Outcome.RIGHT


def dram_of(program: Program, rng: Generator) -> NDArray[np.uint8]:
    """Random bytes in every region but the weights: with these, results are seldom all at their limits."""
    dram, first = random_dram(program, rng), place_regions(program.limits)["weights"]
    dram[first : first + len(program.weights)] = np.frombuffer(program.weights, np.uint8)
    return dram


def require_same_run(program: tilewright.Program, kind: str) -> None:
    """Simulator and interpreter make the same outputs of zeros, and the checker's word holds."""
    inputs = program.zero_inputs()
    simulated, expected = (program.run(inputs, on=executor).outputs for executor in ("sim", "interpreter"))
    for name, values in expected.items():
        if not np.array_equal(simulated[name], values, equal_nan=values.dtype.kind == "f"):
            raise WrongAnswer(f"simulator and interpreter differ in output {name!r}", f"{kind}: values")


TARGET = Target("binaries", changed_files(), attempt, prepare=prepare_programs)

"""Dumps of passes, edited: each is refused, or its program computes what the dump's own interpreter says.

python -m tests.edited_dumps                    # 10,000 edits of six networks
python -m tests.edited_dumps --tries 500 --seed 3 --pass lower

An edit deletes, changes, swaps or repeats an attribute, an operand, an operation, a word inside a string, or tokens of
the text. What a graph says is compared within two steps of the outputs' scales, as requantisations round; all else
exactly.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from traceback import extract_tb
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from tests.compiler.models import conv_model, gemm_model, pool_model, residual_model, small_cnn
from tests.compiler.pipelines import simulated
from tests.edited_programs import edit_program
from tilewright.compiler.emission.placed import OrderedTiles, PlacedTiles
from tilewright.compiler.errors import CompileError
from tilewright.compiler.graph.graph import Graph
from tilewright.compiler.graph.interpreter import run_graph
from tilewright.compiler.nest.interpreter import run_nests
from tilewright.compiler.nest.nest import NestProgram
from tilewright.compiler.options import Options
from tilewright.compiler.pipeline import compile_model, pass_named, pass_names, resume
from tilewright.compiler.rules import BrokenRule
from tilewright.compiler.select.cover import Selection
from tilewright.compiler.text.parser import parse_operation
from tilewright.compiler.text.printer import print_operation
from tilewright.compiler.tile.interpreter import interpret_tiles
from tilewright.compiler.tile.program import TileProgram
from tilewright.host.tensors import dram_image, read_outputs
from tilewright.isa.errors import IsaError
from tilewright.isa.files.loader import load_machine
from tilewright.isa.program.program import Program, place_regions

NETWORKS: Mapping[str, Callable[[], onnx.ModelProto]] = {
    "conv": lambda: conv_model(np.random.default_rng(0)),
    "gemm": lambda: gemm_model(np.random.default_rng(0), 3, 20, 17),
    "pool": lambda: pool_model(np.random.default_rng(0)),
    "average": lambda: pool_model(np.random.default_rng(0), "AveragePool"),
    "residual": lambda: residual_model(np.random.default_rng(0)),
    "cnn": lambda: small_cnn(np.random.default_rng(0)),
}

PASSES = tuple(name for name in pass_names() if name != "emit")

TOKEN = re.compile(r"-?0x[0-9A-Fa-f]+|-?\d+(?:\.\d+)?(?:e-?\d+)?|[%A-Za-z_$][\w.$]*|\S")

LONGEST = 60
"""Characters of a token that is edited: a constant's digits stay."""

TOKENS = 0.2
"""The share of edits that are of tokens."""

STEPS = 2
"""That an output may be away from what a graph says."""

Outputs = Mapping[str, NDArray[Any]]


class Verdict(Enum):
    """What became of an edit. Those that no rule refuses are refused by the grammar, or by a pass or the checker."""

    TEXT = "refused by the grammar"
    RULE = "refused by a rule"
    PASS = "refused by a pass or the checker"
    ESCAPED = "ended by a traceback"
    RIGHT = "accepted and right"
    WRONG = "accepted and wrong"


FAULTS = (Verdict.ESCAPED, Verdict.WRONG)
"""What must become of no edit."""


@dataclass(frozen=True)
class Edit:
    """A change of one text; `text` is the changed one."""

    network: str
    after: str
    what: str
    text: str


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.edited_dumps", description=__doc__.partition("\n")[0])
    parser.add_argument("--tries", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pass", dest="after", choices=PASSES, help="edit the texts of this pass only")
    parser.add_argument("--isa", default="tiny8")
    parser.add_argument("--all", action="store_true", help="print every edit, with what became of it")
    arguments = parser.parse_args()
    counts: Counter[Verdict] = Counter()
    for number in range(arguments.tries):
        edit = edited(random.Random(f"{arguments.seed} {number}"), arguments.isa, arguments.after)
        verdict, why = judge(edit, arguments.isa)
        counts[verdict] += 1
        if verdict in FAULTS or arguments.all:
            print(f"{number} {edit.network} after {edit.after}: {edit.what}: {verdict.value}: {why}", flush=True)
    print(f"seed {arguments.seed}: " + ", ".join(f"{counts[verdict]:,} {verdict.value}" for verdict in Verdict))
    sys.exit(any(counts[verdict] for verdict in FAULTS))


@cache
def texts(network: str, isa: str) -> Mapping[str, str]:
    """The text of every pass's result."""
    found: dict[str, str] = {}
    compile_model(NETWORKS[network](), load_machine(isa), Options(effort=0), found.__setitem__)
    return found


@cache
def spans(network: str, isa: str, after: str) -> list[tuple[int, int]]:
    """Where the tokens are that may be edited."""
    found = [match.span() for match in TOKEN.finditer(texts(network, isa)[after])]
    return [(start, end) for start, end in found if end - start <= LONGEST]


def edited(rng: random.Random, isa: str, only: str | None = None) -> Edit:
    """A random edit: of tokens, which mostly breaks the grammar, or of what they say."""
    network, after = rng.choice(sorted(NETWORKS)), only or rng.choice(PASSES)
    if rng.random() < TOKENS:
        return _edited_tokens(rng, network, after, isa)
    text = texts(network, isa)[after]
    changed, what = edit_program(parse_operation(text), rng)
    return Edit(network, after, what, print_operation(changed) + "\n")


def _edited_tokens(rng: random.Random, network: str, after: str, isa: str) -> Edit:
    text, places = texts(network, isa)[after], spans(network, isa, after)
    first = rng.randrange(len(places))
    count = rng.choice([1, 1, 1, 2, 3])
    start, end = places[first][0], places[min(first + count, len(places)) - 1][1]
    old = text[start:end]
    match rng.choice(["delete", "delete", "number", "number", "swap", "repeat", "other"]):
        case "delete":
            new = ""
        case "repeat":
            new = f"{old} {old}" if old[:1].isalnum() else f"{old}, {old}"
        case "swap":
            other = rng.randrange(len(places))
            new = text[slice(*places[other])]
        case "number":
            numbers = [place for place in places if text[place[0]].isdigit()]
            start, end = rng.choice(numbers)
            old = text[start:end]
            new = str(rng.choice([0, 1, 2, 3, 5, 8, 16, 127, 255]))
        case _:
            near = places[max(0, first - 40) : first + 40]
            new = text[slice(*rng.choice(near))]
    line = text.count("\n", 0, start) + 1
    return Edit(network, after, f"line {line}: {old!r} → {new!r}", text[:start] + new + text[end:])


def judge(edit: Edit, isa: str) -> tuple[Verdict, str]:
    """What became of an edit, and of a wrong one what is wrong."""
    machine, verdict = load_machine(isa), Verdict.TEXT
    try:
        value = pass_named(edit.after).after.read(edit.text, machine)
        verdict = Verdict.PASS
        program = resume(edit.after, edit.text, machine, Options(effort=0))
    except (CompileError, IsaError) as error:
        return (Verdict.RULE if isinstance(error, BrokenRule) else verdict), str(error)
    except Exception as error:  # whatever it is, the user would see its traceback
        last = extract_tb(error.__traceback__)[-1]
        return Verdict.ESCAPED, f"{type(error).__name__}: {error} ({last.filename}:{last.lineno})"[:300]
    inputs = inputs_of(program)
    try:
        wanted = meaning(value, program, inputs)
        found = simulated(program, inputs)
    except Exception as error:  # whatever it is, the program should not have been accepted
        return Verdict.WRONG, f"{type(error).__name__}: {error}"[:200]
    return compare(value, program, wanted, found)


def inputs_of(program: Program) -> dict[str, NDArray[Any]]:
    """Random inputs of a program, as the host gives them."""
    rng = np.random.default_rng(5)
    found = {}
    for tensor in program.inputs:
        if tensor.dtype.startswith("float"):
            found[tensor.name] = rng.normal(size=tensor.shape).astype(tensor.dtype)
        else:
            low, high = np.iinfo(tensor.dtype).min, np.iinfo(tensor.dtype).max
            found[tensor.name] = rng.integers(low, high, tensor.shape, endpoint=True).astype(tensor.dtype)
    return found


def meaning(value: Any, program: Program, inputs: Outputs) -> Outputs:
    """The outputs that the interpreter of a value's level gives."""
    match value:
        case Graph():
            return run_graph(value, inputs)
        case NestProgram():
            return run_nests(value, inputs)
        case Selection():
            return run_nests(value.program, inputs)
        case TileProgram():
            return _of_tiles(value, program, inputs)
        case PlacedTiles() | OrderedTiles():
            return _of_tiles(value.tiles, program, inputs)
        case _:
            raise AssertionError(type(value))


def _of_tiles(tiles: TileProgram, program: Program, inputs: Outputs) -> Outputs:
    """The tile program on the inputs region that the host would make; its outputs region as the host reads it."""
    image, bases = dram_image(program, inputs), place_regions(program.limits)
    first = bases["inputs"]
    outputs = interpret_tiles(tiles, image[first : first + tiles.input_bytes].tobytes())
    image[bases["outputs"] : bases["outputs"] + len(outputs)] = np.frombuffer(outputs, np.uint8)
    return read_outputs(program, image)


def compare(value: Any, program: Program, wanted: Outputs, found: Outputs) -> tuple[Verdict, str]:
    for tensor in program.outputs:
        ours, theirs = (np.asarray(of[tensor.name]).astype(np.float64) for of in (found, wanted))
        if ours.shape != theirs.shape:
            return Verdict.WRONG, f"{tensor.name} has shape {ours.shape}, expected {theirs.shape}"
        step = tensor.scale if tensor.dtype.startswith("float") else 1
        most = STEPS * step * 1.001 if isinstance(value, Graph) else 0
        wrong = int((np.abs(ours - theirs) > most).sum())
        if wrong:
            return Verdict.WRONG, f"{wrong} of {ours.size} values of {tensor.name} differ"
    return Verdict.RIGHT, ""


if __name__ == "__main__":
    main()

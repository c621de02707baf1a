"""The JSON Schema: it is current, accepts what the loader accepts, and refuses what it can know to be wrong."""

from __future__ import annotations

import random
import warnings

import pytest
from jsonschema import Draft7Validator

from tests.isa.mutations import mutated
from tests.rings import long_beyond
from tilewright.isa.errors import IsaError
from tilewright.isa.files.loader import SPECS, load_machine_text, shipped_machines
from tilewright.isa.files.schema import machine_schema, schema_text
from tilewright.isa.files.yaml_tree import parse_yaml

SHIPPED = SPECS / "machine.schema.json"

EDITOR_LINE = f"# yaml-language-server: $schema={SHIPPED.name}"
"""The first line of a machine file that lies beside the schema."""

VALIDATOR = Draft7Validator(machine_schema())


def accepts(text: str) -> bool:
    return VALIDATOR.is_valid(parse_yaml(text, "m.yaml").plain())


def loads(text: str) -> bool:
    try:
        load_machine_text(text, "m.yaml")
    except IsaError:
        return False
    return True


def spec_text(name: str) -> str:
    return (SPECS / f"{name}.yaml").read_text(encoding="utf-8")


def test_is_a_schema() -> None:
    Draft7Validator.check_schema(machine_schema())


def test_the_shipped_schema_is_current(update_golden: bool) -> None:
    if update_golden:
        SHIPPED.write_text(schema_text(), encoding="utf-8")

    assert SHIPPED.read_text(encoding="utf-8") == schema_text()


@pytest.mark.parametrize("name", shipped_machines())
def test_accepts_a_shipped_machine_and_is_named_in_its_first_line(name: str) -> None:
    assert accepts(spec_text(name))
    assert spec_text(name).splitlines()[0] == EDITOR_LINE


@pytest.mark.parametrize(
    "overlay",
    [
        "",
        "name: mine\nabout: What it is.",
        "parameters: {words: 1024 * 4}\nmemories: {act: {kib: null, depth: words}}",
        "parameters: {banks: 2}\nmemories: {act: {banks: banks}}",
        "memories: {act: {kib: 32 + 32}}",
        "memories: {spare: {element: uint8, width: lanes, depth: 256, banks: 1}}",
        "memories: {par: {element: {bias: int32, scale: uint16, shift: uint6, spare: uint2}}}",
        "dram: {bus_bytes: 32, latency_cycles: 1}",
        "dram: {bus_bytes: 2 * 16}",
        "rounding: away\nwait_bits: 32",
        "engines: {vec: {queue: 2, reads: [act, acc, par, lut, wgt]}}",
        "instructions: {copy: null, fill: null}",
        "instructions: {copy: {opcode: 200}}",
        "instructions: {copy: {bits: {a.base: 20, a.i: 21}}}",
        "instructions: {max_pool: {loops: {c: 6}, do: y = min_over(a)}}",
        "instructions: {relu: {engine: vec, loops: {i: 10}, from: {a: act}, to: {y: act}, do: 'y = max(a, 0)'}}",
        "instructions: {shift: {engine: vec, loops: {i: 10}, from: {a: 'act[i]'}, to: {y: ' act [ i ] '}, "
        "imm: {n: uint3}, do: y = a >> n}}",
    ],
)
def test_accepts_an_overlay_that_loads(overlay: str) -> None:
    text = "extends: base16\n" + overlay

    assert loads(text)
    assert accepts(text)


@pytest.mark.parametrize(
    "overlay",
    [
        "colour: red",
        "name: 3",
        "about: [x]",
        "rounding: odd",
        "lanes: 0",
        "lanes: 1000",
        "lanes: '16'",
        "lanes: 1.5",
        "lanes: .nan",
        "lanes: true",
        "lanes: ' '",
        "wait_bits: 33",
        "wait_bits: 3",
        "array: {rows: 16, columns: 16}",
        "array: [16, 16]",
        "parameters: {rows: 3}",
        "parameters: {1st: 3}",
        "parameters: {a: " + "1+" * 200 + "1}",
        "dram: {bus_bytes: 24}",
        "dram: {outstanding_beats: 1}",
        "memories: {act: {kibs: 3}}",
        "memories: {act: {kib: 3, depth: 1024}}",
        "memories: {act: {element: int77}}",
        "memories: {act: {element: int1}}",
        "memories: {act: {element: 8}}",
        "memories: {act: {element: {bias: int99}}}",
        "memories: {dram: {element: int8, width: 1, depth: 8, banks: 1}}",
        "engines: {load: {reads: [act]}}",
        "engines: {store: {writes: []}}",
        "engines: {vec: {reads: [dram]}}",
        "engines: {vec: {reads: [act, act]}}",
        "engines: {vec: {reads: act}}",
        "engines: {vec: {queue: 65}}",
        "instructions: {copy: {opcode: 256}}",
        "instructions: {copy: {loops: {i: 25}}}",
        "instructions: {copy: {loops: [i, j]}}",
        "instructions: {copy: {from: {a: ''}}}",
        "instructions: {copy: {from: {a: 'act(i)'}}}",
        "instructions: {copy: {from: {a: 'act[i][j]'}}}",
        "instructions: {copy: {imm: {n: uint0}}}",
        "instructions: {copy: {flags: [fast]}}",
        "instructions: {copy: {bits: {base: 20}}}",
        "instructions: {copy: {do: a}}",
        "instructions: {copy: {do: y == a}}",
        "instructions: {copy: {do: 3}}",
        "instructions: {copy: {doo: y = a}}",
    ],
)
def test_refuses_an_overlay_that_the_loader_refuses(overlay: str) -> None:
    text = "extends: base16\n" + overlay

    assert not loads(text)
    assert not accepts(text)


@pytest.mark.parametrize("overlay", ["engines: {tpu: {queue: 1}}", "instructions: {copy: {engine: tpu}}"])
def test_leaves_to_the_loader_which_engines_the_file_below_has(overlay: str) -> None:
    text = "extends: base16\n" + overlay

    assert not loads(text)
    assert accepts(text)


@pytest.mark.parametrize(
    ("line", "instead"),
    [
        ("lanes: 16\n", ""),
        ("rounding: even", "rounding:"),
        ("width: cols,", ""),
        ("kib: 16, banks: 2}", "banks: 2}"),
        ("kib: 16, banks: 2}", "kib: 16, depth: 16, banks: 2}"),
        ("queue: 2, reads: [act, wgt]", "reads: [act, wgt]"),
        ("    do: y = value\n", ""),
        ("    to:    {d: dram}\n", "    to:    {d: dram, e: dram}\n"),
        ("    to:    {d: dram}\n", "    to:    {}\n"),
        ("bus_bytes: 16, ", ""),
    ],
)
def test_a_machine_without_extends_needs_every_key(line: str, instead: str) -> None:
    text = spec_text("base16")
    assert line in text
    faulty = text.replace(line, instead, 1)

    assert not loads(faulty)
    assert not accepts(faulty)


@pytest.mark.parametrize("mutations", long_beyond(1, [100, 250]))
def test_accepts_every_mutation_that_loads(mutations: int) -> None:
    seed, text, loaded = 7_301, spec_text("base16"), 0
    print(f"seed {seed}")
    for number in range(mutations):
        mutation = mutated(text, random.Random(seed + number))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            if loads(mutation):
                loaded += 1
                assert accepts(mutation), f"seed {seed + number}"
    assert loaded > mutations // 25

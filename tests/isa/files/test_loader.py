"""Machine files: what is refused, with the whole message; the canonical text loads as the same machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.isa.errors import IsaError
from tilewright.isa.files.loader import load_machine, load_machine_text, shipped_machines
from tilewright.isa.files.machine_file import MachineFileError


def complaints(text: str) -> list[str]:
    """What the loader says of an overlay of base16."""
    with pytest.raises(MachineFileError) as caught:
        load_machine_text("extends: base16\n" + text, "m.yaml")
    return list(caught.value.complaints)


@pytest.mark.parametrize("name", shipped_machines())
def test_loads_its_own_canonical_text(name: str) -> None:
    machine = load_machine(name)

    again = load_machine_text(machine.text, "elsewhere")

    assert again == machine
    assert again.hash == machine.hash


def test_the_same_text_is_the_same_machine() -> None:
    """So what was found for a machine, such as the covers of its nests, is found again when it is loaded again."""
    assert load_machine("tiny8") is load_machine("tiny8")
    assert load_machine("tiny8", ["lanes=4"]) is not load_machine("tiny8")


def test_ships_the_three_machines_of_different_shapes() -> None:
    machines = {name: load_machine(name) for name in ("base16", "tiny8", "rect")}
    sizes = {name: (m.array.rows, m.array.cols, m.lanes) for name, m in machines.items()}

    assert sizes == {"base16": (16, 16, 16), "tiny8": (8, 8, 8), "rect": (16, 32, 16)}


def test_an_override_changes_only_what_it_names() -> None:
    machine = load_machine("base16", ["memories.act.kib=128"])

    assert machine.memories["act"].depth == 128 * 1024 // 16
    assert machine.memories["wgt"] == load_machine("base16").memories["wgt"]
    assert machine.hash != load_machine("base16").hash


def test_an_override_of_null_removes_an_instruction() -> None:
    assert "max_pool" not in load_machine("base16", ["instructions.max_pool=null"]).formats


def test_an_override_of_an_unknown_path_says_which_exist() -> None:
    with pytest.raises(IsaError) as caught:
        load_machine("base16", ["memories.act.kibb=1"])

    assert str(caught.value) == (
        "--set memories.act.kibb=1: memories.act has no 'kibb' (did you mean 'kib'?); it has: "
        "memories.act.element, memories.act.width, memories.act.kib, memories.act.banks"
    )


def test_removing_an_instruction_keeps_no_gap_that_matters(tmp_path: Path) -> None:
    overlay = tmp_path / "mine.yaml"
    overlay.write_text("extends: base16\ninstructions: {copy: null}\n")

    machine = load_machine(overlay)

    assert machine.name == "mine"
    assert len({f.opcode for f in machine.formats.values()}) == len(machine.formats)


def test_parameters_reach_sizes(tmp_path: Path) -> None:
    machine = load_machine_text(
        "extends: base16\nparameters: {act_kib: 64, words: act_kib * 1024 // 16}\n"
        "memories: {act: {kib: null, depth: words}}\n",
        "m.yaml",
    )

    assert machine.memories["act"].depth == 4096


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "colour: red\n",
            "m.yaml:2:9: unknown key 'colour'; expected name, about, parameters, rounding, array, lanes, wait_bits, "
            "dram, fetch_beats, counters, pipeline, clock_gating, memories, engines, instructions, copies",
        ),
        (
            "memories:\n  act: {kibs: 3}\n",
            "m.yaml:3:15: memories.act: unknown key 'kibs' (did you mean 'kib'?); "
            "expected element, width, depth, kib, banks, ports, interleave",
        ),
        (
            "instructions:\n  copy: {from: {a: atc}}\n",
            "m.yaml:3:20: instructions.copy.from.a: unknown memory 'atc' (did you mean 'act'?); "
            "expected dram, act, wgt, acc, par, lut",
        ),
        (
            "instructions:\n  copy: {do: y = aa}\n",
            "m.yaml:3:14: instructions.copy.do: unknown name 'aa' (did you mean 'a'?); the statement can use: a",
        ),
        (
            "instructions:\n  copy: {opcode: 9}\n  fill: {opcode: 9}\n",
            "m.yaml:4:18: instructions.fill.opcode: opcode 9 is already that of copy; choose another or leave it out",
        ),
        (
            "instructions:\n  copy: {do: y = a + a}\n",
            "m.yaml:3:14: instructions.copy.do: the value is in [-256, 254] and does not fit y, which is int8 "
            "[-128, 127]; say sat(…, int8) or wrap(…, int8)",
        ),
        (
            "instructions:\n  copy: {bits: {a.base: 8}}\n",
            "m.yaml:3:25: instructions.copy.bits.a.base: 8 bits are too narrow for act; expected at least 14, "
            "or leave it out",
        ),
        (
            "instructions:\n  copy: {do: 'y = dot(a, a)'}\n",
            "m.yaml:3:14: instructions.copy.do: the value is in [-260096, 262144] and does not fit y, which is int8 "
            "[-128, 127]; say sat(…, int8) or wrap(…, int8)",
        ),
        (
            "instructions:\n  copy: {do: 'y = sat(dot(a, a), int8)'}\n",
            "m.yaml:3:14: instructions.copy: a vector engine multiplies as `y = wrap(sum(dot(a, w)), int8)`, or "
            "`y = wrap(b + sum(dot(a, w)), int8)`; say in an instruction of its own what becomes of the sums",
        ),
        (
            "instructions:\n  load_act: {do: y = d + 1}\n",
            "m.yaml:3:18: instructions.load_act.do: a dma engine only moves: expected `y = d`, not `y = d + 1`",
        ),
        (
            "instructions:\n  copy: {from: {a: wgt}}\n",
            "m.yaml:3:20: instructions.copy.from.a: the vec engine does not read wgt; it reads act, acc, par, lut: "
            "add it to engines.vec.reads",
        ),
        (
            "memories: {act: {element: int77}}\n",
            "m.yaml:2:27: memories.act.element: unknown type 'int77': expected int2 … int63, uint1 … uint63, "
            "e4m3 or e2m1",
        ),
        (
            "memories: {wgt: {element: e5m2}}\n",
            "m.yaml:2:27: memories.wgt.element: machines have no e5m2: a product of two takes 65 bits, and values of "
            "statements have 63; expected e4m3 or e2m1. Take e4m3: times a power of two it has every number of e5m2 "
            "from its greatest down to 1 / 57,344 of that",
        ),
        (
            "instructions:\n  copy: {from: {a: act as int4}}\n",
            "base16.yaml:100:9: instructions.copy: a is read `as int4`; only the weights of an array may be",
        ),
        (
            "instructions:\n  mma: {from: {w: 'rows * wgt[n, r, s, k] as int2'}}\n",
            "base16.yaml:56:9: instructions.mma: operand c is 1 words of 16 elements; the array moves 4 * cols = 64 "
            "elements a cycle: say `4 * cols // 16 * acc[…]`",
        ),
        (
            "instructions:\n  mma: {from: {w: 'rows * wgt[n, r, s, k] as int77'}}\n",
            "m.yaml:3:19: instructions.mma.from.w: unknown type 'int77': expected int2 … int63, uint1 … uint63, "
            "e4m3 or e2m1, or a memory of such: act, wgt, acc, lut",
        ),
        (
            "memories: {wgt: {element: int4, width: 5}}\n",
            "m.yaml:2:40: memories.wgt: a word of 5 int4 is not whole bytes; give it a multiple of 2",
        ),
        (
            "parameters: {a: b, b: 1}\n",
            "m.yaml:2:17: parameters.a: uses 'b', which stands below it; a parameter may use those above it",
        ),
        (
            "parameters: {a: 1 // 0}\n",
            "m.yaml:2:17: parameters.a: `1 // 0` divides by zero",
        ),
        (
            "lanes: '16'\n",
            "m.yaml:2:8: lanes: expected an integer, not the string '16'; leave the quotes out",
        ),
        (
            "lanes: .nan\n",
            "m.yaml:2:8: lanes: expected an integer, not nan",
        ),
        (
            "instructions:\n  copy: {from: {a: act, b: act}}\n",
            "m.yaml:3:28: instructions.copy.from.b: is declared and the statement does not use it; "
            "use it or leave it out",
        ),
    ],
)
def test_refuses_with_place_and_remedy(text: str, expected: str) -> None:
    assert expected in complaints(text)


def test_reports_every_fault_of_a_file_at_once() -> None:
    found = complaints(
        "rounding: odd\nwait_bits: 99\nmemories: {act: {banks: 0}}\ninstructions: {mma: {engine: tpu}}\n"
    )

    assert [c.partition(": ")[2].partition(":")[0] for c in found] == [
        "rounding",
        "wait_bits",
        "memories.act.banks",
        "instructions.mma.engine",
    ]


def test_refuses_a_syntax_error_with_its_place() -> None:
    with pytest.raises(IsaError, match=r"^m\.yaml:2:2: not YAML: expected"):
        load_machine_text("a: [1\nb: 2\n", "m.yaml")


def test_refuses_an_alias_explosion() -> None:
    levels = "\n".join(f"l{i}: &l{i} [{', '.join([f'*l{i - 1}'] * 9)}]" for i in range(1, 9))

    with pytest.raises(IsaError, match="more than 20000 values once aliases are followed"):
        load_machine_text("l0: &l0 [1]\n" + levels, "m.yaml")


def test_refuses_a_file_that_extends_itself(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("extends: b.yaml\n")
    (tmp_path / "b.yaml").write_text("extends: a.yaml\n")

    with pytest.raises(IsaError, match="extends itself, by way of a.yaml → b.yaml"):
        load_machine(tmp_path / "a.yaml")


def test_refuses_an_unknown_machine_and_lists_the_shipped() -> None:
    with pytest.raises(IsaError) as caught:
        load_machine("bas16")

    assert str(caught.value).startswith("no machine 'bas16' (did you mean 'base16'?); there are ")


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("instructions.mma.do=c = sum(dot(a, w))", "say sat(…, int32) or wrap(…, int32)"),
        ("instructions.mma.reduce=[r, s, k, x]", "the array cannot reduce over x"),
        ("instructions.mma.from.a=act[r, s, k, y, x]", None),  # base16: rows // lanes = 1, so nothing changes
        ("instructions.mma.from.w=2 * wgt[n, r, s, k]", "operand w must be rows = 16 words of cols = 16 elements"),
        ("instructions.mma_transposed.do=c = wrap(sum(dot(a, transpose(a))), int32)", "does not use it"),
        ("instructions.mma.do=c = wrap(sum(dot(w, transpose(a))), int32)", "operand a must be rows = 16 words of"),
        ("instructions.mma.do=c = wrap(sum(dot(a, transpose(w))), int32)", None),
        ("instructions.max_pool.reduce=[r]", "reduces over its innermost loops; expected reduce: [s]"),
        ("instructions.max_pool.to.y=act", "strides over the reduce loop r"),
    ],
)
def test_holds_instructions_to_their_engine_template(override: str, expected: str | None) -> None:
    if expected is None:
        load_machine("base16", [override])
        return
    with pytest.raises(MachineFileError) as caught:
        load_machine("base16", [override])

    assert expected in str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "instructions:\n  lookup: {do: 'y = lut(t, wrap(a, int7))'}\n",
            "m.yaml:3:16: instructions.lookup.do: lut: `wrap(a, int7)` is in [-64, 63], which is 128 values, and t is "
            "a block of 256 words; expected a word for each value",
        ),
        (
            "instructions:\n  lookup: {from: {a: null, t: null, u: '256 * lut[]', b: act}, do: 'y = lut(u, b)'}\n",
            "m.yaml:3:68: instructions.lookup: in `from:`, tables (u) come after the other sources",
        ),
        (
            "instructions:\n  lookup: {do: 'y = min(lut(t, a), lut(t, wrap(a - 1, int8)))'}\n",
            "m.yaml:3:16: instructions.lookup: 2 lookups in lut, which gives each lane one element a cycle; put each "
            "table into a memory of its own",
        ),
        ("memories: {lut: {banks: 2}}\n", "instructions.lookup: lut has 2 banks; a memory of tables has 1"),
        (
            "instructions:\n  copy: {from: {a: lut}}\n",
            "m.yaml:3:9: instructions.copy: reads lut as a, but it is a memory of tables: lookup looks up in it, and "
            "nothing else can read it",
        ),
        (
            "instructions:\n"
            "  later: {engine: vec, loops: {i: 4}, from: {a: act, t: '256 * lut[]'}, to: {y: act}, "
            "do: 'y = lut(t, max(a, a))'}\n",
            "m.yaml:3:10: instructions.later: looks up in lut at stage 1, lookup at stage 0; lut gives each lane one "
            "element a cycle: put one of the tables into a memory of its own",
        ),
        (
            "instructions:\n  lookup: {from: {t: '2048 * lut[]'}}\n",
            "m.yaml:3:22: instructions.lookup.from.t: a block of 2048 words; expected 1 to 1024, the words of a "
            "bank of lut",
        ),
        (
            "instructions:\n  copy: {from: {a: '2 * act'}}\n",
            "instructions.copy: operand a is a block of 2 words; a vector engine takes one an iteration, or looks up "
            "in it: lut(a, …)",
        ),
    ],
)
def test_holds_tables_to_what_their_memory_gives(text: str, expected: str) -> None:
    assert expected in "\n".join(complaints(text))


def test_an_operand_with_empty_brackets_strides_over_no_loop() -> None:
    machine = load_machine("base16", ["instructions.requantize.from.p=par[ ]"])

    assert machine.format("requantize").operand("p").loops == ()
    assert [f.name for f in machine.format("requantize").fields if f.name.startswith("p.")] == ["p.base"]


def test_a_transposed_tile_needs_a_square_array() -> None:
    rows = "instructions:\n  mma: {do: 'c = wrap(sum(dot(a, transpose(w))), int32)'}\n"

    assert complaints(f"array: {{cols: 32}}\n{rows}") == [
        "m.yaml:4:13: instructions.mma: transpose(w) needs rows = cols, and the array has rows = 16, cols = 32; say "
        "`if: rows == cols` to have the instruction on square arrays only"
    ]


@pytest.mark.parametrize(
    ("condition", "is_there"),
    [("rows == cols", True), ("rows != cols", False), ("1", True), ("0", False), ("depth // 2 >= lanes * 4", True)],
)
def test_a_machine_has_the_instructions_whose_condition_holds(condition: str, is_there: bool) -> None:
    text = f"extends: base16\nparameters: {{depth: 128}}\ninstructions: {{copy: {{if: {condition}}}}}\n"

    assert ("copy" in load_machine_text(text, "m.yaml").formats) == is_there


def test_an_instruction_that_a_machine_does_not_have_takes_no_opcode() -> None:
    without = load_machine_text("extends: base16\ninstructions: {mma: {if: 0}}\n", "m.yaml")

    assert without.format("requantize").opcode == load_machine("base16").format("mma").opcode


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("rows", "16 is out of range; expected 0 to 1"),
        ("rows == colls", "unknown parameter 'colls' (did you mean 'cols'?); there are: rows, cols, lanes"),
        ("rows == cols == lanes",
         "`rows == cols == lanes` is not an integer expression (+ - * // % min max and comparisons)"),
        ("[rows]", "expected an integer, not a list"),
    ],
)  # fmt: skip
def test_refuses_what_is_no_condition(condition: str, expected: str) -> None:
    assert complaints(f"instructions: {{copy: {{if: {condition}}}}}\n") == [
        f"m.yaml:2:27: instructions.copy.if: {expected}"
    ]

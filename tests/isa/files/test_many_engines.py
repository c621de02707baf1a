"""Any number of engines in a machine file: instructions of several engines, own sizes, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.isa.errors import IsaError
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.engine import Template
from tilewright.isa.machine.machine import Machine

TWO_VECTORS = """
engines:
  vec2: {template: vector, queue: 4, results: 4, reads: [act, acc, par], writes: [act, acc]}
instructions:
  requantize: {engine: [vec, vec2]}
  fill: {engine: [vec2, vec], opcode: 60}
"""

SECOND_ARRAY = """
memories:
  wgt2: {element: int8, width: 32, kib: 16, banks: 2}
  acc2: {element: int32, width: lanes, kib: 16, banks: 2}
engines:
  mma2: {template: systolic, queue: 2, rows: 16, cols: 32, reads: [act, wgt2], writes: [acc2]}
instructions:
  mma2:
    engine: mma2
    loops:  {n: 6, r: 4, s: 4, k: 8, y: 10, x: 10}
    reduce: [r, s, k]
    from: {a: "rows // lanes * act[r, s, k, y, x]", w: "rows * wgt2[n, r, s, k]"}
    to:   {c: "cols // lanes * acc2[n, y, x]"}
    flags: [accumulate]
    do: c = wrap(sum(dot(a, w)), int32)
"""


def machine_with(tmp_path: Path, overlay: str) -> Machine:
    file = tmp_path / "m.yaml"
    file.write_text("extends: base16\n" + overlay)
    return load_machine(file)


def complaints(tmp_path: Path, overlay: str) -> list[str]:
    with pytest.raises(IsaError) as error:
        machine_with(tmp_path, overlay)
    return [line.partition(": ")[2] for line in str(error.value).splitlines()]


def test_an_instruction_of_several_engines_is_one_for_each(tmp_path: Path) -> None:
    machine = machine_with(tmp_path, TWO_VECTORS)

    assert [(of.mnemonic, of.engine.name) for of in machine.alike["requantize"]] == [
        ("requantize", "vec"),
        ("requantize_vec2", "vec2"),
    ]
    assert machine.format("fill").engine.name == "vec2"
    assert machine.format("fill").opcode == 60
    assert machine.format("fill_vec").opcode != 60
    assert machine.format("fill_vec") not in machine.distinct_formats


def test_an_instruction_written_twice_is_as_one_of_two_engines(tmp_path: Path) -> None:
    machine = machine_with(
        tmp_path,
        TWO_VECTORS
        + """  copy2:
    engine: vec2
    loops: {i: 10, j: 10, k: 10}
    from: {a: act}
    to: {y: act}
    do: y = a
""",
    )

    assert [of.mnemonic for of in machine.alike["copy"]] == ["copy", "copy2"]


def test_an_array_has_its_own_sizes(tmp_path: Path) -> None:
    machine = machine_with(tmp_path, SECOND_ARRAY)

    assert machine.arrays_text == "arrays of 16×16 and 16×32"
    assert machine.products_a_cycle == 16 * 16 + 16 * 32
    assert machine.format("mma2").destination.block == 2
    assert machine.format("mma").destination.block == 1


def test_a_machine_needs_no_array(tmp_path: Path) -> None:
    none = {name: "null" for name in ("mma", "mma_transposed", "load_wgt")}
    machine = machine_with(
        tmp_path,
        "array: null\nmemories: {wgt: null}\nengines: {mma: null, load: {writes: [act, acc, par, lut]}}\n"
        f"instructions: {{{', '.join(f'{name}: {null}' for name, null in none.items())}}}\n",
    )

    assert machine.of(Template.SYSTOLIC) == ()
    assert (machine.arrays_text, machine.products_a_cycle) == ("no array", 0)


@pytest.mark.parametrize(
    ("overlay", "complaint"),
    [
        (
            "engines: {mma2: {template: systolic, queue: 1, reads: [act, wgt], writes: [acc]}}\n"
            "instructions: {mma: {engine: [mma, mma2]}}",
            "instructions.mma: mma and mma2 both have sums or weights in acc, which they read without asking; "
            "give mma2 a memory of its own",
        ),
        (
            "engines: {vec2: {template: vector, queue: 1, reads: [act, lut], writes: [act]}}\n"
            "instructions: {lookup: {engine: [vec, vec2]}}",
            "instructions.lookup: vec and vec2 both have tables in lut, which they read without asking; "
            "give vec2 a memory of its own",
        ),
        (
            "instructions: {copy: {engine: [vec, vce]}}",
            "instructions.copy.engine: unknown 'vce' (did you mean 'vec'?); expected load, mma, vec, store",
        ),
        ("instructions: {copy: {engine: [vec, vec]}}", "instructions.copy.engine: 'vec' is listed twice"),
        ("instructions: {copy: {engine: []}}", "instructions.copy.engine: expected at least one engine"),
        (
            "engines: {vec2: {template: vector, queue: 1, reads: [act], writes: [act]}}\n"
            "instructions: {requantize: {engine: [vec, vec2]}}",
            "instructions.requantize.from.a: the vec2 engine does not read acc; it reads act: "
            "add it to engines.vec2.reads",
        ),
        (
            "engines: {vec2: {template: vector, queue: 1, reads: [act], writes: [act]}}\n"
            "instructions: {copy: {engine: [vec, vec2]}, "
            "copy_vec2: {engine: vec, loops: {i: 4}, from: {a: act}, to: {y: act}, do: y = a}}",
            "instructions.copy: on vec2 it is called copy_vec2, as another instruction is; rename that",
        ),
        ("array: null", "engines.mma: says no rows and cols, and the machine has no `array` that says it"),
        ("engines: {mma: {rows: 24, cols: 20}}", "engines.mma.rows: 24 is not a multiple of lanes = 16"),
        (
            "engines: {" + ", ".join(
                f"v{n}: {{template: vector, queue: 1, reads: [act], writes: [act]}}" for n in range(29)
            ) + "}",
            "engines: has 33 engines; expected at most 32, each with a wait count in every word",
        ),
    ],
)  # fmt: skip
def test_refuses(tmp_path: Path, overlay: str, complaint: str) -> None:
    assert complaint in complaints(tmp_path, overlay)

"""Engines that are copies of another one in a machine file: what comes into being, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.twins import arrays
from tilewright.isa.errors import IsaError
from tilewright.isa.files.loader import load_machine, load_machine_text

COPY = "extends: base16\ncopies: {mma2: {of: mma, memories: {wgt: wgt2, acc: acc2}}}\n"

WRITTEN_OUT = """
extends: base16
memories:
  wgt2: {element: int8, width: cols, kib: 128, banks: 2}
  acc2: {element: int32, width: lanes, kib: 128, banks: 2}
engines:
  load: {writes: [act, wgt, wgt2, acc, acc2, par, lut]}
  vec: {reads: [act, acc, acc2, par, lut], writes: [act, acc, acc2]}
  store: {reads: [act, acc, acc2]}
  mma2: {template: systolic, queue: 2, reads: [act, wgt2], writes: [acc2]}
instructions:
  load_wgt_mma2:
    about: Read rows of weight tiles.
    engine: load
    loops: {i: 10, j: 10, k: 12}
    from: {d: dram}
    to: {y: wgt2}
    do: y = d
  mma_mma2:
    about: Matrix product and convolution on the array, one activation vector a cycle.
    engine: mma2
    loops: {n: 6, r: 4, s: 4, k: 8, y: 10, x: 10}
    reduce: [r, s, k]
    from: {a: "rows // lanes * act[r, s, k, y, x]", w: "rows * wgt2[n, r, s, k]"}
    to: {c: "cols // lanes * acc2[n, y, x]"}
    flags: [accumulate]
    do: c = wrap(sum(dot(a, w)), int32)
  requantize_mma2:
    about: Accumulators to activations, with a scale for each channel; low and high make it relu and clip as well.
    engine: vec
    loops: {i: 10, j: 10, k: 10}
    from: {a: acc2, p: par}
    to: {y: act}
    imm: {zero: int8, low: int8, high: int8}
    do: y = clamp(round_shift((a + p.bias) * p.scale, p.shift) + zero, low, high)
"""


def test_a_copy_is_what_could_be_written_out() -> None:
    machine, written_out = load_machine_text(COPY, "m.yaml"), load_machine_text(WRITTEN_OUT, "m.yaml")

    assert machine.memories["wgt2"] == written_out.memories["wgt2"]
    assert machine.memories["acc2"] == written_out.memories["acc2"]
    assert machine.engines == written_out.engines
    for mnemonic in ("load_wgt_mma2", "mma_mma2", "requantize_mma2"):
        one, other = machine.format(mnemonic), written_out.format(mnemonic)
        fields = [replace(field, low_bit=0) for field in one.fields[1:]]
        assert (one.meaning, one.engine, one.about) == (other.meaning, other.engine, other.about)
        assert fields == [replace(field, low_bit=0) for field in other.fields[1:]]


def test_instructions_that_name_nothing_of_the_copy_are_there_once_and_opcodes_stay() -> None:
    machine, base = load_machine_text(COPY, "m.yaml"), load_machine("base16")

    assert [name for name in machine.formats if name not in base.formats] == [
        "load_wgt_mma2", "load_acc_mma2", "store_acc_mma2", "mma_mma2", "requantize_mma2", "sum_mma2", "add_bias_mma2",
        "mma_transposed_mma2", "add_sums_mma2",
    ]  # fmt: skip
    assert {name: machine.format(name).opcode for name in base.formats} == {
        name: format.opcode for name, format in base.formats.items()
    }


def test_a_change_of_the_engine_or_of_a_memory_is_one_of_its_copies_too() -> None:
    machine = load_machine_text(COPY + "memories: {wgt: {kib: 64}}\nengines: {mma: {queue: 3}}\n", "m.yaml")

    assert machine.memories["wgt2"].depth == 64 * 1024 // 16
    assert machine.engines["mma2"].queue_depth == 3


def test_the_text_of_a_machine_with_copies_gives_it_again() -> None:
    machine = arrays(3)

    assert load_machine_text(machine.text, "again.yaml") == machine


@pytest.mark.parametrize(
    ("copy", "complaint"),
    [
        (
            "mma2: {of: mmaa, memories: {wgt: wgt2}}",
            "copies.mma2.of: unknown engine 'mmaa' (did you mean 'mma'?); expected load, mma, vec, store",
        ),
        (
            "vec: {of: mma, memories: {wgt: wgt2, acc: acc2}}",
            "copies.vec: there is an engine vec already; give the copy another name",
        ),
        (
            "mma2: {of: mma, memories: {wgt: par, acc: acc2}}",
            "copies.mma2.memories: there is a memory par already; expected a new name",
        ),
        (
            "mma2: {of: mma, memories: {wgt: new, acc: new}}",
            "copies.mma2.memories: there is a memory new already; expected a new name",
        ),
        (
            "mma2: {of: mma, memories: {par: par2}}",
            "copies.mma2.memories: mma does not reach par; expected some of act, wgt, acc",
        ),
        (
            "mma2: {of: mma, memories: {}}",
            "copies.mma2.memories: expected the memories of its own; an engine that shares all of them is listed "
            "beside mma",
        ),
        ("mma2: {of: mma}", "copies.mma2: the key 'memories' is missing"),
    ],
)
def test_says_what_cannot_be_copied(copy: str, complaint: str) -> None:
    with pytest.raises(IsaError) as error:
        load_machine_text(f"extends: base16\ncopies: {{{copy}}}\n", "m.yaml")

    assert [line.partition(": ")[2] for line in str(error.value).splitlines()] == [complaint]

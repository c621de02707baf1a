"""The checker finds what is wrong, all of it and nothing else: by example, and against brute force."""

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.fuzz.limits import limits
from tests.isa import checker_oracle
from tests.isa.random_instructions import overlapping_program
from tests.rings import long_beyond
from tilewright.isa.assembly.assembler import assemble, parse_instruction
from tilewright.isa.check.checker import check, require_checkable, require_valid
from tilewright.isa.check.finding import FindingCode
from tilewright.isa.check.footprint import footprint
from tilewright.isa.errors import IsaError
from tilewright.isa.files.loader import load_machine, load_machine_text
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.budgets import Budgets, OverBudget
from tilewright.isa.program.program import Layer, Program, Tensor

BASE16 = load_machine("base16")

SMALL = [f"memories.{name}.kib={kib}" for name, kib in (("act", 1), ("wgt", 2), ("acc", 4), ("par", 2))]
"""So few words that random accesses often meet, also at the ends of banks."""


def program(text: str, machine: Machine = BASE16) -> Program:
    """A program whose regions hold 1024 bytes each."""
    sizes = ".workspace 1024\n.inputs 1024\n.outputs 1024\n.zeros 1024\n"
    return assemble(sizes + text, machine)


def messages(text: str) -> list[str]:
    return [str(finding) for finding in check(program(text))]


COPY_IN = "load_act loops(k=4) d=inputs[0; k=16] y=act[0; k=1]\n"


def test_accepts_load_compute_store() -> None:
    assert messages(COPY_IN + "copy a=act[0] y=act[9] wait(load=1)\nstore_act y=act[9] d=outputs[0] wait(vec=1)") == []


def test_sees_waits_through_other_engines() -> None:
    text = COPY_IN + "copy a=act[0] y=act[9] wait(load=1)\nstore_act y=act[0] d=outputs[0] wait(vec=1)"
    assert messages(text) == []


def test_sees_waits_of_the_predecessor_on_the_engine() -> None:
    assert messages(COPY_IN + "copy a=act[0] y=act[9] wait(load=1)\ncopy a=act[1] y=act[10]") == []


def test_finds_a_missing_wait_and_says_which() -> None:
    assert messages(COPY_IN + "copy a=act[1] y=act[9]") == [
        "instruction 1: race: copy: a reads word 0x1 of act and may overtake instruction 0 (load_act), which writes "
        "it; wait(load=1) orders them"
    ]


def test_finds_a_write_that_overtakes_a_read() -> None:
    text = COPY_IN + "copy loops(k=4) a=act[0; k=1] y=act[9; k=1] wait(load=1)\nload_act y=act[3] d=inputs[0]"
    assert messages(text) == [
        "instruction 2: race: load_act: y writes word 0x3 of act and may overtake instruction 1 (copy), which reads "
        "it; wait(vec=1) orders them"
    ]


def test_finds_an_engine_that_reads_its_own_writes_too_early() -> None:
    assert messages("fill y=act[5] value=1\ncopy a=act[5] y=act[6]") == [
        "instruction 1: race: copy: a reads word 0x5 of act and may overtake instruction 0 (fill), which writes it; "
        "wait(vec=1) orders them"
    ]


def test_knows_that_an_engine_writes_in_order() -> None:
    assert messages("fill y=act[5] value=1\nfill y=act[5] value=2") == []


def test_knows_that_the_array_keeps_the_order_of_its_sums() -> None:
    loads = "load_act d=inputs[0] y=act[0]\nload_wgt loops(k=16) d=inputs[0; k=16] y=wgt[0; k=1]\n"
    assert (
        messages(loads + "mma a=act[0] w=wgt[0] c=acc[0] wait(load=2)\nmma a=act[0] w=wgt[0] c=acc[0] accumulate") == []
    )


def test_finds_vectors_that_are_sums_of_the_instruction_before() -> None:
    """The array keeps the order of its sums, not that of the vectors it reads."""
    machine = load_machine_text(
        "extends: base16\nengines: {mma: {reads: [acc, wgt]}}\n"
        "instructions: {mma_transposed: null, mma: {from: {a: 'acc[r, s, k, y, x]'}}}\n",
        "sums as vectors",
    )
    loads = "load_acc d=inputs[0] y=acc[0]\nload_wgt loops(k=16) d=inputs[0; k=16] y=wgt[0; k=1]\n"
    text = loads + "mma a=acc[0] w=wgt[0] c=acc[1] wait(load=2)\nmma a=acc[1] w=wgt[0] c=acc[2]"
    assert [str(f) for f in check(program(text, machine))] == [
        "instruction 3: race: mma: a reads word 0x1 of acc and may overtake instruction 2 (mma), which writes it; "
        "wait(mma=1) orders them"
    ]
    assert check(program(text + " wait(mma=1)", machine)) == ()


LOAD_TABLE = "load_lut loops(k=WORDS) d=weights[0] y=lut[8; k=1]\n"


def test_accepts_a_lookup_in_a_table_that_is_loaded() -> None:
    text = COPY_IN + LOAD_TABLE.replace("WORDS", "256") + "lookup a=act[0] t=lut[8] y=act[9] wait(load=2)"
    assert messages(text) == []


def test_finds_a_lookup_in_a_table_that_is_loaded_in_part() -> None:
    text = COPY_IN + LOAD_TABLE.replace("WORDS", "255") + "lookup a=act[0] t=lut[8] y=act[9] wait(load=2)"
    assert messages(text) == [
        "instruction 2: unwritten: lookup: t reads word 0x107 of lut, which nothing has written; write it first"
    ]


def test_finds_a_lookup_and_a_load_of_one_word_that_race() -> None:
    text = COPY_IN + LOAD_TABLE.replace("WORDS", "256") + "lookup a=act[0] t=lut[8] y=act[9] wait(load=1)"
    assert messages(text) == [
        "instruction 2: race: lookup: t reads word 0x8 of lut and may overtake instruction 1 (load_lut), which writes "
        "it; wait(load=2) orders them"
    ]
    text = COPY_IN + LOAD_TABLE.replace("WORDS", "256") + "lookup a=act[0] t=lut[8] y=act[9] wait(load=2)\n"
    assert messages(text + "load_lut d=weights[0] y=lut[263]") == [
        "instruction 3: race: load_lut: y writes word 0x107 of lut and may overtake instruction 2 (lookup), which "
        "reads it; wait(vec=1) orders them"
    ]


def test_finds_a_table_beyond_its_memory() -> None:
    text = COPY_IN + LOAD_TABLE.replace("WORDS", "256") + "lookup a=act[0] t=lut[769] y=act[9] wait(load=2)"
    assert messages(text)[0] == (
        "instruction 2: address: lookup: t touches words 0x301 to 0x401 of lut, which holds 0x400"
    )


def test_finds_a_read_of_unwritten_words() -> None:
    assert messages(COPY_IN + "copy loops(k=2) a=act[3; k=1] y=act[9; k=1] wait(load=1)") == [
        "instruction 1: unwritten: copy: a reads word 0x4 of act, which nothing has written; write it first"
    ]


def test_finds_a_read_of_workspace_that_was_stored_only_in_part() -> None:
    text = COPY_IN + "store_act y=act[0] d=workspace[8] wait(load=1)\nload_act d=workspace[9] y=act[0] wait(store=1)"
    assert messages(text) == [
        "instruction 2: unwritten: load_act: d reads byte 0x18 of workspace, which nothing has written; write it first"
    ]


def test_finds_a_read_of_an_input_that_was_stored_into() -> None:
    """Inputs are there from the start, so reads of them come when they like, unless the program stores there."""
    text = COPY_IN + "store_act y=act[0] d=inputs[8] wait(load=1)\nload_act d=inputs[9] y=act[20]"
    assert messages(text) == [
        "instruction 2: race: load_act: d reads byte 0x9 of inputs and may overtake instruction 1 (store_act), which "
        "writes it; wait(store=1) orders them"
    ]


def test_finds_a_wait_for_what_is_not_earlier() -> None:
    assert messages("fill y=act[0] wait(vec=1)") == [
        "instruction 0: wait: fill waits for 1 instructions of vec; only 0 are earlier in the program, so it would "
        "wait for ever"
    ]


def test_counts_what_is_earlier_on_the_engine_that_is_waited_for() -> None:
    copies = COPY_IN * 2 + "fill y=act[8]\n"
    assert messages(copies + "fill y=act[9] wait(load=2)\n" + COPY_IN.replace("act[0", "act[16")) == []
    assert messages(copies + "fill y=act[9] wait(load=3)\n" + COPY_IN.replace("act[0", "act[16")) == [
        "instruction 3: wait: fill waits for 3 instructions of load; only 2 are earlier in the program, so it would "
        "wait for ever"
    ]


def test_finds_dma_outside_its_region() -> None:
    assert messages("load_act loops(k=2) d=inputs[1000; k=16] y=act[0; k=1]") == [
        "instruction 0: region: load_act: d touches bytes 0x3e8 to 0x408 of inputs, which holds 0x400; correct base "
        "and strides, or make the region larger"
    ]


def test_finds_a_region_that_does_not_exist() -> None:
    assert messages("load_act d=region6[0] y=act[0]") == [
        "instruction 0: region: load_act: d is in region 6; expected one of 0 program, 1 weights, 2 workspace, "
        "3 inputs, 4 outputs"
    ]


def test_finds_a_store_into_constant_data() -> None:
    assert messages(COPY_IN + "store_act y=act[0] d=weights[0] wait(load=1)") == [
        "instruction 1: region: store_act: d stores into weights, which is constant; use workspace or outputs"
    ]


def test_finds_words_outside_a_memory() -> None:
    assert messages("fill loops(k=2) y=act[0; k=-1]") == [
        "instruction 0: address: fill: y touches words -0x1 to 0x1 of act, which holds 0x4000"
    ]


def test_finds_a_block_across_banks() -> None:
    rect = load_machine("rect")
    text = "mma a=act[0] w=wgt[0] c=acc[1023]".replace("1023", str(rect.memories["acc"].bank_depth - 1))
    assert [f.code for f in check(program(text, rect)) if f.code is FindingCode.ADDRESS] == [FindingCode.ADDRESS]


def test_accepts_a_block_up_to_the_end_of_its_bank() -> None:
    rect = load_machine("rect")
    last = rect.memories["acc"].bank_depth - rect.formats["mma"].destination.block
    starts = [last, last + 1, last + 2]
    codes = [{f.code for f in check(program(f"mma a=act[0] w=wgt[0] c=acc[{start}]", rect))} for start in starts]
    assert [FindingCode.ADDRESS in found for found in codes] == [False, True, False]


def test_finds_the_one_block_of_many_that_lies_across_banks() -> None:
    rect = load_machine("rect")
    bank, block = rect.memories["acc"].bank_depth, rect.formats["mma"].destination.block
    text = f"mma loops(x=2) a=act[0] w=wgt[0] c=acc[{bank - 1 - 2 * block}; x={2 * block}]"
    found = [f.message for f in check(program(text, rect)) if f.code is FindingCode.ADDRESS]
    assert len(found) == 1 and f"from {bank - 1:#x} lies across two banks" in found[0]


def test_lets_weight_tiles_lie_across_banks() -> None:
    bank = BASE16.memories["wgt"].bank_depth
    text = f"load_wgt loops(k=16) d=inputs[0; k=16] y=wgt[{bank - 8}; k=1]\n" + COPY_IN
    assert messages(text + f"mma a=act[0] w=wgt[{bank - 8}] c=acc[0] wait(load=2)") == []


def test_accepts_an_instruction_in_place() -> None:
    assert messages(COPY_IN + "copy loops(k=4) a=act[0; k=1] y=act[0; k=1] wait(load=1)") == []


def test_accepts_a_move_towards_what_was_read_already() -> None:
    assert messages(COPY_IN + "copy loops(k=3) a=act[1; k=1] y=act[0; k=1] wait(load=1)") == []


def test_finds_an_instruction_that_feeds_itself() -> None:
    assert messages(COPY_IN + "copy loops(k=3) a=act[0; k=1] y=act[1; k=1] wait(load=1)") == [
        "instruction 1: feedback: copy: a reads word 0x1 of act after the instruction has written it; move the "
        "destination, or turn the loops round"
    ]


def test_finds_sums_that_share_a_word() -> None:
    loads = COPY_IN + "load_wgt loops(k=16) d=inputs[0; k=16] y=wgt[0; k=1]\n"
    assert messages(loads + "mma loops(x=4) a=act[0; x=1] w=wgt[0] c=acc[0] wait(load=2)") == [
        "instruction 2: feedback: mma: two sums share a word of acc; give c a stride for every loop that is not "
        "reduced, large enough that no two words are the same"
    ]


def test_finds_more_instructions_than_a_wait_can_count() -> None:
    narrow = load_machine("base16", ["wait_bits=4"])
    fills = "".join(f"fill y=act[{number}]\n" for number in range(16))
    assert [str(finding) for finding in check(program(fills, narrow))] == [
        "program: count: 16 instructions for vec; 4-bit wait counts reach 15: widen wait_bits or use larger tiles"
    ]


def test_finds_an_output_that_is_never_stored() -> None:
    output = Tensor("y", (1, 20), (1, 20, 2, 1), "int8", 1.0, 0, 0, BASE16.lanes)
    whole = program(COPY_IN + "store_act loops(k=4) y=act[0; k=1] d=outputs[0; k=16] wait(load=1)")
    assert check(replace(whole, outputs=(output,))) == ()
    partial = program(COPY_IN + "store_act loops(k=3) y=act[0; k=1] d=outputs[0; k=16] wait(load=1)")
    assert [str(f) for f in check(replace(partial, outputs=(output,)))] == [
        "program: tensor: output y: byte 0x30 of its region is never stored; store every element"
    ]


def test_finds_an_output_of_int32_that_is_stored_in_part() -> None:
    """Of 18 channels the second word holds 2: bytes 64 to 71."""
    output = Tensor("y", (1, 18), (1, 18, 1, 1), "int32", 1.0, 0, 0, BASE16.lanes)
    load = "load_acc loops(k=2) d=inputs[0; k=64] y=acc[0; k=1]\n"
    whole = program(load + "store_acc loops(k=2) y=acc[0; k=1] d=outputs[0; k=64] wait(load=1)")
    assert check(replace(whole, outputs=(output,))) == ()
    for second, missing in ((0, 0x40), (2, 0x42)):
        partial = program(load + f"store_acc loops(k=2) y=acc[0; k=1] d=outputs[0; k={second}] wait(load=1)")
        assert [str(f) for f in check(replace(partial, outputs=(output,)))] == [
            f"program: tensor: output y: byte {missing:#x} of its region is never stored; store every element"
        ]


def test_lets_lanes_beyond_the_channels_hold_anything() -> None:
    output = Tensor("y", (1, 4), (1, 4, 1, 1), "int8", 1.0, 0, 0, BASE16.lanes)
    stored = program(COPY_IN + "store_act y=act[0] d=outputs[0] wait(load=1)")
    assert check(replace(stored, outputs=(output,))) == ()


def test_finds_a_tensor_outside_its_region() -> None:
    tensor = Tensor("x", (1, 16), (1, 16, 1, 1), "int8", 1.0, 0, 1020, BASE16.lanes)
    assert [str(f) for f in check(replace(program(""), inputs=(tensor,)))] == [
        "program: tensor: x takes bytes 0x3fc to 0x40c of inputs, which holds 0x400"
    ]


def test_finds_an_output_outside_its_region_where_nothing_is_stored() -> None:
    tensor = Tensor("y", (1, 16), (1, 16, 1, 1), "int8", 1.0, 0, 0, BASE16.lanes)
    assert [str(f) for f in check(replace(program(""), outputs=(tensor,), output_bytes=0))] == [
        "program: tensor: y takes bytes 0x0 to 0x10 of outputs, which holds 0x0"
    ]


def test_accepts_a_tensor_up_to_the_end_of_its_region() -> None:
    tensor = Tensor("x", (1, 16), (1, 16, 1, 1), "int8", 1.0, 0, 1024 - 16, BASE16.lanes)
    assert check(replace(program(""), inputs=(tensor,))) == ()


def test_finds_layers_that_are_not_those_of_the_instructions() -> None:
    wrong = replace(program("fill y=act[0]"), layers=(Layer("conv", 2, (), 0),), provenance=(3,))
    assert [str(f) for f in check(wrong)] == [
        "program: layers: layers begin at [2]; expected ascending numbers up to 1",
        "instruction 0: layers: serves layer 3; the program has 1 layers",
    ]


def test_names_the_layer_of_a_finding() -> None:
    assert [f.layer for f in check(program("conv1:\nfill y=act[0]\nconv2:\ncopy a=act[5] y=act[6]"))] == ["conv2"]


def test_names_the_layer_by_where_layers_begin_if_instructions_do_not_say() -> None:
    copies = program("copy a=act[5] y=act[6]\n" * 5)
    layers = (Layer("conv1", 1, (), 0), Layer("conv2", 3, (), 0))
    assert [f.layer for f in check(replace(copies, layers=layers))] == ["", "conv1", "conv1", "conv2", "conv2"]


def test_names_the_layer_that_an_instruction_says_it_serves() -> None:
    copies = program("copy a=act[5] y=act[6]\n" * 4)
    layers = (Layer("conv1", 0, (), 0), Layer("conv2", 1, (), 0))
    made = replace(copies, layers=layers, provenance=(1, 0, 1, 0))
    assert [f.layer for f in check(made)] == ["conv2", "conv1", "conv2", "conv1"]


def test_require_valid_shows_the_first_findings_and_their_number() -> None:
    with pytest.raises(IsaError) as error:
        require_valid(program("copy a=act[5] y=act[6]\n" * 7))
    lines = str(error.value).split("\n")
    assert (len(lines), lines[-1]) == (6, "… and 2 more; 7 findings in all")


def test_does_not_walk_through_four_thousand_million_iterations() -> None:
    huge = "load_act loops(i=1024, j=1024, k=4096) d=inputs[0] y=act[0]\n" * 3
    assert [f.code for f in check(program(huge))] == []
    copies = "copy loops(i=1024, j=1024, k=1024) a=act[0; k=1] y=act[1; k=1]"
    assert [f.code for f in check(program(copies)) if f.code is FindingCode.FEEDBACK] == [FindingCode.FEEDBACK]


# -- against brute force -----------------------------------------------------------------------------------------------

MACHINES: dict[str, Callable[[], Machine]] = {
    "base16": lambda: load_machine("base16", SMALL),
    "rect": lambda: load_machine("rect", SMALL),
    "tiny8": lambda: load_machine("tiny8", SMALL),
}


def agree(machine: Machine, seed: int) -> set[str]:
    """Check one random program both ways; returns the codes that were found."""
    rng = random.Random(seed)
    instructions = overlapping_program(rng, machine, rng.randint(1, 9))
    made = Program(machine, tuple(instructions), bytes(200), 150, (), (), input_bytes=300, output_bytes=100)
    expected = checker_oracle.findings(made)
    found = {(finding.code.value, finding.instruction) for finding in check(made)}
    assert found == expected, f"seed {seed} on {machine.name}"
    return {code for code, _ in expected} or {"valid"}


@pytest.mark.parametrize("name", MACHINES)
def test_agrees_with_brute_force(name: str) -> None:
    machine = MACHINES[name]()
    seen = set().union(*(agree(machine, seed) for seed in range(150)))
    assert {"valid", "race", "unwritten", "address", "region", "feedback", "wait"} <= seen


@pytest.mark.slow
@pytest.mark.parametrize("name", long_beyond(1, MACHINES))
def test_agrees_with_brute_force_on_many(name: str) -> None:
    machine = MACHINES[name]()
    for seed in range(1000, 6000):
        agree(machine, seed)


def test_accepts_a_long_program() -> None:
    parts = [
        parse_instruction("load_act loops(k=16) d=inputs[0; k=16] y=act[0; k=1]", BASE16),
        parse_instruction("load_wgt loops(k=16) d=inputs[0; k=16] y=wgt[0; k=1]", BASE16),
        parse_instruction("mma loops(x=16) a=act[0; x=1] w=wgt[0] c=acc[0; x=1]", BASE16),
        parse_instruction("store_acc loops(k=16) y=acc[0; k=1] d=outputs[0; k=64]", BASE16),
    ]
    waits = ({"wait.mma": 0}, {"wait.mma": 0}, {"wait.load": 2, "wait.store": 0}, {"wait.mma": 1})
    steps = ({"wait.mma": 1}, {"wait.mma": 1}, {"wait.load": 2, "wait.store": 1}, {"wait.mma": 1})
    instructions = [
        part.replace({name: wait[name] + turn * step[name] for name in wait})
        for turn in range(1000)
        for part, wait, step in zip(parts, waits, steps, strict=True)
    ]
    made = replace(program(""), instructions=tuple(instructions))
    assert check(made) == ()


LONG = {
    "the same two words, a thousand million times": "copy loops(i=1024, j=1024, k=1000) a=act[0] y=act[9]\n",
    "a word onto itself": "copy loops(i=1024, j=1024, k=1000) a=act[0] y=act[0]\n",
    "moved by a word": "copy loops(i=1024, j=1024, k=1000) a=act[0; k=1] y=act[1; k=1]\n",
    "moved in three loops": "copy loops(i=1024, j=64, k=4) a=act[0; i=1, j=50, k=3] y=act[1; i=1, j=50, k=3]\n" * 40,
}


@pytest.mark.parametrize("what", LONG)
def test_takes_no_time_for_iterations(what: str) -> None:
    program = assemble(LONG[what], BASE16)
    with limits():
        assert {finding.code.value for finding in check(program)} <= {"unwritten", "feedback", "race"}


@pytest.mark.parametrize("what", ["a word onto itself", "moved by a word"])
def test_still_finds_what_feeds_itself_again_and_again(what: str) -> None:
    assert "feedback" in {finding.code.value for finding in check(assemble(LONG[what], BASE16))}


def test_refuses_what_is_cut_into_too_many_pieces() -> None:
    scattered = "load_act loops(j=1000, k=3000) d=workspace[0; j=60001, k=20] y=act[0]\n"
    text = ".workspace 70000000\n" + scattered * 3
    with limits(), pytest.raises(OverBudget) as refused:
        check(assemble(text, BASE16))
    assert str(refused.value) == (
        "the accesses are cut into up to 9,000,003 pieces of memory, each to be checked; the budget is 8,388,608 "
        "pieces: if you trust the program, raise it with --budget pieces=9000003"
    )


def test_counts_no_fewer_pieces_than_there_are() -> None:
    rng = random.Random(11)
    for _ in range(200):
        strides = [rng.choice((0, 1, 16, 17, 20, 100, 1000)) for _ in range(2)]
        trips = [rng.randint(1, 9) for _ in range(2)]
        text = f".workspace 100000\nload_act loops(j={trips[0]}, k={trips[1]}) "
        program = assemble(text + f"d=workspace[0; j={strides[0]}, k={strides[1]}] y=act[0]", BASE16)
        pieces = sum(len(access.ranges) for access in footprint(program.instructions[0], BASE16))
        with pytest.raises(OverBudget):
            require_checkable(program, Budgets(pieces=pieces - 1))


def test_refuses_accesses_that_cut_each_other() -> None:
    """Each is few pieces; each is cut by all others."""
    whole = "load_act loops(j=1000, k=1000) d=workspace[0; j=16000, k=16] y=act[0]\n"
    scattered = "load_act loops(j=1000, k=1000) d=workspace[0; j=16999, k=17] y=act[0]\n"
    program = assemble(".workspace 17000000\n" + scattered + whole * 200, BASE16)
    with limits(), pytest.raises(OverBudget, match="the accesses cut each other into"):
        check(program)

"""Text and programs are two forms of the same thing; every bad line is told at once, with its column."""

import random
import string
from dataclasses import replace
from math import prod

import pytest

from tests.isa.random_instructions import random_instruction
from tilewright.isa.assembly.assembler import AssemblyError, assemble, parse_instruction
from tilewright.isa.assembly.disassembler import disassemble, format_instruction
from tilewright.isa.binary.elf_writer import to_bytes
from tilewright.isa.errors import IsaError
from tilewright.isa.files.loader import load_machine, shipped_machines
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.program import Layer, Program, Scales, Tensor
from tilewright.isa.program.stored_types import DTYPES

BASE16 = load_machine("base16")


def faults(text: str) -> list[str]:
    with pytest.raises(AssemblyError) as error:
        assemble(text, BASE16, "net.s")
    return list(error.value.complaints)


def random_text(rng: random.Random) -> str:
    """A name with anything in it that a name may have."""
    plain = string.ascii_letters + string.digits + "_/.-"
    alphabet = plain if rng.random() < 0.5 else plain + ' "\\#:;,()[]=\n\téß→'
    return "".join(rng.choice(alphabet) for _ in range(rng.randint(0, 12)))


def random_program(rng: random.Random, machine: Machine) -> Program:
    """Any instructions, layers, tensors, weights and metadata."""
    instructions = tuple(random_instruction(rng, machine) for _ in range(rng.randint(0, 12)))
    firsts = sorted(rng.randint(0, len(instructions)) for _ in range(rng.randint(0, 4)))
    layers = tuple(
        Layer(
            random_text(rng), first, tuple(random_text(rng) for _ in range(rng.randint(0, 3))), rng.randint(0, 1 << 40)
        )
        for first in firsts
    )
    provenance = tuple(rng.randrange(len(layers)) for _ in instructions) if layers and rng.random() < 0.7 else ()
    weights = b"".join(rng.choice([bytes(rng.randint(0, 90)), rng.randbytes(rng.randint(0, 70))]) for _ in range(4))

    def tensor(*wide: str) -> Tensor:
        stored = tuple(rng.randint(1, 40) for _ in range(4))
        return Tensor(
            name=random_text(rng),
            shape=rng.choice([stored, stored[::-1], (1, *stored), (stored[0], prod(stored[1:])), (prod(stored),)]),
            stored=(stored[0], stored[1], stored[2], stored[3]),
            dtype=rng.choice(["float32", "int8", "uint8", *wide]),
            scale=rng.choice([1.0, 0.1, rng.random() * 10 ** rng.randint(-12, 12)]),
            zero_point=rng.randint(-128, 127),
            offset=rng.randint(0, 1 << 20),
            lanes=machine.lanes,
        )

    return Program(
        machine=machine,
        instructions=instructions,
        weights=weights,
        workspace_bytes=rng.choice([0, rng.randint(0, 1 << 30)]),
        inputs=tuple(tensor() for _ in range(rng.randint(0, 2))),
        outputs=tuple(tensor("int32") for _ in range(rng.randint(0, 2))),
        layers=layers,
        provenance=provenance,
        input_bytes=rng.randint(0, 5000),
        output_bytes=rng.randint(0, 5000),
        metadata={random_text(rng): random_text(rng) for _ in range(rng.randint(0, 3))},
    )


@pytest.mark.parametrize("name", shipped_machines())
def test_parses_what_it_formats(name: str) -> None:
    machine, rng = load_machine(name), random.Random(name)
    for _ in range(200):
        instruction = random_instruction(rng, machine)
        assert parse_instruction(format_instruction(instruction), machine) == instruction


@pytest.mark.parametrize("name", shipped_machines())
def test_assembles_what_it_disassembles(name: str) -> None:
    machine = load_machine(name)
    for seed in range(30):
        made = random_program(random.Random(f"{name} {seed}"), machine)
        again = assemble(disassemble(made), machine)
        assert again == made, f"seed {seed}"
        assert to_bytes(again) == to_bytes(made), f"seed {seed}"


def test_assembles_for_a_machine_with_overrides() -> None:
    machine = load_machine("base16", ["memories.act.kib=128"])
    made = random_program(random.Random(1), machine)
    assert assemble(disassemble(made), machine) == made


def test_reads_a_line_as_the_documentation_shows_it() -> None:
    line = (
        "mma  loops(n=1, r=3, s=3, k=1, y=8, x=8) a=act[0x10; r=10, s=1, y=10, x=1] w=wgt[0; r=48, s=16] "
        "c=acc[0; y=8, x=1] accumulate wait(load=2)  # a convolution"
    )
    instruction = parse_instruction(line, BASE16)
    assert instruction.trips == {"n": 1, "r": 3, "s": 3, "k": 1, "y": 8, "x": 8}
    assert [instruction[f] for f in ("a.base", "a.r", "a.k", "w.s", "accumulate", "wait.load", "wait.vec")] == [
        16, 10, 0, 16, 1, 2, 0,
    ]  # fmt: skip
    assert format_instruction(instruction) == (
        "mma loops(r=3, s=3, y=8, x=8) a=act[0x10; r=10, s=1, y=10, x=1] w=wgt[0x0; r=48, s=16] c=acc[0x0; y=8, x=1] "
        "accumulate wait(load=2)"
    )


def test_leaves_the_order_of_the_parts_free() -> None:
    swapped = parse_instruction("requantize wait(mma=3) low=-5 y=act[1] p=par[2] loops(k=2)", BASE16)
    assert swapped == parse_instruction("requantize loops(k=2) p=par[2] y=act[1] low=-5 wait(mma=3)", BASE16)


def test_disassembles_for_reading() -> None:
    text = """.machine base16
.metadata model digits
.workspace 4096
.output y shape(1, 3) stored(1, 3, 1, 1) dtype=int8 scale=0.5 zero_point=3 offset=0x40 lanes=16
.hex 010203                                                            # 0x0
conv1: nodes(/conv1/Conv, "a b") macs=100
  load_act loops(k=2) d=weights[0x0; k=1] y=act[0x0; k=1]
"add":
  fill y=act[0x3] value=-3 wait(load=1)
  fill y=act[0x4] layer(0)
"""
    assert disassemble(assemble(text, BASE16)) == text.replace('"add"', "add")


def test_data_directives_append_to_the_weights() -> None:
    text = ".int8 1, -1 x 3\n.int32 -2\n.uint16 65535\n.hex 0a 0b\n.zeros 2\n.at 0x10\n.int8 7 # last"
    assert assemble(text, BASE16).weights.hex() == "01ffffff" + "feffffff" + "ffff" + "0a0b" + "0000" + "0000" + "07"


def test_structured_data_is_packed_as_the_memory_says() -> None:
    weights = assemble(".par bias=-2 scale=3 shift=63\n.par shift=1 x 2", BASE16).weights
    first = (-2 & 0xFFFFFFFF) | 3 << 32 | 63 << 48
    assert weights == b"".join(word.to_bytes(8, "little") for word in (first, 1 << 48, 1 << 48))


def test_gives_each_instruction_the_layer_of_the_label_above() -> None:
    made = assemble("a:\nfill y=act[0]\nb:\nfill y=act[1]\nfill y=act[2] layer(a)", BASE16)
    assert made.provenance == (0, 1, 0)
    assert [(layer.name, layer.first_instruction) for layer in made.layers] == [("a", 0), ("b", 1)]


def test_has_no_provenance_when_an_instruction_has_no_layer() -> None:
    assert assemble("fill y=act[0]\na:\nfill y=act[1]", BASE16).provenance == ()
    assert assemble("fill y=act[0] layer(a)\na:\nfill y=act[1]", BASE16).provenance == (0, 0)


def test_fills_in_what_a_tensor_does_not_say() -> None:
    (tensor,) = assemble(".input x shape(1, 10)", BASE16).inputs
    assert tensor == Tensor("x", (1, 10), (1, 10, 1, 1), "int8", 1.0, 0, 0, 16)


def test_refuses_layers_out_of_order() -> None:
    made = replace(assemble("fill y=act[0]", BASE16), layers=(Layer("a", 1, (), 0), Layer("b", 0, (), 0)))
    with pytest.raises(IsaError, match=r"^layers begin at instructions \[1, 0\]; expected ascending numbers"):
        disassemble(made)


def test_tells_all_bad_lines_at_once() -> None:
    text = "fill y=act[0]\nfil y=act[0]\n\nfill z=3 # three\nfill value=1\nfill value=999"
    assert faults(text) == [
        f"net.s:2:1: unknown instruction 'fil' (did you mean 'fill'?); expected {', '.join(BASE16.formats)}",
        "net.s:4:6: fill has no 'z'; it has: loops, y, value, wait, layer",
        "net.s:6:12: value = 999 is out of range; expected -128 to 127",
    ]


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("mma loops(q=1)", "11: unknown loop of mma 'q'; expected n, r, s, k, y, x"),
        ("mma loops(k=0)", "13: trip.k = 0 is out of range; expected 1 to 256"),
        ("mma loops(k=2, k=3)", "16: k is given twice"),
        ("mma loops(k=2) loops(k=3)", "16: trip.k is given twice"),
        ("mma loops(k=2", "14: expected ',', not the end of the line"),
        ("mma a=acc[0]", "7: operand a is in act, not 'acc'"),
        ("mma a=act[0; n=2]", "14: unknown loop of operand a 'n'; expected r, s, k, y, x"),
        ("mma a=act[0; x=2, x=3]", "19: a.x is given twice"),
        ("mma a=act[-1]", "11: a.base = -1 is out of range; expected 0 to 16383"),
        ("mma a=act[x]", "11: a.base: expected an integer, not 'x'"),
        ("mma a act[0]", "7: expected '=', not 'act'"),
        ("mma accumulat", "5: mma has no 'accumulat' (did you mean 'accumulate'?); it has: loops, a, w, c, "
         "accumulate, wait, layer"),
        ("mma wait(lod=1)", "10: unknown engine of mma 'lod' (did you mean 'load'?); expected load, mma, vec, store"),
        ("mma wait(load=70000)", "15: wait.load = 70000 is out of range; expected 0 to 65535"),
        ("mma layer(conf)", "1: no layer 'conf'; there are 0 layers"),
        ("load_act d=weigths[0]", "12: unknown region 'weigths' (did you mean 'weights'?); expected program, weights, "
         "workspace, inputs, outputs"),
        ("load_act d=act[0]", "12: unknown region 'act'; expected program, weights, workspace, inputs, outputs"),
        ("fill value=1.5", "12: value: expected an integer, not '1.5'"),
        ("fill value=$1", "12: value: expected an integer, not '$1'"),
        ("fill 7", "6: expected a loop list, an operand, an immediate or a wait, not '7'"),
        ("5 fill", f"1: expected instruction ({', '.join(BASE16.formats)}), not '5'"),
        (".machine tiny8", "10: written for tiny8, assembled for base16; use the machine tiny8"),
        (".wokspace 3", "1: unknown directive '.wokspace' (did you mean '.workspace'?); expected .machine, .metadata, "
         ".workspace, .inputs, .outputs, .input, .output, .images, .provenance, .hex, .zeros, .at, .par, .int8, "
         ".int32"),
        (".workspace 3 4", "14: expected the end of the line, not '4'"),
        (".int8 1, 128", "10: int8 = 128 is out of range; expected -128 to 127"),
        (".par bais=1", "6: unknown field of par 'bais' (did you mean 'bias'?); expected bias, scale, shift"),
        (".par bias=1 bias=2", "13: bias is given twice"),
        (".hex 0g", "6: '0g' is not hexadecimal: expected two digits a byte"),
        (".input x shape(2, 0)", "19: size = 0 is out of range; expected 1 to 1099511627775"),
        (".input x shape(1, 2, 3, 4, 5)", "8: x: stored(1, 2, 3, 4, 5) needs 4 sizes: N, C, H, W"),
        (".input x shape(2, 3) stored(1, 3, 1, 1)", "8: x: the shape [2, 3] has 6 elements, 3 are stored"),
        (".input x shape(6) view(2, 3) shape(3)", "8: x: the view [2, 3] has 6 elements, the shape 3"),
        (".input x shape(6) axes(0) shape(2, 3)", "8: x: the axes [0] are not each of 0 to 1 once"),
        (".input x scale=1e300", "8: x: expected a scale from 1.4e-45 to 3.4e+38, as a float32 holds, not 1e+300"),
        (".input x scale=0", "8: x: expected a scale from 1.4e-45 to 3.4e+38, as a float32 holds, not 0.0"),
        (".input x dtype=int9", f"16: unknown dtype 'int9' (did you mean 'int8'?); expected {', '.join(DTYPES)}"),
        (".input x zero_point=200", "21: zero_point = 200 is out of range; expected -128 to 127"),
        (".input x shape(4) scales(box(3) values(1) zero_points(0))", "8: boxes [3] of [4]: expected as many "
         "dimensions, and a scale and a zero point for each of 2 boxes, got 1 and 1"),
        ("conv: nods(a)", "7: unknown part of a label 'nods' (did you mean 'nodes'?); expected nodes, macs"),
        ('"open: nodes(a)', f"1: expected instruction ({', '.join(BASE16.formats)}), not '\"open:'"),
    ],
)  # fmt: skip
def test_says_what_is_wrong_and_where(line: str, fault: str) -> None:
    assert faults(line) == [f"net.s:1:{fault}"]


def test_integers_narrower_than_a_byte_fill_whole_ones() -> None:
    assert assemble(".int4 -3 x 4\n.uint2 1 x 4", BASE16).weights == bytes([0xDD, 0xDD, 0x55])
    remedy = "expected a multiple of 2, which fills whole bytes, such as `7 x 2`; or use .hex"
    assert faults(".int4 7 x 3") == [f"net.s:1:9: 3 of int4; {remedy}"]


def test_refuses_data_that_goes_back() -> None:
    assert faults(".int8 1 x 20\n.at 0x10") == ["net.s:2:5: offset 0x10 is behind; the data has reached 0x14"]


def test_refuses_text_of_any_kind_with_an_error_of_ours() -> None:
    good = disassemble(random_program(random.Random(5), BASE16))
    for seed in range(400):
        rng = random.Random(seed)
        characters = list(good)
        for _ in range(rng.randint(1, 8)):
            characters[rng.randrange(len(characters))] = rng.choice(string.printable + "é\0")
        try:
            assemble("".join(characters), BASE16)
        except IsaError as error:
            assert str(error)


def test_scales_of_parts_and_wide_integers_come_back() -> None:
    scales = Scales((1, 1, 2, 3), (0.5, 0.1, 3.0), (0, 65535, 7))
    tensors = (
        Tensor("x", (1, 3, 2, 3), (1, 3, 2, 3), "float32", 1.0, 0, 0, 16, integers="uint16", scales=scales),
        Tensor("y", (1, 3, 2, 3), (1, 3, 2, 3), "float32", 0.5, 9, 512, 16, integers="int32"),
        Tensor("z", (3,), (3, 1, 1, 1), "uint4", 1.0, 15, 0, 16),
    )
    program = Program(BASE16, (), b"", 0, tensors[:2], tensors[2:])
    assert assemble(disassemble(program), BASE16) == program


@pytest.mark.parametrize("count", [1, 3])
def test_disassembling_refuses_provenance_of_other_instructions(count: int) -> None:
    program = assemble("first:\nfill y=act[0]\nfill y=act[1]", BASE16)
    with pytest.raises(IsaError) as refused:
        disassemble(replace(program, provenance=(0,) * count))
    assert str(refused.value) == f"provenance of {count} instructions; expected 2 or none"

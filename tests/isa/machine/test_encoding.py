"""Instructions are bits and back; fields lie one after the other and hold what they say."""

import random

import pytest

from tests.isa.random_instructions import random_instruction
from tilewright.isa.errors import IsaError
from tilewright.isa.files.loader import load_machine, shipped_machines
from tilewright.isa.machine.encoding import FieldKind, decode, encode, make_instruction


@pytest.mark.parametrize("name", shipped_machines())
def test_decodes_what_it_encodes(name: str) -> None:
    machine, rng = load_machine(name), random.Random(name)
    formats = {of.opcode: of for of in machine.formats.values()}
    for _ in range(300):
        instruction = random_instruction(rng, machine)
        word = encode(instruction)
        assert decode(word, formats) == instruction


@pytest.mark.parametrize("name", shipped_machines())
def test_each_field_has_its_own_bits(name: str) -> None:
    machine = load_machine(name)
    for of in machine.formats.values():
        default = int.from_bytes(encode(make_instruction(of, {})), "little")
        for field in of.fields[1:]:
            extremes = {}
            for value in (field.low, field.high):
                changed = make_instruction(of, {field.name: value})
                extremes[value] = int.from_bytes(encode(changed), "little") ^ default
            within = ((1 << field.type.bits) - 1) << field.low_bit
            assert all(bits & ~within == 0 for bits in extremes.values())
            assert (extremes[field.low] ^ extremes[field.high]) == within


def test_fields_follow_each_other_without_gaps() -> None:
    for name in shipped_machines():
        for of in load_machine(name).formats.values():
            next_bit = 0
            for field in of.fields:
                assert field.low_bit == next_bit
                next_bit += field.type.bits


def test_stores_trip_counts_minus_one() -> None:
    machine = load_machine("base16")
    of = machine.format("fill")
    field = of.field("trip.k")
    word = int.from_bytes(encode(make_instruction(of, {"trip.k": 3})), "little")
    assert (word >> field.low_bit) & ((1 << field.type.bits) - 1) == 2


def test_defaults_are_one_for_trip_counts_and_zero_otherwise() -> None:
    for of in load_machine("base16").formats.values():
        instruction = make_instruction(of, {})
        for field in of.fields:
            if field.kind is not FieldKind.OPCODE:
                assert instruction[field.name] == (1 if field.kind is FieldKind.TRIP else 0)


def test_refuses_a_value_that_does_not_fit() -> None:
    with pytest.raises(IsaError) as error:
        make_instruction(load_machine("base16").format("fill"), {"value": 128})
    assert str(error.value) == "fill: value = 128 does not fit its 8 bits; expected -128 to 127"


def test_refuses_an_unknown_field() -> None:
    with pytest.raises(IsaError, match="^copy has no field 'zero'; it has: wait.load, "):
        make_instruction(load_machine("base16").format("copy"), {"zero": 1})


def test_refuses_an_unknown_opcode() -> None:
    machine = load_machine("base16")
    formats = {of.opcode: of for of in machine.formats.values()}
    with pytest.raises(IsaError, match="^unknown opcode 255; the machine has: 1, 2, "):
        decode(b"\xff" + bytes(3), formats)


def test_an_instruction_has_the_words_that_its_fields_need() -> None:
    """In base16, fill's fields are 169 bits and copy's 220, mma's are 320, which is ten words exactly."""
    machine = load_machine("base16")
    lengths = {name: len(encode(make_instruction(machine.format(name), {}))) for name in ("fill", "copy", "mma")}
    assert lengths == {"fill": 24, "copy": 28, "mma": 40}


def test_a_long_instruction_lengthens_no_other() -> None:
    long = "instructions.add.loops={n: 10, m: 10, i: 10, j: 10, k: 10}"
    machine, longer = load_machine("base16"), load_machine("base16", [long])
    changed = {name for name, of in machine.formats.items() if longer.format(name).bytes != of.bytes}
    assert changed == {"add"}


def test_refuses_an_instruction_without_its_last_word() -> None:
    of = load_machine("base16").format("fill")
    with pytest.raises(IsaError, match="^fill has 24 bytes; 20 came$"):
        decode(encode(make_instruction(of, {}))[:-4], {of.opcode: of})


def test_refuses_bits_beyond_the_last_field() -> None:
    machine = load_machine("base16")
    of = machine.format("fill")
    word = encode(make_instruction(of, {}))
    with pytest.raises(IsaError) as error:
        decode(word[:-1] + b"\x80", {of.opcode: of})
    assert str(error.value) == f"fill: bits are set above its last field (bit {of.bits})"


def test_replace_keeps_the_other_fields() -> None:
    of = load_machine("base16").format("fill")
    changed = make_instruction(of, {"value": 5, "trip.k": 7}).replace({"trip.k": 9})
    assert (changed["value"], changed["trip.k"]) == (5, 9)


@pytest.mark.parametrize("name", shipped_machines())
def test_bases_and_strides_reach_from_any_word_to_any_other(name: str) -> None:
    machine = load_machine(name)
    for of in machine.formats.values():
        for operand in of.operands:
            if operand.memory in machine.memories:
                last = machine.memories[operand.memory].depth - 1
                assert of.field(f"{operand.name}.base").high >= last
                strides = [of.field(f"{operand.name}.{loop}") for loop in operand.loops]
                assert all(stride.low <= -last and stride.high >= last for stride in strides)

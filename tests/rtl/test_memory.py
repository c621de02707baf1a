"""BankedMemory against a list of words and a list of turns, cycle by cycle."""

import random
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.rtl.benches import simulate
from tilewright.isa.files.loader import load_machine
from tilewright.isa.language.numeric import IntegerType
from tilewright.isa.machine.memory import Interleave, Memory, integer_element
from tilewright.rtl.memory import BankedMemory, Requester
from tilewright.rtl.ports import built_memory, ways_of

BYTE = integer_element(IntegerType(8, False))


@dataclass
class Model:
    """Words in a list; per port and bank, who was served last."""

    memory: Memory
    words: list[int] = field(default_factory=list)
    last: dict[tuple[str, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.words = [0] * self.memory.depth

    def grant(self, port: str, requesters: list[Requester], asks: dict[int, int]) -> set[int]:
        """Which of the asks, position → first word, are granted in this cycle."""
        granted = set()
        for bank in range(self.memory.banks):
            here = [n for n, first in asks.items() if first // self.memory.bank_depth == bank]
            favoured = [n for n in here if requesters[n].is_privileged]
            if favoured:
                granted.add(min(favoured))
            elif here:
                last = self.last.get((port, bank), len(requesters) - 1)
                winner = min(here, key=lambda n: (n - last - 1) % len(requesters))
                self.last[port, bank] = winner
                granted.add(winner)
        return granted


SHAPES = [
    # words, banks, widest block: powers of two, and none
    (64, 4, 1),
    (66, 3, 2),
    (35, 5, 3),
    (24, 1, 4),
    (26, 2, 4),
]


@pytest.mark.parametrize(("depth", "banks", "block"), SHAPES)
def test_is_words_and_turns(depth: int, banks: int, block: int) -> None:
    memory = Memory("m", BYTE, 2, depth, banks)
    reads = [Requester("c", block, True), Requester("w", 1, True), Requester("a", block)]
    reads += [Requester("v"), Requester("s")]
    writes = [Requester("c", block, True), Requester("v"), Requester("l")]
    dut, model, seed = BankedMemory(memory, reads, writes), Model(memory), random.Random(f"{depth} {banks} {block}")

    def ask(ctx: Any, kind: str, requesters: list[Requester]) -> dict[int, int]:
        asks = {}
        for position, of in enumerate(requesters):
            port = getattr(dut, f"{kind}_{of.name}")
            ctx.set(port.valid, 0)
            if seed.random() < 0.5:
                in_bank = seed.randrange(memory.bank_depth - of.block + 1)
                first = seed.randrange(banks) * memory.bank_depth + in_bank
                asks[position] = first
                ctx.set(port.valid, 1)
                ctx.set(port.address, first)
        return asks

    def granted(ctx: Any, kind: str, requesters: list[Requester]) -> set[int]:
        return {n for n, of in enumerate(requesters) if ctx.get(getattr(dut, f"{kind}_{of.name}").granted)}

    async def bench(ctx: Any) -> None:
        expected: dict[int, int] = {}
        for cycle in range(400):
            halted = cycle % 16 == 15
            ctx.set(dut.halt, halted)
            read_asks, write_asks = ask(ctx, "read", reads), ask(ctx, "write", writes)
            data = [seed.getrandbits(16 * of.block) for of in writes]
            for of, value in zip(writes, data, strict=True):
                ctx.set(getattr(dut, f"write_{of.name}").data, value)
            read_grants = set() if halted else model.grant("read", reads, read_asks)
            write_grants = set() if halted else model.grant("write", writes, write_asks)
            assert granted(ctx, "read", reads) == read_grants
            assert granted(ctx, "write", writes) == write_grants
            for n, word in expected.items():
                assert ctx.get(getattr(dut, f"read_{reads[n].name}").data) == word
            expected = {}
            for n in read_grants:
                block_words = model.words[read_asks[n] : read_asks[n] + reads[n].block]
                expected[n] = sum(word << 16 * i for i, word in enumerate(block_words))
            for n in write_grants:
                for i in range(writes[n].block):
                    model.words[write_asks[n] + i] = data[n] >> 16 * i & 0xFFFF
            await ctx.tick()

    simulate(dut, bench)


ONE_PORT = [
    # words, banks, widest block, interleaved by words
    (64, 4, 1, Interleave.NONE),
    (66, 3, 2, Interleave.NONE),
    (24, 1, 4, Interleave.NONE),
    (64, 4, 1, Interleave.WORDS),
    (24, 8, 1, Interleave.WORDS),
]


@pytest.mark.parametrize(("depth", "banks", "block", "interleave"), ONE_PORT)
def test_one_port_reads_or_writes_in_a_cycle(depth: int, banks: int, block: int, interleave: Interleave) -> None:
    """Each bank serves privileged reads, then writes, then other reads in turn; words are those of a list."""
    memory = Memory("m", BYTE, 2, depth, banks, 1, interleave)
    reads = [
        Requester("c", block, True),
        Requester("w", 1, True),
        Requester("a", block),
        Requester("v"),
        Requester("s"),
    ]
    writes = [Requester("x", block, True), Requester("y", 1, True), Requester("z", 1, True)]
    dut, seed = BankedMemory(memory, reads, writes), random.Random(f"{depth} {banks} {block} {interleave}")
    right = [("read", 0), ("read", 1), ("write", 0), ("write", 1), ("write", 2)]
    sharing = [("read", 2), ("read", 3), ("read", 4)]
    words, last = [0] * depth, dict.fromkeys(range(banks), len(sharing) - 1)

    def bank_of(word: int) -> int:
        return word % banks if interleave is Interleave.WORDS else word // (depth // banks)

    def port(kind: str, position: int) -> Any:
        return getattr(dut, f"{kind}_{(reads if kind == 'read' else writes)[position].name}")

    def first_word(size: int) -> int:
        bank_words = depth // banks
        return seed.randrange(banks) * bank_words + seed.randrange(bank_words - size + 1)

    async def bench(ctx: Any) -> None:
        expected: dict[int, int] = {}
        for _ in range(400):
            asks = {}
            for key in (*right, *sharing):
                of = (reads if key[0] == "read" else writes)[key[1]]
                ctx.set(port(*key).valid, 0)
                if seed.random() < 0.4:
                    asks[key] = first_word(of.block)
                    ctx.set(port(*key).valid, 1)
                    ctx.set(port(*key).address, asks[key])
            data = [seed.getrandbits(16 * of.block) for of in writes]
            for position, value in enumerate(data):
                ctx.set(port("write", position).data, value)
            winners = set()
            for bank in range(banks):
                here = [key for key, word in asks.items() if bank_of(word) == bank]
                if first := [key for key in right if key in here]:
                    winners.add(first[0])
                elif here:
                    in_turn = [sharing[(last[bank] + 1 + step) % len(sharing)] for step in range(len(sharing))]
                    winner = next(key for key in in_turn if key in here)
                    last[bank] = sharing.index(winner)
                    winners.add(winner)
            assert {key for key in (*right, *sharing) if ctx.get(port(*key).granted)} == winners
            for position, word in expected.items():
                assert ctx.get(port("read", position).data) == word
            served = [(position, asks["read", position]) for kind, position in winners if kind == "read"]
            expected = {
                position: sum(word << 16 * i for i, word in enumerate(words[at : at + reads[position].block]))
                for position, at in served
            }
            for kind, position in winners:
                for i in range(writes[position].block if kind == "write" else 0):
                    words[asks[kind, position] + i] = data[position] >> 16 * i & 0xFFFF
            await ctx.tick()

    simulate(dut, bench)


def test_one_bank_is_built_where_one_reads_and_one_writes() -> None:
    machine = load_machine("tiny8")  # only the array reads wgt and only vec's second source reads par; load writes both
    built = {name: built_memory(machine, memory).banks for name, memory in machine.memories.items()}
    assert built == {"act": 4, "wgt": 1, "acc": 2, "par": 1, "lut": 1}


def test_interleaves_by_the_widest_block() -> None:
    machine = load_machine("rect")  # 32 columns in words of 16 lanes: a vector of sums is two words
    assert {name: ways_of(machine, memory) for name, memory in machine.memories.items()} == {
        "act": 1,
        "wgt": 1,
        "acc": 2,
        "par": 1,
        "lut": 1,
    }

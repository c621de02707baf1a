"""What instructions are worth: made up trials, whose right answer is plain, and a small network's real ones."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.codesign.advise.test_advice import TINY, made_up, network
from tests.digits import MODEL
from tilewright.codesign.advise.advice import Advice, advise_machine
from tilewright.codesign.advise.changes import Change
from tilewright.codesign.advise.tables import advice_lines, advice_tables
from tilewright.codesign.advise.trials import Bench, NoAdvice, Trial
from tilewright.codesign.advise.worth import InstructionWorth, Worth
from tilewright.codesign.points.evaluate import Failure
from tilewright.codesign.points.network import Network, read_network
from tilewright.isa.files.loader import load_machine

ONLY = tuple(f"instructions.{name}" for name in ("mma", "mul", "copy", "lookup"))


def without(bench: Bench, change: Change | None) -> Trial:
    """1,800 cycles; each instruction away saves a kGE and costs 50 cycles, three nodes, the machine or the network."""
    made = made_up(bench, None)
    assert made.figures is not None
    away = [] if change is None else list(change.over["instructions"])
    base = replace(made, change=change, figures=replace(made.figures, kge=10.0 - len(away)))
    match away:
        case [] | ["copy"]:
            return base
        case ["mul"]:
            return replace(base, outcomes=(network(1850, 1),))
        case ["lookup"]:
            return replace(base, outcomes=(Failure("n", "h", "m", "k", 1, "compile", "no room"),))
        case ["mma"]:
            return Trial(change, None, (), {}, "no product")
        case _:
            return replace(base, outcomes=(network(100, 4),))


@pytest.fixture
def advice(monkeypatch: pytest.MonkeyPatch) -> Advice:
    monkeypatch.setattr(Bench, "trial", without)
    return advise_machine([Network("n", b"")], TINY, "tiny8", only=ONLY, jobs=1)


def test_cycles_nodes_on_the_host_or_why_there_is_neither(advice: Advice) -> None:
    assert {of.name: of for of in advice.instructions} == {
        "mma": Worth("mma", None, (), "no product"),
        "mul": Worth("mul", 1.0, (InstructionWorth("n", 50, 0),)),
        "copy": Worth("copy", 1.0, (InstructionWorth("n", 0, 0),)),
        "lookup": Worth("lookup", 1.0, (InstructionWorth("n", None, None, "stage compile: no room"),)),
        "all of these": Worth("all of these", 4.0, (InstructionWorth("n", None, 3),)),
    }
    assert [of["name"] for of in advice.as_json()["instructions"]] == [of.name for of in advice.instructions]


def test_words(advice: Advice) -> None:
    (title, columns, rows), *others = advice_tables(advice, top=2)
    assert title == "What each instruction of m buys: without it, cycles more"
    assert others == [] and columns == ("instruction", "kGE less", "n")
    assert set(rows) == {
        ("mma", "", "no machine"),
        ("mul", "1.0", "50"),
        ("copy", "1.0", "0"),
        ("lookup", "1.0", "fails"),
        ("all of these", "4.0", "3 nodes on the host"),
    }
    lines = list(advice_lines(advice))
    assert "No machine without mma: no product" in lines
    assert "n fails without lookup in the stage compile: no room" in lines
    assert not [line for line in lines if line.startswith("No single change")]


def test_only_what_another_machine_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Bench, "trial", made_up)
    vector, base = load_machine("vector16"), load_machine("base16")
    found = advise_machine([Network("n", b"")], vector, "vector16", against=base, jobs=1)
    added = [name for name in vector.formats if name not in base.formats]
    assert [of.name for of in found.instructions] == [*added, "all of these"]
    assert not found.gains and not found.removable
    with pytest.raises(NoAdvice, match="base16 has no instruction that vector16 lacks: there is nothing to take away"):
        advise_machine([Network("n", b"")], base, "base16", against=vector, jobs=1)


def test_digits_have_their_sums_on_the_host_without_add() -> None:
    only = ("instructions.copy", "instructions.add")
    found = advise_machine([read_network(MODEL)], TINY, "tiny8", only=only, effort=0, with_price=False, jobs=1)
    losses = {of.name: [str(loss) for loss in of.losses] for of in found.instructions}
    assert losses == {"add": ["2 nodes on the host"], "copy": ["0"], "all of these": ["2 nodes on the host"]}
    assert advice_tables(found, top=1)[0][1] == ("instruction", "digits_int8")

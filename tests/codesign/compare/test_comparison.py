"""Networks on machines: which machines are compared, what is best, and the tables' words."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.digits import MODEL
from tests.mixed_networks import sandwich
from tilewright.codesign.compare.comparison import ComparedPoint, Comparison, best_of, compare_machines
from tilewright.codesign.compare.machines import candidates
from tilewright.codesign.compare.tables import comparison_csv, comparison_tables, notes
from tilewright.codesign.points.derived import derived
from tilewright.codesign.points.evaluate import Failure, NetworkFigures
from tilewright.codesign.points.network import Network, read_network
from tilewright.codesign.points.padding import padding_note
from tilewright.codesign.points.priced import MachineFigures
from tilewright.isa.errors import IsaError
from tilewright.isa.files.loader import load_machine

A = MachineFigures("a", "ka", "P", 1.0, 1.0, 100.0, 10, "estimated", None, 5.0, "array")
B = MachineFigures("b", "kb", "P", 2.0, 1.0, 200.0, 20, "fitted", "a", 4.0, "fetch")


def point(machine: MachineFigures, cycles: int, host_nodes: int = 0) -> ComparedPoint:
    outcome = NetworkFigures(
        "n", "h", machine.machine, "k", 1, cycles, 10, 0.5, 100, 0.25, 0.75, host_nodes, 9, 90, 0.1, ("par",)
    )
    return ComparedPoint(outcome, derived(outcome, machine), None)


def comparison(*points: ComparedPoint) -> Comparison:
    return Comparison(("n",), {"a": A, "b": B}, points, 1)


def test_each_machine_as_it_is_and_with_each_change(tmp_path: Path) -> None:
    faster = tmp_path / "faster.yaml"
    faster.write_text("dram: {latency_cycles: 8}\n")

    found = candidates(["tiny8", "rect"], ["array.rows=16", "fetch_beats=16"], [faster])

    names = ("", "+faster", "[array.rows=16,fetch_beats=16]")
    assert [each.name for each in found] == [isa + name for isa in ("tiny8", "rect") for name in names]
    assert [each.machine.dram.latency_cycles for each in found[:3]] == [64, 8, 64]
    assert (found[2].machine.array.rows, found[2].machine.fetch_beats) == (16, 16)
    assert found[2].like == load_machine("tiny8") and found[1].like is None


def test_two_machines_of_one_name_are_refused() -> None:
    with pytest.raises(IsaError, match="two machines are called tiny8; name each of them once"):
        candidates(["tiny8", "tiny8"])


def test_an_overlay_may_extend_a_machine_itself() -> None:
    with_softmax = candidates(["tiny8"], (), ["vector16"])[1].machine
    assert with_softmax.array.rows == 8 and set(with_softmax.formats) > set(load_machine("tiny8").formats)


def test_a_fault_in_an_overlay_is_told_with_its_line(tmp_path: Path) -> None:
    overlay = tmp_path / "o.yaml"
    overlay.write_text("dram:\n  latency_cycle: 8\n")
    with pytest.raises(IsaError, match=r"o\.yaml:2:\d+: .*latency_cycle"):
        candidates(["tiny8"], (), [overlay])


def test_the_best_is_the_lowest_unless_more_is_better() -> None:
    assert best_of({"a": 1, "b": 2, "c": 1}) == {"a", "c"}
    assert best_of({"a": 1, "b": 2}, is_higher=True) == {"b"}
    assert best_of({"a": 1, "b": 1}) == best_of({"a": 1}) == frozenset()


def test_no_machine_is_the_best_where_one_is_not_known() -> None:
    assert best_of({"a": 1, "b": None, "c": 2}) == frozenset()
    unknown = point(B, 100)
    assert isinstance(unknown.outcome, NetworkFigures)
    without = replace(unknown, outcome=replace(unknown.outcome, on_chip_mj=None, unmeasured=("acc",)))
    assert comparison(point(A, 200), without).best("on_chip_mj", "n") == frozenset()
    assert comparison(point(A, 200), without).best("cycles", "n") == {"b"}


def test_an_estimate_in_an_energy_is_marked_and_its_error_told() -> None:
    one = point(A, 200)
    assert isinstance(one.outcome, NetworkFigures) and one.outcome.on_chip_mj is not None
    error = 0.1 * one.outcome.on_chip_mj
    guessed = replace(one.outcome, unmeasured=(), estimated=("par",), estimated_error_mj=error)
    found = Comparison(("n",), {"a": A}, (replace(one, outcome=guessed),), 1)
    [[_, _, rows]] = comparison_tables(found)
    assert next(row[2] for row in rows if row[1] == "mJ on chip").strip().startswith("~")
    assert "; ~ that of par is estimated from other macros, which may be 10.0 % of the sum. In DRAM" in notes(found)[-1]


def test_fewer_cycles_by_more_host_nodes_is_not_better() -> None:
    assert comparison(point(A, 100, host_nodes=1), point(B, 200)).best("cycles", "n") == frozenset()
    assert comparison(point(A, 100), point(B, 200)).best("cycles", "n") == {"a"}


@pytest.mark.parametrize(("figure", "network"), [("cycle", "n"), ("cycles", "m")])
def test_an_unknown_figure_or_network(figure: str, network: str) -> None:
    with pytest.raises(ValueError, match=r"no (figure 'cycle' \(did you mean 'cycles'\?\)|network 'm'.*); there are: "):
        comparison(point(A, 100), point(B, 200)).best(figure, network)


def test_table_and_notes() -> None:
    failed = Failure("n", "h", "b", "kb", 1, "compile", "no instruction")
    found = comparison(point(A, 1000, host_nodes=2), ComparedPoint(failed, None, None))
    (table,) = comparison_tables(found)

    rows = {row[1]: tuple(cell.strip() for cell in row[2:]) for row in table[2]}
    assert table[:2] == ("Networks on machines; * is the best of its row", ("", "figure", "a", "b"))
    assert rows["cycles"] == ("1,000", "fails") and rows["ms"] == ("0.005", "fails")
    assert rows["host nodes"] == ("2", "fails")
    assert rows["mm²"] == ("2 *", "3") and rows["MHz"] == ("200", "250 *")
    assert notes(found) == [
        "n on b fails in the stage compile: no instruction",
        "Host nodes take time that is in no figure: the best of a network is one of the machines that leave the "
        "fewest to the host.",
        "Area: P, synthesised, not placed; logic estimated, of b fitted to the machine without the settings.",
        "The clock is that of the slowest unit: of a array; of b fetch.",
        "Energy on chip: of memories, clock, array and lanes; not of queues, control and wires; not known where par "
        "is accessed, which the process does not measure. In DRAM: assumed for each byte. mJ × ms counts both.",
    ]


def test_machines_that_do_not_fit_beside_each_other_have_a_table_more() -> None:
    tables = comparison_tables(comparison(point(A, 1000), point(B, 2000)), columns=1)
    assert [table[1][2:] for table in tables] == [("a",), ("b",)]
    assert "*" in tables[0][2][0][2] and "*" not in tables[1][2][0][2]


def test_a_line_of_csv_for_each_point() -> None:
    head, *lines = comparison_csv(comparison(point(A, 1000), point(B, 2000))).splitlines()
    first = dict(zip(head.split(","), lines[0].split(","), strict=True))
    assert len(lines) == 2
    assert (first["network"], first["machine"], first["cycles"], first["area_mm2"]) == ("n", "a", "1000", "2.0")


def test_compiles_and_simulates_each_network_on_each_machine() -> None:
    networks = [read_network(MODEL), Network("sandwich", sandwich().SerializeToString())]
    machines = candidates(["tiny8", "rect"])

    found = compare_machines(networks, machines, effort=0, with_price=False)

    assert [(of.network, of.machine) for of in found.points] == [
        (network.name, machine.name) for network in networks for machine in machines
    ]
    assert found.machines == {"tiny8": None, "rect": None}
    assert found.best("cycles", MODEL.stem) == {"rect"}
    assert found.point("sandwich", "rect").as_json()["host_nodes"] == 1


def test_a_given_clock_is_every_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.codesign.points.test_evaluate import price_by_hand
    from tilewright.codesign.compare import comparison as module
    from tilewright.codesign.points.priced import Priced

    def price_of(machine, like, with_clock):  # type: ignore[no-untyped-def]
        assert not with_clock
        return Priced(price_by_hand(machine), replace(A, machine=machine.name, clock_ns=None))

    monkeypatch.setattr(module, "price_of", price_of)
    found = compare_machines([read_network(MODEL)], candidates(["tiny8"]), effort=0, clock_mhz=100)
    (only,) = found.points
    assert only.derived is not None and isinstance(only.outcome, NetworkFigures)
    assert only.derived.ms == pytest.approx(only.outcome.cycles / 100e3)


@pytest.mark.parametrize(("cycles", "dram_bytes", "is_told"), [(120, 180, True), (120, 100, False), (100, 180, False)])
def test_a_larger_array_that_takes_longer_is_told(cycles: int, dram_bytes: int, is_told: bool) -> None:
    less = point(A, 100).outcome
    assert isinstance(less, NetworkFigures)
    told = padding_note("on b", less, replace(less, cycles=cycles, dram_bytes=dram_bytes))
    assert told == (
        "n takes 20.0 % more cycles on b: the array is larger than its layers, so that weights are filled up with "
        "zeros, and 80 bytes more pass from and to DRAM."
        if is_told
        else ""
    )


def test_only_a_larger_array_is_told() -> None:
    network = read_network(MODEL)
    found = compare_machines([network], candidates(["dw16"], ["array.rows=48"]), with_price=False)
    assert notes(found) == [
        "digits_int8 takes 61.1 % more cycles on dw16[array.rows=48]: the array is larger than its layers, so that "
        "weights are filled up with zeros, and 20,064 bytes more pass from and to DRAM."
    ]
    backwards = compare_machines([network], candidates(["dw16"], ["array.rows=48"])[::-1], with_price=False)
    assert notes(backwards) == []

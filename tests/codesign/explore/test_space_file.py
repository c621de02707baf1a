"""The file of a space: what it comes to, and every fault with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.codesign.errors import StudyError
from tilewright.codesign.explore.search import SEARCHES
from tilewright.codesign.explore.space_file import read_space

GOOD = """base: tiny8
keys:
  memories.act.kib: {from: 8, to: 32, times: 2}
  memories.wgt.kib: [8, 16]
  engines.vec.queue: {from: 2, to: 6, step: 2}
overlays:
  turbo: turbo.yaml
constraints:
  - memories.act.kib + memories.wgt.kib <= 40
  - area_mm2 <= 9
networks:
  one: one.onnx
  two: {model: one.onnx, weight: 2.5}
objectives: [cycles, area_mm2]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "one.onnx").write_bytes(b"")
    (tmp_path / "turbo.yaml").write_text("dram: {bus_bytes: 32}\n")
    return tmp_path


def faults(folder: Path, text: str) -> str:
    (folder / "space.yaml").write_text(text)
    with pytest.raises(StudyError) as caught:
        read_space(folder / "space.yaml")
    return str(caught.value).replace(f"{folder}/", "")


def test_points_are_all_combinations_that_are_allowed(folder: Path) -> None:
    (folder / "space.yaml").write_text(GOOD)
    space = read_space(folder / "space.yaml")
    assert [axis.values for axis in space.axes] == [(8, 16, 32), (8, 16), (2, 4, 6), (0, 1)]
    points = list(space.points())
    assert len(points) == len(set(points)) == 5 * 3 * 2  # of 6 pairs of memories, 32 + 16 is too much
    assert [network.weight for network in space.networks] == [1.0, 2.5]
    assert [network.batch for network in space.networks] == [None, None]


def test_a_point_that_aims_at_a_clock_is_the_same_machine_with_results_of_its_own(folder: Path) -> None:
    (folder / "space.yaml").write_text(GOOD.replace("constraints:", "targets: [165, 270]\nconstraints:"))
    space = read_space(folder / "space.yaml")
    slow, fast = ((8, 8, 2, 0, target) for target in (165, 270))
    machine = space.machine(slow)
    assert machine == space.machine(fast)
    assert (space.target_mhz(slow), space.target_mhz(fast)) == (165, 270)
    assert space.label(fast).endswith(" target_mhz=270")
    assert {slow, fast} < set(space.points())
    assert len({space.machine_key(point, machine) for point in (slow, fast)}) == 2


@pytest.mark.parametrize(
    ("values", "fault"),
    [
        ("[0]", "expected whole MHz from 1 to 100,000, not 0"),
        ("[true]", "expected whole MHz from 1 to 100,000, not True"),
        ("270", "expected a list such as [8, 16] or a range such as {from: 8, to: 32, times: 2}, not 270"),
    ],
)
def test_a_target_that_is_no_clock_is_refused(folder: Path, values: str, fault: str) -> None:
    text = GOOD.replace("constraints:", f"targets: {values}\nconstraints:")
    assert faults(folder, text) == f"space.yaml:8:10: targets: {fault}"


def test_no_overlay_is_called_as_what_points_aim_at(folder: Path) -> None:
    text = GOOD.replace("  turbo: turbo.yaml", "  target_mhz: turbo.yaml")
    fault = "overlays.target_mhz: is what a clock of `targets` is called; give it another name"
    assert faults(folder, text) == f"space.yaml:7:15: {fault}"


def test_an_engine_is_there_or_not(folder: Path) -> None:
    (folder / "two.yaml").write_text(
        "extends: tiny8\n"
        "engines: {vec2: {template: vector, queue: 2, results: 2, reads: [act], writes: [act]}}\n"
        "instructions: {copy: {engine: [vec, vec2]}, fill: {engine: vec2}}\n"
    )
    keys = "  engines.vec2: [false, true]\n  engines.vec2.queue: [2, 4]\n"
    (folder / "space.yaml").write_text(
        GOOD.replace("base: tiny8", "base: two.yaml").replace("keys:\n", f"keys:\n{keys}")
    )
    space = read_space(folder / "space.yaml")
    without, beside = ((there, 4, 8, 8, 2, 0) for there in (False, True))
    assert "vec2" not in space.machine(without).engines and "fill" not in space.machine(without).formats
    assert space.machine(beside).engines["vec2"].queue_depth == 4
    assert space.label(without).startswith("engines.vec2=false engines.vec2.queue=4 ")
    assert faults(folder, GOOD.replace("keys:\n", "keys:\n  engines.vec: [2, true]\n")) == (
        "space.yaml:3:16: keys.engines.vec: expected true or false, whether there is one, not 2"
    )


def test_the_type_of_a_memorys_elements_varies(folder: Path) -> None:
    """That of a field of a structure, too; a fault says what a type is."""
    said = "keys:\n  memories.acc.element: [int32, int24]\n  memories.par.element.bias: [int32, int28]\n"
    (folder / "space.yaml").write_text(GOOD.replace("keys:\n", said))
    space = read_space(folder / "space.yaml")
    point = next(each for each in space.points() if each[:2] == ("int24", "int28"))
    memories = space.machine(point).memories
    assert str(memories["acc"].element.type) == "int24"
    assert [str(field.type) for field in memories["par"].element.fields if field.name == "bias"] == ["int28"]
    wrong = faults(folder, GOOD.replace("keys:\n", "keys:\n  memories.acc.element: [int32, int99]\n"))
    assert "space.yaml:3:25: keys.memories.acc.element: unknown type 'int99'" in wrong


def test_a_point_is_the_machine_with_its_keys_set_over_its_overlays(folder: Path) -> None:
    (folder / "space.yaml").write_text(GOOD)
    space = read_space(folder / "space.yaml")
    machine = space.machine((16, 8, 4, 1))
    assert machine.text.count("kib: 16") == 1
    assert "queue: 4" in machine.text and machine.dram.bus_bytes == 32
    assert space.label((16, 8, 4, 1)) == "memories.act.kib=16 memories.wgt.kib=8 engines.vec.queue=4 +turbo"
    assert space.machine((16, 8, 4, 0)).dram.bus_bytes != 32


@pytest.mark.parametrize(
    ("right", "wrong", "fault"),
    [
        (
            "memories.wgt.kib: [8",
            "memories.wgt.kb: [8",
            "space.yaml:4:20: keys.memories.wgt.kb: memories.wgt has no key 'kb' (did you mean 'kib'?); "
            "it has: element, width, depth, kib, banks, ports, interleave",
        ),
        (
            "memories.wgt.kib: [8",
            "memories.w.kib: [8",
            "space.yaml:4:19: keys.memories.w.kib: memories has no key 'w'; it has: act, wgt, acc, par, lut",
        ),
        (
            "from: 8, to: 32",
            "from: 64, to: 32",
            "space.yaml:3:21: keys.memories.act.kib: no values from 64 to 32; the range is empty",
        ),
        (
            "[8, 16]",
            "[]",
            "space.yaml:4:21: keys.memories.wgt.kib: is empty; expected values such as [8, 16], or a range",
        ),
        ("[8, 16]", "[0]", "space.yaml:4:21: keys.memories.wgt.kib: 0 is out of range; expected 1 to 65536"),
        ("step: 2", "step: 2, times: 2", "space.yaml:5:22: keys.engines.vec.queue: a range takes either step or times"),
        (
            "<= 40",
            "<= 4",
            "space.yaml:9:5: constraints: no point of the space meets `memories.act.kib + memories.wgt.kib <= 4`",
        ),
        (
            "area_mm2 <= 9",
            "aera_mm2 <= 9",
            "space.yaml:10:5: constraints: `aera_mm2 <= 9`: 'aera_mm2' is no key of the machine and no figure "
            "(did you mean 'area_mm2'?)",
        ),
        (
            "area_mm2 <= 9",
            "open('x')",
            "space.yaml:10:5: constraints: \"open('x')\" is not a constraint; expected numbers, keys, figures, "
            "+ - * / // %, min, max, comparisons, and, or, not",
        ),
        (
            "[cycles, area_mm2]",
            "[cicles]",
            "space.yaml:14:14: objectives: unknown 'cicles' (did you mean 'cycles'?); expected logic_mm2, memory_mm2, "
            "area_mm2, kge, flip_flops, clock_mhz, cycles, run_cycles, ms, utilisation, dram_bytes, energy_mj, "
            "energy_delay, host_nodes",
        ),
        (
            "one: one.onnx",
            "one: two.onnx",
            "space.yaml:12:8: networks.one: there is no file 'two.onnx'; expected an ONNX model",
        ),
        ("weight: 2.5", "weight: 0", "space.yaml:13:34: networks.two.weight: expected a number above 0, not 0"),
        ("weight: 2.5", "batch: 0", "space.yaml:13:33: networks.two.batch: 0 is out of range; expected 1 to 1048576"),
        ("base: tiny8\n", "base: tiny8\neffort: 9\n", "space.yaml:2:9: effort: 9 is out of range; expected 0 to 2"),
        ("overlays:", "overlay:", "space.yaml:7:3: unknown key 'overlay' (did you mean 'overlays'?)"),
        ("turbo.yaml", "gone.yaml", "space.yaml:7:10: overlays.turbo: no machine"),
    ],
)
def test_faults_are_told_with_their_line(folder: Path, right: str, wrong: str, fault: str) -> None:
    assert GOOD.count(right) == 1
    assert faults(folder, GOOD.replace(right, wrong)).startswith(fault)


def test_all_faults_are_told_at_once(folder: Path) -> None:
    text = GOOD.replace("[8, 16]", "[]").replace("cycles", "cicles").replace("base: tiny8", "base: tiny9")
    assert [line.split(": ")[1] for line in faults(folder, text).splitlines()] == ["base", "objectives"]


def test_constraints_that_each_alone_could_be_met_are_refused_together(folder: Path) -> None:
    text = GOOD.replace("- area_mm2 <= 9", "- memories.act.kib >= 32\n  - memories.wgt.kib >= 16")
    assert "no point of the space meets all of the constraints" in faults(folder, text)


LARGE = """base: tiny8
keys:
  memories.act.kib: {from: 1, to: 9000, step: 1}
  memories.wgt.kib: {from: 1, to: 9000, step: 1}
  dram.outstanding_beats: {from: 17, to: 4016, step: 1}
constraints: [CONSTRAINT]
networks: {one: one.onnx}
objectives: [cycles]
"""


def test_of_a_large_space_some_points_are_tried(folder: Path) -> None:
    every = "memories.act.kib * memories.wgt.kib * dram.outstanding_beats"
    fault = f"no point of 20,000 that are spread over the space meets `{every} == 0`"
    assert faults(folder, LARGE.replace("CONSTRAINT", f"{every} == 0")).endswith(fault)


def test_a_large_space_is_searched_with_a_budget_only(folder: Path) -> None:
    (folder / "space.yaml").write_text(LARGE.replace("CONSTRAINT", "memories.act.kib < memories.wgt.kib"))
    space = read_space(folder / "space.yaml")
    for search in ("all", "spread", "local"):
        with pytest.raises(StudyError, match="the space has 324,000,000,000 points; without a budget, 1,000,000"):
            next(SEARCHES[search].batches(space, None))
        assert all(map(space.is_allowed, next(SEARCHES[search].batches(space, 20))))


def test_constraints_have_a_budget(folder: Path) -> None:
    more = "\n".join(f"  - memories.act.kib <= {number}" for number in range(1000, 1100))
    fault = "space.yaml:9:3: constraints: have more than 2000 characters together"
    assert faults(folder, GOOD.replace("  - area_mm2 <= 9", more)) == fault

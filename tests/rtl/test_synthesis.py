"""Multipliers of the merged datapath: as many as the instruction with most has. And what transposing tiles costs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.engines import array_of, vector_of
from tilewright.isa.files.loader import load_machine
from tilewright.isa.language.expressions import walk
from tilewright.isa.language.operations import Op
from tilewright.isa.machine.engine import Template
from tilewright.isa.machine.machine import Machine
from tilewright.isa.templates.datapath_schedule import bind, schedule
from tilewright.rtl.datapath import VectorDatapath
from tilewright.rtl.proof.datapath import one_lane
from tilewright.rtl.synthesis import COARSE, area, array_areas, cells, unshared


@pytest.fixture(scope="module", params=["base16", "with requantize_add"])
def machine(request: pytest.FixtureRequest, repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Machine:
    if request.param == "base16":
        return load_machine("base16")
    block = re.search(r"```yaml\n(# mine\.yaml.*?)```", (repository / "README.md").read_text(), re.DOTALL)
    assert block is not None
    path = tmp_path_factory.mktemp("overlay") / "mine.yaml"
    path.write_text(block[1])
    return load_machine(path)


def most_multipliers(machine: Machine) -> int:
    """Multiplications of the statement that has most of them."""
    formats = machine.formats_of(Template.VECTOR)
    return max(sum(node.op is Op.MUL for node in set(walk(format.statement.expr))) for format in formats)


def test_has_the_multipliers_of_the_most_demanding_instruction(machine: Machine) -> None:
    # A product of a wide factor takes two: those of its halves.
    assert cells(VectorDatapath(one_lane(machine), vector_of(machine)), COARSE)["$mul"] <= 2 * most_multipliers(machine)


@pytest.mark.slow
def test_sharing_saves_gates_and_multipliers() -> None:
    machine = load_machine("base16")
    formats = machine.formats_of(Template.VECTOR)
    merged = area("merged", machine, formats, bind(schedule(formats)))
    unmerged = area("unmerged", machine, formats, unshared(schedule(formats)))
    assert (merged.multipliers, unmerged.multipliers) == (2, 7)
    assert merged.gates < unmerged.gates


def test_transposes_cost_a_multiplexer_for_each_bit_of_each_weight_beside_the_diagonal() -> None:
    machine = load_machine("tiny8", ["lanes=3", "array.rows=3", "array.cols=3", "memories.wgt.kib=3"])
    both, plain = array_areas(machine, array_of(machine))
    assert both.gates - plain.gates == 8 * (3 * 3 - 3)
    assert both.flip_flops - plain.flip_flops == 1 + 3  # of row 0, and of the diagonals 1 to 3 on the way to (1, 2)


def test_an_array_without_transposes_has_one_form() -> None:
    machine = load_machine("tiny8", ["lanes=1", "array.rows=1", "array.cols=2"])
    assert [area.name for area in array_areas(machine, array_of(machine))] == ["tiles only"]

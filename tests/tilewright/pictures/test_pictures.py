"""The pictures of the documentation: those that the command draws now, and true to the runs that they show."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from tilewright.api import compile  # noqa: A004
from tilewright.errors import InputError
from tilewright.host.segments import ProgramRun
from tilewright.html.machine import machine_picture
from tilewright.isa.files.loader import load_machine
from tilewright.pictures.__main__ import DECODER, pictures
from tilewright.pictures.array import MACHINE, PROGRAM, small_flow, small_inputs, small_program
from tilewright.pictures.flow import array_flow
from tilewright.pictures.specialised import OVERLAY
from tilewright.simulator.profile import instructions_of_layers, layers_of

NAMES = ("array.svg", "machine.svg", "waits.svg", "tile.svg", "memory.svg", "token.svg", "specialised.svg")


@pytest.fixture(scope="module")
def drawn() -> Mapping[str, str]:
    return pictures()


@pytest.mark.parametrize("name", NAMES)
def test_the_committed_picture_is_what_the_command_draws(
    name: str, drawn: Mapping[str, str], repository: Path, update_golden: bool
) -> None:
    file = repository / "docs" / "pictures" / name
    if update_golden:
        file.write_text(drawn[name])
    assert file.read_text() == drawn[name]
    assert ElementTree.fromstring(drawn[name]).tag.endswith("svg")


def test_the_picture_of_an_instruction_shows_that_of_its_page(repository: Path) -> None:
    assert f"```yaml\n{OVERLAY}```" in (repository / "docs" / "specialise.md").read_text()


def test_all_pictures_are_in_the_folder(drawn: Mapping[str, str], repository: Path) -> None:
    assert sorted(drawn) == sorted(NAMES)
    assert {path.name for path in (repository / "docs" / "pictures").glob("*.svg")} == set(NAMES)


def test_the_page_has_the_machine_and_the_program_of_the_animation(repository: Path) -> None:
    page = (repository / "docs" / "systolic.md").read_text()
    assert f"```yaml\n{MACHINE}```" in page
    assert f"```asm\n{PROGRAM}```" in page


def test_what_the_animation_adds_up_is_the_convolution() -> None:
    flow, memories = small_flow()
    image, weights = (array.astype(int) for array in small_inputs().values())
    expected = np.zeros((2, 2, 4), int)
    for y, x, r, s in np.ndindex(2, 2, 2, 2):
        expected[y, x] += image[y + r, x + s] @ weights[r, s]
    sums = np.zeros((4, 4), int)
    for vector in flow.vectors:
        sums[vector.accumulator] += np.array(vector.elements) @ flow.tiles[vector.tile].weights
    assert sums.tolist() == expected.reshape(4, 4).tolist() == memories["acc"][:4].tolist()


def test_each_multiplier_has_one_product_at_a_time_and_its_weight_before() -> None:
    flow, _ = small_flow()
    for row, column in np.ndindex(flow.rows, flow.cols):
        times = [flow.multiplies(vector, row, column) for vector in flow.vectors]
        assert times == list(range(times[0], times[0] + 16))
        for vector in flow.vectors:
            assert flow.holds(flow.tiles[vector.tile], row, column) < flow.multiplies(vector, row, column)


def test_an_instruction_that_was_held_up_is_refused() -> None:
    (run,) = small_program().runs()
    _, memories = small_flow()
    late = replace(run.counters, retired=run.counters.retired + 1)
    with pytest.raises(InputError, match=r"^instruction 2 is retired in cycle 196: other engines held it up$"):
        array_flow(ProgramRun(run.program, late), 2, memories)


def test_the_way_of_a_token_has_every_instruction_of_its_layer(drawn: Mapping[str, str]) -> None:
    (run,) = compile(DECODER, "sequence16", effort=0).runs()
    layers = layers_of(run.program)
    indices = [
        index
        for layer, own in zip(layers, instructions_of_layers(run.program, layers), strict=True)
        for index in own
        if layer.name.startswith("layer1.")
    ]
    times = [(run.counters.started[index], run.counters.retired[index]) for index in indices]
    names = [run.program.instructions[index].mnemonic for index in indices]
    wanted = [f"{name}, cycles {a:,} to {b:,}" for name, (a, b) in zip(names, times, strict=True)]
    boxes = ElementTree.fromstring(drawn["token.svg"]).iter("{http://www.w3.org/2000/svg}title")
    assert sorted(title.text or "" for title in list(boxes)[1:]) == sorted(wanted)


@pytest.mark.parametrize("isa", ["tiny8", "vector16", "tensil8"])
def test_every_machine_has_a_picture(isa: str) -> None:
    machine = load_machine(isa)
    text = machine_picture(machine)
    assert all(f">{name}<" in text for name in (*machine.memories, *machine.engines))


def test_a_machine_with_many_engines_has_a_wider_picture_with_every_port(tmp_path: Path) -> None:
    path = tmp_path / "many.yaml"
    extra = ", ".join(
        f"v{number}: {{template: vector, queue: 2, results: 2, reads: [act], writes: [act]}}" for number in range(6)
    )
    copies = ", ".join(f"v{number}" for number in range(6))
    path.write_text(f"extends: tiny8\nengines: {{{extra}}}\ninstructions: {{copy: {{engine: [vec, {copies}]}}}}\n")
    machine = load_machine(path)
    few, many = machine_picture(load_machine("tiny8")), machine_picture(machine)
    width = [int(re.findall(r'viewBox="0 0 (\d+)', each)[0]) for each in (few, many)]
    right = max(float(x) + float(of) for x, of in re.findall(r'<rect x="([\d.]+)" y="[\d.]+" width="([\d.]+)"', many))
    assert width[0] < width[1] and right <= width[1]
    assert many.count("<polyline") == few.count("<polyline") + 6  # each of them reads and writes one memory

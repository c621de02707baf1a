"""A space with `specialise`: its points are with and without the instructions that are found for its base."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.codesign.specialise.test_candidates import depthwise
from tilewright.codesign.advise.trials import NoAdvice
from tilewright.codesign.errors import StudyError
from tilewright.codesign.explore.run import run
from tilewright.codesign.explore.space_file import read_space
from tilewright.codesign.explore.specialised import instructions_of, with_instructions
from tilewright.codesign.explore.store import INSTRUCTIONS_FILE as FILE
from tilewright.codesign.explore.store import Store, merged, put_space
from tilewright.codesign.explore.study import Study, space_line
from tilewright.codesign.specialise.specialise import Question

SPACE = """
base: base16
specialise: {share}
networks: {{depthwise: depthwise.onnx}}
objectives: [cycles, kge]
effort: 0
"""


@pytest.fixture
def space(tmp_path: Path) -> Path:
    (tmp_path / "depthwise.onnx").write_bytes(depthwise(16).SerializeToString())
    path = tmp_path / "space.yaml"
    path.write_text(SPACE.format(share="+20%"))
    return path


@pytest.mark.slow
def test_points_are_with_and_without_what_is_found(space: Path, tmp_path: Path) -> None:
    run(read_space(space), tmp_path / "study")

    without, with_them = Study(tmp_path / "study").measured
    assert (without.label, with_them.label) == ("base", "+specialised")
    assert with_them.figures["cycles"] < 0.7 * without.figures["cycles"]  # type: ignore[operator]
    assert without.figures["kge"] < with_them.figures["kge"] < 1.2 * without.figures["kge"]  # type: ignore[operator]
    found = instructions_of(read_space(space), tmp_path / "study")
    assert "channel_products_requantize_by_3" in found.machine((1,)).formats
    assert (tmp_path / "study" / FILE).is_file()


def test_where_nothing_pays_no_point_has_any(space: Path, tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("extends: base16\nabout: nothing pays\n")
    assert [axis.values for axis in instructions_of(read_space(space), tmp_path).axes] == [(0,)]


def test_commands_that_read_a_study_do_not_search(space: Path, tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="specialised.yaml is not there: `explore run` writes it"):
        instructions_of(read_space(space), tmp_path)


def test_the_networks_count_as_in_the_study(space: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By sums, also where each weighs 1: without weights each would count alike, however long it takes."""
    asked: list[Question] = []

    def noted(question: Question, **_: object) -> None:
        asked.append(question)
        raise NoAdvice("enough")

    monkeypatch.setattr("tilewright.codesign.specialise.specialise.specialise_machine", noted)
    with pytest.raises(StudyError, match="specialise: enough"):
        with_instructions(read_space(space), tmp_path)
    assert [question.objective.weights for question in asked] == [{"depthwise": 1.0}]


def part(folder: Path, space: Path, instructions: str) -> Path:
    put_space_of(folder, space)
    (folder / FILE).write_text(instructions)
    return folder


def put_space_of(folder: Path, space: Path) -> None:
    with Store(folder) as store:
        put_space(folder, space.read_text())
        store.add(space_line(read_space(space), {"depthwise": "hash"}))


def test_a_merged_study_has_the_instructions_of_its_parts(space: Path, tmp_path: Path) -> None:
    parts = [part(tmp_path / name, space, "extends: base16\nabout: nothing pays\n") for name in "ab"]
    merged(parts, tmp_path / "all")
    assert (tmp_path / "all" / FILE).read_text() == (parts[0] / FILE).read_text()


def test_parts_with_other_instructions_are_not_merged(space: Path, tmp_path: Path) -> None:
    parts = [part(tmp_path / name, space, f"extends: base16\nabout: {name}\n") for name in "ab"]
    with pytest.raises(StudyError, match=r"b/specialised.yaml: has other instructions than .*a/specialised.yaml"):
        merged(parts, tmp_path / "all")


def test_an_overlay_is_not_called_as_the_instructions_are(space: Path) -> None:
    space.write_text(space.read_text() + "overlays: {specialised: dw16}\n")
    with pytest.raises(StudyError, match="overlays.specialised: is what the instructions of `specialise` are called"):
        read_space(space)


@pytest.mark.parametrize("share", ["5", "-5%", "much"])
def test_what_is_no_share_is_refused(space: Path, share: str) -> None:
    space.write_text(SPACE.format(share=share))
    with pytest.raises(StudyError, match="specialise: expected how much logic the instructions may add, such as"):
        read_space(space)

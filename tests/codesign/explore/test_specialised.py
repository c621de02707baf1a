"""A space with `specialise`: its points are with and without the instructions that are found for its base."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.codesign.specialise.test_candidates import depthwise
from tilewright.codesign.errors import StudyError
from tilewright.codesign.explore.run import run
from tilewright.codesign.explore.space_file import read_space
from tilewright.codesign.explore.specialised import FILE, with_instructions
from tilewright.codesign.explore.study import Study

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
    found = with_instructions(read_space(space), tmp_path / "study")
    assert "channel_products_requantize_by_3" in found.machine((1,)).formats
    assert (tmp_path / "study" / FILE).is_file()


def test_where_nothing_pays_no_point_has_any(space: Path, tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("extends: base16\nabout: nothing pays\n")
    assert [axis.values for axis in with_instructions(read_space(space), tmp_path).axes] == [(0,)]


@pytest.mark.parametrize("share", ["5", "-5%", "much"])
def test_what_is_no_share_is_refused(space: Path, share: str) -> None:
    space.write_text(SPACE.format(share=share))
    with pytest.raises(StudyError, match="specialise: expected how much logic the instructions may add, such as"):
        read_space(space)

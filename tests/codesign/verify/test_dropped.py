"""Some of the points that a study dropped are compiled: a bound that a program goes below is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.codesign.explore.fake_worker import serve
from tilewright.codesign.errors import StudyError
from tilewright.codesign.explore import run as running
from tilewright.codesign.explore.run import run
from tilewright.codesign.explore.space import Space
from tilewright.codesign.explore.space_file import read_space
from tilewright.codesign.explore.study import Study
from tilewright.codesign.verify.dropped import TRIED, some_dropped
from tilewright.codesign.verify.verdict import BOUND, holds
from tilewright.codesign.verify.verify import verify

DIGITS = Path("programs/digits/digits_int8.onnx").resolve()


def study_with_dropped(folder: Path, monkeypatch: pytest.MonkeyPatch, least: int) -> tuple[Space, Path]:
    """Points of invented figures; of those with more memory than the first, no program is said to go below `least`."""
    (folder / "space.yaml").write_text(
        "base: tiny8\nkeys: {memories.act.kib: [8, 16, 32, 64, 128, 256], engines.vec.queue: [4]}\n"
        f"networks: {{one: {DIGITS}}}\nobjectives: [cycles, area_mm2]\neffort: 0\n"
    )
    space = read_space(folder / "space.yaml")
    with monkeypatch.context() as patch:
        patch.setattr(running, "least_cycles", lambda needs, machine: least)
        run(space, folder / "s", serve=serve)
    return space, folder / "s"


@pytest.mark.parametrize(("least", "does_hold"), [(5_000, True), (50_000, False)])
def test_a_point_is_compiled_against_its_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, least: int, does_hold: bool
) -> None:
    """The digits take some 6,700 cycles."""
    monkeypatch.setattr(running, "dominates", lambda own, best: True)  # whatever its figures are
    space, folder = study_with_dropped(tmp_path, monkeypatch, least)
    dropped = some_dropped(Study(folder))
    assert len(dropped) == TRIED
    label = dropped[0].label
    [found] = verify(folder, space, [label], [BOUND], lambda *_: holds(""))
    assert found.verdict.fails == (not does_hold)
    assert found.verdict.text.endswith(f" cycles, dropped for {least:,} at best")
    with pytest.raises(StudyError, match="has no figures to verify: it is dropped"):
        next(iter(verify(folder, space, [label], ["bits"], lambda *_: holds(""))))

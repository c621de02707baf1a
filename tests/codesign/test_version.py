"""The lines of a study say which code and which figures they are from."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from tilewright.codesign import version as module


def test_a_result_belongs_to_the_figures_of_the_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = Path(str(module.codesign.__file__)).parent
    shutil.copytree(folder / "processes", tmp_path / "processes")
    monkeypatch.setattr(module, "codesign", SimpleNamespace(__file__=str(tmp_path / "__init__.py")))
    before = module.version.__wrapped__()
    assert module.version.__wrapped__() == before
    with (tmp_path / "processes" / "sg13g2" / "process.yaml").open("a") as file:
        file.write("# another figure\n")
    assert module.version.__wrapped__() != before

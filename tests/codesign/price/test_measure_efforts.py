"""Each effort of mapping makes a processing element faster and larger."""

from __future__ import annotations

import itertools

import pytest

from tilewright.codesign.price.efforts import EFFORTS
from tilewright.codesign.price.measure_efforts import main, measured
from tilewright.codesign.price.process import load_process
from tilewright.isa.files.loader import load_machine


@pytest.mark.slow
def test_more_effort_is_faster_and_larger() -> None:
    machine = load_machine("tiny8", ["array.rows=2", "array.cols=2", "lanes=2"])
    found = measured(machine, load_process())["a processing element"]
    assert list(found) == list(EFFORTS)
    for (slower, smaller), (faster, larger) in itertools.pairwise(found.values()):
        assert faster < slower and larger > smaller


def test_an_unknown_machine_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nothing"]) == 1
    assert "nothing" in capsys.readouterr().err


def test_takes_settings_of_the_machine(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tiny8", "--set", "pipeline.mac=7", "--effort", "fast"]) == 1
    assert "pipeline.mac: 7 is out of range; expected 0 to 1" in capsys.readouterr().err

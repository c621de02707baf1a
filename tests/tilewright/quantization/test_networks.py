"""`compare` and `advise` take float models as `compile` does: quantised with `--calibration`."""

from __future__ import annotations

import json

import pytest

from tests.digits import FOLDER, MODEL
from tests.tilewright.command_line import Command
from tilewright.errors import InputError
from tilewright.quantization.networks import read_quantized

FLOAT = FOLDER / "digits.onnx"
WORDS = ("--isa", "tiny8", "--effort", 0, "--no-price")


def test_a_float_model_takes_the_cycles_of_its_int8_form(tilewright: Command) -> None:
    ended = tilewright("compare", FLOAT, MODEL, *WORDS, "--calibration", "random", "--json", "-")
    cycles = {point["network"]: point["cycles"] for point in json.loads(ended.out)["points"]}
    assert cycles["digits"] == cycles["digits_int8"]
    assert "warning: " in ended.err


@pytest.mark.slow
def test_advise_takes_one_too(tilewright: Command) -> None:
    only = ("--only", "dram.latency_cycles", "--jobs", 1)
    ended = tilewright("advise", FLOAT, *WORDS, *only, "--calibration", "random")
    assert ended.code == 0 and "dram.latency_cycles" in ended.out


def test_without_calibration_the_message_says_what_to_give(tilewright: Command) -> None:
    ended = tilewright("compare", FLOAT, *WORDS)
    assert "--calibration random" in " ".join(ended.out.split())


def test_calibration_of_int8_models_is_refused() -> None:
    with pytest.raises(InputError, match="quantises float models, and none of these is"):
        read_quantized([MODEL], None, "random")


def test_the_same_samples_give_the_same_network() -> None:
    first, second = (read_quantized([FLOAT], None, "random", seed=3)[0] for _ in range(2))
    assert first.hash == second.hash

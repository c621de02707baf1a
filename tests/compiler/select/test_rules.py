"""Texts of covers that do not compute their nests are refused with the rule and the line."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from tests.compiler.models import pool_model, residual_model
from tilewright.compiler.levels import COVERS
from tilewright.compiler.options import Options
from tilewright.compiler.pipeline import compile_model
from tilewright.compiler.rules import BrokenRule
from tilewright.compiler.select.rules import RULES
from tilewright.isa.files.loader import load_machine

MODELS = {"pool": pool_model, "residual": residual_model}


@cache
def text_of(model: str) -> str:
    dumped: dict[str, str] = {}
    compile_model(MODELS[model](np.random.default_rng(0)), load_machine("tiny8"), Options(effort=0), dumped.__setitem__)
    return dumped["select"]


@pytest.mark.parametrize(
    ("rule", "model", "old", "new"),
    [
        ("steps", "pool", "reduces = true", "reduces = false"),
        ("steps", "residual", "immediates = {zero = -8", "immediates = {zero = 7"),
        ("steps", "residual", "words = 36", "words = 37"),
        ("steps", "residual", '{tensor = "b"}', '{tensor = "x"}'),
        ("steps", "residual", '{step = "t1"}', '{step = "t0"}'),
        ("steps", "residual", 'scale = "scale"', 'scale = "bias"'),
        ("reads", "pool", "2*x + s", "3*x + s"),
        ("ranges", "residual", "b = [-128, 127]", "b = [0, 127]"),
    ],
)
def test_a_cover_that_computes_something_else_is_refused(rule: str, model: str, old: str, new: str) -> None:
    text = text_of(model)
    assert old in text
    changed = text[: text.rindex(old)] + new + text[text.rindex(old) + len(old) :]
    line = text.count("\n", 0, text.rindex(old)) + 1
    with pytest.raises(BrokenRule) as refused:
        COVERS.read(changed, load_machine("tiny8"))
    assert refused.value.rule == rule
    first = int(str(refused.value).removeprefix("line ").partition(":")[0])
    assert first <= line <= first + 4  # a cover begins a few lines above its steps


@pytest.mark.parametrize("model", MODELS)
def test_what_selection_gives_keeps_the_rules(model: str) -> None:
    COVERS.read(text_of(model), load_machine("tiny8"))


def test_the_rules_of_nests_come_first() -> None:
    assert [rule.name for rule in RULES][-3:] == ["covers", "memories", "steps"]

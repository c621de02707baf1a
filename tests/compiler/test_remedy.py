"""A proposed change loads, whichever key the machine's file has, and gives at least the words that were asked for."""

from pathlib import Path

import pytest

from compiler.remedy import larger_memory
from isa.loader import load_machine

TEXTS = {
    "kib": "extends: tiny8\n",
    "depth": "extends: tiny8\nmemories: {wgt: {kib: null, depth: 96, banks: 3}}\n",
    "odd words": "extends: base16\narray: {rows: 15, cols: 15}\nlanes: 3\nmemories: {wgt: {kib: 3, banks: 7}}\n",
}


@pytest.mark.parametrize("words", [120, 211, 1000])
@pytest.mark.parametrize("name", TEXTS)
def test_gives_at_least_the_words(name: str, words: int, tmp_path: Path) -> None:
    path = tmp_path / "machine.yaml"
    path.write_text(TEXTS[name])
    override = larger_memory(load_machine(path), "wgt", words)
    memory = load_machine(path, [override]).memories["wgt"]
    assert memory.depth >= words and memory.depth % memory.banks == 0

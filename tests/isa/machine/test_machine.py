"""A machine's instructions by engine."""

import pytest

from tilewright.isa.files.loader import load_machine

BASE16 = load_machine("base16")


@pytest.mark.parametrize(
    ("engine", "mnemonics"), [("mma", {"mma", "mma_transposed"}), ("store", {"store_act", "store_acc"})]
)
def test_finds_the_instructions_of_an_engine(engine: str, mnemonics: set[str]) -> None:
    assert {format.mnemonic for format in BASE16.formats_of(BASE16.engines[engine])} == mnemonics

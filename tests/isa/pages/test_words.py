"""The page of words is that of the language as it is."""

from pathlib import Path

from tilewright.isa.language.statement import WORDS
from tilewright.isa.pages.words import words_page


def test_committed_page_is_current(repository: Path, update_golden: bool) -> None:
    path = repository / "docs" / "statements.md"
    if update_golden:
        path.write_text(words_page())
    assert path.read_text() == words_page()


def test_has_a_row_for_every_word() -> None:
    assert [word for word in WORDS if f"| `{word}(" not in words_page()] == []

"""What a document shows of a dumped file."""

from pathlib import Path

import pytest

from tests.docs.excerpt import excerpt, fold, shortened


def test_long_constants_and_hashes_are_cut() -> None:
    assert shortened(f'dense<"0x{"AB" * 20}"> : x') == f'dense<"0x{"AB" * 8}…"> : x'
    assert shortened('dense<"0x0000803E">') == 'dense<"0x0000803E">'
    assert shortened(f'machine_hash = "{"12" * 32}"') == f'machine_hash = "{"12" * 8}…"'


def test_short_lines_stay() -> None:
    assert fold("  %x = y, z") == ["  %x = y, z"]


def test_long_lines_are_folded_and_nothing_is_lost() -> None:
    line = '  "tile.mma"(%x, %w) {' + ", ".join(f'key{i} = [{i}, "a b"]' for i in range(20)) + "} : (i8) -> ()"
    folded = fold(line)
    assert " ".join(part.strip() for part in folded) == line.strip()
    assert all(len(part) <= 100 and part.startswith("  ") for part in folded)
    assert all(part.startswith("      key") for part in folded[1:])


def test_only_lines_with_a_word_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "levels").mkdir()
    (tmp_path / "levels" / "07-tile.mlir").write_text("// head\na one\nb\nc\nd two\n")
    assert excerpt("// levels/05-tile.mlir, lines with one, two") == (
        "// levels/07-tile.mlir, lines with one, two\n// …\na one\n// …\nd two\n"
    )
    assert excerpt("// levels/05-tile.mlir").splitlines()[1:] == ["// head", "a one", "b", "c", "d two"]

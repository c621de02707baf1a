"""What a guide's blocks change, and what they refuse."""

from pathlib import Path

import pytest

from tests.docs.changes import NewFile, apply, changes, sections
from tests.docs.document import blocks

TEXT = """\
# Guide
## A pass
```diff
--- a/one.py
+++ b/one.py
@@ -2,3 +2,3 @@
 first
-second
+another

--- a/folder/two.py
+++ b/folder/two.py
@@ -0,0 +1 @@
+all
```
```python
# folder/three.py
x = 1
```
```python
# a remark about what follows
```
## More
```yaml
# mine.yaml
extends: base16
```
"""


def test_a_diff_has_a_change_for_each_file() -> None:
    first, second = changes(blocks(TEXT)[0])

    assert (first.path, second.path) == ("one.py", "folder/two.py")
    assert first.text.startswith("--- a/one.py\n") and first.text.endswith("+another\n\n")
    assert second.text == "--- a/folder/two.py\n+++ b/folder/two.py\n@@ -0,0 +1 @@\n+all\n"


def test_a_diff_without_a_file_is_none() -> None:
    (block,) = blocks("```diff\n-one\n+two\n```\n")

    with pytest.raises(AssertionError, match="expected `--- a/PATH`"):
        list(changes(block))


def test_a_new_file_is_named_in_its_first_line() -> None:
    _, named, remark, mine = blocks(TEXT)

    assert [*changes(named)] == [NewFile("folder/three.py", "x = 1\n")]
    assert [*changes(remark)] == []
    assert [*changes(mine)] == [NewFile("mine.yaml", "extends: base16\n")]


def test_a_section_goes_up_to_the_next_heading() -> None:
    found = sections(TEXT)

    assert list(found) == ["A pass", "More"]
    assert TEXT[found["More"]].startswith("## More\n")
    assert TEXT[found["A pass"]].endswith("follows\n```\n")


def test_a_patch_changes_its_place_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("zero\nfirst\nsecond\n\nfourth\n")

    apply(next(changes(blocks(TEXT)[0])), tmp_path)

    assert (tmp_path / "one.py").read_text() == "zero\nfirst\nanother\n\nfourth\n"


def test_a_new_file_gets_its_folder(tmp_path: Path) -> None:
    apply(NewFile("folder/three.py", "x = 1\n"), tmp_path)

    assert (tmp_path / "folder" / "three.py").read_text() == "x = 1\n"


def test_refuses_a_file_that_is_there(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("a\n")

    with pytest.raises(AssertionError, match="one.py is there already"):
        apply(NewFile("one.py", "c\n"), tmp_path)


@pytest.mark.parametrize("text", ["", "first\nthird\n\n"])
def test_refuses_a_patch_that_does_not_fit(text: str, tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text(text)

    with pytest.raises(AssertionError, match="git apply refuses the patch of one.py: error: patch failed: one.py:2"):
        apply(next(changes(blocks(TEXT)[0])), tmp_path)

    assert (tmp_path / "one.py").read_text() == text

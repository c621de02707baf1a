"""What a guide's blocks change, and what they refuse."""

from pathlib import Path

import pytest

from tests.docs.changes import Edit, NewFile, apply, changes, sections
from tests.docs.document import blocks

TEXT = """\
# Guide
## A pass
```diff
--- one.py
@@
 first
-second
+another
@@ further down

+last
--- folder/two.py
@@
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


def test_a_diff_has_a_change_for_each_place() -> None:
    assert [*changes(blocks(TEXT)[0])] == [
        Edit("one.py", "first\nsecond\n", "first\nanother\n"),
        Edit("one.py", "\n", "\nlast\n"),
        Edit("folder/two.py", "", "all\n"),
    ]


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


def test_an_edit_changes_its_place_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("zero\nfirst\nsecond\nthird\n")

    apply(Edit("one.py", "first\nsecond\n", "first\nanother\n"), tmp_path)

    assert (tmp_path / "one.py").read_text() == "zero\nfirst\nanother\nthird\n"


def test_a_new_file_gets_its_folder(tmp_path: Path) -> None:
    apply(NewFile("folder/three.py", "x = 1\n"), tmp_path)

    assert (tmp_path / "folder" / "three.py").read_text() == "x = 1\n"


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        (Edit("two.py", "a\n", "b\n"), "there is no file two.py"),
        (Edit("one.py", "b\n", "c\n"), "one.py has 0 places with these lines, expected one:\nb\n"),
        (Edit("one.py", "a\n", "b\n"), "one.py has 2 places with these lines, expected one:\na\n"),
        (NewFile("one.py", "c\n"), "one.py is there already"),
    ],
)
def test_refuses_what_does_not_fit_the_tree(change: Edit | NewFile, refusal: str, tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("a\naa\na\n")

    with pytest.raises(AssertionError) as refused:
        apply(change, tmp_path)

    assert str(refused.value).startswith(refusal)

"""What a document's blocks are taken for."""

from tests.docs.document import blocks, is_slow, promised, steady, with_outputs

TEXT = """\
```yaml
# mine.yaml: what it is for
extends: base16
```
Words.
```sh
# a remark
tilewright isa lint mine.yaml    # another
tilewright isa manual mine.yaml | grep '### mma'
```

```text
old
```
"""


def test_a_file_is_named_in_its_first_line() -> None:
    shown, commands, _ = blocks(TEXT)
    assert (shown.file_name, shown.commands, shown.line) == ("mine.yaml", (), 1)
    assert commands.file_name is None


def test_commands_lose_their_remarks_but_not_their_quotes() -> None:
    assert blocks(TEXT)[1].commands == (
        "tilewright isa lint mine.yaml",
        "tilewright isa manual mine.yaml | grep '### mma'",
    )


def test_only_text_right_after_commands_is_promised() -> None:
    shown, commands, output = blocks(TEXT)
    assert promised(commands, output) == output
    assert promised(shown, output) is None
    assert promised(commands, None) is None


def test_outputs_are_replaced_and_nothing_else() -> None:
    output = blocks(TEXT)[2]
    assert with_outputs(TEXT, {output: "new\nlines\n"}) == TEXT.replace("old\n", "new\nlines\n")


def test_hardware_is_slow() -> None:
    assert is_slow("tilewright rtl --isa tiny8 -o tiny8.v")
    assert is_slow("tilewright run net.npu --on rtl")
    assert not is_slow("tilewright isa lint base16")


def test_times_do_not_count() -> None:
    assert steady("compiled in 0.10 s\n") == steady("compiled in 12.00 s\n")
    assert steady("10 cycles") != steady("11 cycles")

"""Machine files of a stranger: large, deep or full of faults, and files that extend what is none of their business."""

from pathlib import Path

import pytest

from tests.fuzz.limits import limits
from tilewright.isa.errors import IsaError
from tilewright.isa.files.lint import lint
from tilewright.isa.files.loader import load_machine_text
from tilewright.isa.files.reader import MOST_COMPLAINTS

FULL_OF_FAULTS = {
    "unknown keys": "extends: base16\n" + "".join(f"k{i}: 1\n" for i in range(6000)),
    "unknown keys in a line": "extends: base16\narray: {" + ", ".join(f"k{i}: 1" for i in range(6000)) + "}\n",
    "memories without keys": "extends: base16\nmemories:\n" + "".join(f"  m{i}: {{}}\n" for i in range(6000)),
    "instructions without keys": "extends: base16\ninstructions:\n" + "".join(f"  m{i}: {{}}\n" for i in range(6000)),
    "unknown words": "extends: base16\nengines: {vec: {reads: [" + ", ".join(f"w{i}" for i in range(6000)) + "]}}\n",
}


@pytest.mark.parametrize("what", FULL_OF_FAULTS)
def test_a_file_full_of_faults_takes_no_longer_than_reading_it(tmp_path: Path, what: str) -> None:
    path = tmp_path / "m.yaml"
    path.write_text(FULL_OF_FAULTS[what])
    with limits():
        faults = lint(path)
    assert len(faults) == MOST_COMPLAINTS + 1
    assert faults[-1] == f"there may be more than these {MOST_COMPLAINTS} faults; correct them first"


def test_reads_each_file_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, read = tmp_path / "m.yaml", []
    path.write_text("extends: base16\n" + "".join(f"k{i}: 1\n" for i in range(100)))
    real = Path.stat
    monkeypatch.setattr(Path, "stat", lambda self, **more: (read.append(self), real(self, **more))[1])
    assert len(lint(path)) == 100
    assert read.count(path) < 10


DEEP = {
    "lists": "a: " + "[" * 20_000 + "]" * 20_000,
    "mappings": "".join(" " * depth + "a:\n" for depth in range(600)),
    "aliases": "a0: &a0 [x, x, x, x, x, x, x, x, x]\n"
    + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 10)),
    "merged aliases": "a0: &a0 {x: 1}\n"
    + "".join(f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 9)}]}}\n" for i in range(1, 10)),
    "a long line": "extends: base16\nlanes: " + "(" * 100_000,
}


@pytest.mark.parametrize("what", DEEP)
def test_a_file_that_is_deep_or_long_is_one_fault(tmp_path: Path, what: str) -> None:
    path = tmp_path / "m.yaml"
    path.write_text(DEEP[what])
    with limits():
        faults = lint(path)
    assert len(faults) == 1
    assert len(faults[0]) < 2000


def test_nothing_of_a_file_that_is_too_large_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "m.yaml"
    with open(path, "wb") as file:
        file.truncate(1 << 32)
    with limits():
        faults = lint(path)
    assert faults == (f"{path}: has 4294967296 bytes; expected at most 1048576, a machine file",)


SECRETS = {
    "no YAML": "root:x:0:0: secret\n\tsecret: [",
    "a text": "secret\nsecret secret\n",
    "keys of something else": "name: secret\nusers: {secret: secret}\n",
    "a repeated key": "secret: 1\nsecret: 2\n",
    "an explosion": "secret: &secret [*secret]\n",
    "no UTF-8": "secret \udcff",
}


@pytest.mark.parametrize("what", SECRETS)
@pytest.mark.parametrize("name", ["passwd", "config.yaml"])
def test_extending_a_file_tells_nothing_of_what_is_in_it(tmp_path: Path, what: str, name: str) -> None:
    private = tmp_path / "home" / name
    private.parent.mkdir()
    private.write_bytes(SECRETS[what].encode(errors="surrogateescape"))
    path = tmp_path / "m.yaml"
    path.write_text(f"extends: ./home/{name}\narray: {{rows: 4}}\n")
    (fault,) = lint(path)
    assert "secret" not in fault
    assert str(private) in fault


def test_extending_a_machine_file_tells_its_faults(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text("extends: base16\nlanse: 8\n")
    path = tmp_path / "m.yaml"
    path.write_text("extends: ./base.yaml\n")
    (fault,) = lint(path)
    assert "unknown key 'lanse' (did you mean 'lanes'?)" in fault
    assert fault.splitlines()[1] == "    lanse: 8"


def test_a_text_out_of_a_binary_opens_no_file(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text("secret: [")
    with pytest.raises(IsaError) as refused:
        load_machine_text(f"extends: {tmp_path}/base.yaml", "m", may_extend=False)
    assert str(refused.value) == "m:1:1: extends another machine; expected all of it"

"""Every path, module and link that a document names leads somewhere."""

from __future__ import annotations

import importlib.util
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

DOCUMENTS = tuple(
    str(path.relative_to(ROOT))
    for pattern in ("*.md", "docs/*.md", "programs/*/README.md")
    for path in sorted(ROOT.glob(pattern))
)

TOP_FOLDERS = ("isa", "compiler", "simulator", "rtl", "tilewright", "programs", "tests", "docs", ".ci")

FENCED = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"[\w.*-]+/(?:[\w.*-]+/)*[\w.*-]*")
FILE = re.compile(r".+\.(?:py|md|yaml|s|onnx|npz|svg)")
MODULE = re.compile(r"python -m ((?:tests|programs|tilewright)[\w.]*)")
ATTRIBUTE = re.compile(r"tilewright(?:\.\w+)+(?<!\.h)(?<!\.c)(?<!\.svd)")
"""Of a package, and not a file of a bundle."""

LINK = re.compile(r"\]\(([^)\s#:]*)(?:#([^)\s]+))?\)")


# The guide's examples make files; tests/docs/test_extending.py sees that all others that it names exist.
@pytest.mark.parametrize("name", [name for name in DOCUMENTS if name != "docs/extending.md"])
def test_paths_exist(name: str) -> None:
    document = ROOT / name
    assert [path for path in named_paths(document.read_text()) if not exists(path, document)] == []


@pytest.mark.parametrize("name", DOCUMENTS)
def test_modules_and_their_names_exist(name: str) -> None:
    text = (ROOT / name).read_text()
    assert [module for module in MODULE.findall(text) if importlib.util.find_spec(module) is None] == []
    for span in SPAN.findall(FENCED.sub("", text)):
        if ATTRIBUTE.fullmatch(span):
            pkgutil.resolve_name(span)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_links_lead_somewhere(name: str) -> None:
    document = ROOT / name
    links = LINK.findall(FENCED.sub("", document.read_text()))
    assert [link for link in links if not leads_somewhere(*link, document)] == []


def test_sees_paths_in_prose_and_in_commands() -> None:
    text = "Run `pytest isa/gone.py::test_it`, see `gone/` and a/b `1/2`.\n```sh\npython programs/gone.py -o x/y\n```\n"
    assert list(named_paths(text)) == ["isa/gone.py", "gone/", "programs/gone.py"]


def test_knows_the_anchors_of_headings() -> None:
    assert anchors("# A\n## 1. First program: `x`, y\n") == {"a", "1-first-program-x-y"}


def named_paths(text: str) -> Iterator[str]:
    """What looks like a path of the repository: in backticks, or in a block of commands below a top folder."""
    for span in SPAN.findall(FENCED.sub("", text)):
        yield from (path for path in words(span) if is_path(path) or path.startswith(below_top()))
    for language, block in FENCED.findall(text):
        if language in ("", "sh"):
            yield from (path for path in words(block) if path.startswith(below_top()))


def words(text: str) -> Iterator[str]:
    """The words of a command that are spelled like paths, without the test or the line that follows a colon."""
    return (path for word in text.split() if PATH.fullmatch(path := word.partition(":")[0]))


def is_path(word: str) -> bool:
    return word.endswith("/") or FILE.fullmatch(word) is not None


def below_top() -> tuple[str, ...]:
    return tuple(f"{folder}/" for folder in TOP_FOLDERS)


def exists(path: str, document: Path) -> bool:
    """Whether the repository or the document's own folder has it; `*` stands for any name."""
    return any(any(folder.glob(path.rstrip("/"))) for folder in (ROOT, document.parent))


def leads_somewhere(path: str, anchor: str, document: Path) -> bool:
    target = document.parent / path if path else document
    return target.exists() and (not anchor or anchor in anchors(target.read_text()))


def anchors(text: str) -> set[str]:
    """The names under which a page's headings can be linked to."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}

"""What MkDocs makes pages of: the Markdown of the repository in its places, what it links to, and the API."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

import tilewright

PAGES = ("*.md", "docs/*.md", "programs/*/README.md")

LINK = re.compile(r"\]\(([^)#:\s]+)(#[^)\s]*)?\)")
"""A link to a file, in Markdown; one to another host has a colon."""

REFERENCE = "docs/reference.md"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Pages by their paths in the repository, beside the files of the theme."""
    root = Path(config.config_file_path).parent
    for file in list(files):
        if file.src_dir == config.docs_dir:
            files.remove(file)
    for path in sorted(site_files(root)):
        files.append(File(path, str(root), config.site_dir, config.use_directory_urls))
    files.append(File.generated(config, REFERENCE, content=reference()))
    return files


def site_files(root: Path) -> set[str]:
    """The pages, and the files of the repository that they link to; one that is missing is left to the build to say."""
    pages = {str(path.relative_to(root)) for pattern in PAGES for path in root.glob(pattern)}
    return pages | {linked for page in pages for linked in _linked(root, page)}


def _linked(root: Path, page: str) -> Iterator[str]:
    for link in LINK.finditer((root / page).read_text()):
        path = (root / page).parent.joinpath(link[1]).resolve()
        if path.is_file() and path.is_relative_to(root.resolve()):
            yield str(path.relative_to(root.resolve()))


def reference() -> str:
    """The page of the Python API: each public name, from its docstring."""
    names = sorted(tilewright.__all__, key=lambda name: (name[0].isupper(), name.lower()))
    parts = [f"::: {tilewright._HOMES[name]}.{name}\n" for name in names]
    return "\n".join(["# Python API", "What `import tilewright` gives.\n", *parts])

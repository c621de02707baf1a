"""Pages for a folder of dumps: an index, and for each layer what every pass made of it, linked with each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from tilewright.compiler.levels import INSTRUCTIONS
from tilewright.compiler.pipeline import pass_named
from tilewright.dumps.layers import layer_text, parts_of
from tilewright.isa.program.program import Layer

STYLE = """:root { color-scheme: light dark; font: 1rem/1.5 system-ui, sans-serif }
body { max-width: 110rem; margin: 1rem auto; padding: 0 1rem }
pre { overflow-x: auto; border: 1px solid #8888; padding: .5rem; font-size: .8rem }
nav a { margin-right: .8rem }
td, th { padding: .1rem .8rem .1rem 0; text-align: left } td.number { text-align: right }"""


def dump_pages(
    texts: Mapping[str, Mapping[str, str]], layers: Mapping[str, Sequence[Layer]], title: str
) -> dict[str, str]:
    """The pages by file name. `texts`: by the subfolder of each program (empty for the only one), its files.

    A file's name is `05-fuse.mlir`: its pass stands between the dash and the dot.
    """
    pages = {"index.html": _index(texts, layers, title)}
    for folder, files in texts.items():
        cut = {name: parts_of(text, layers[folder], _is_assembly(name)) for name, text in files.items()}
        for position, layer in enumerate(layers[folder]):
            shown = {name: layer_text(parts, position) for name, parts in cut.items()}
            pages[f"{folder}{_page(position)}"] = _layer(folder, position, layers[folder], layer, shown)
    return pages


def pass_of(name: str) -> str:
    """The pass of a file."""
    return name.partition("-")[2].rpartition(".")[0]


def _is_assembly(name: str) -> bool:
    return name.endswith(INSTRUCTIONS.suffix)


def _page(position: int) -> str:
    return f"layer-{position:03}.html"


def _index(texts: Mapping[str, Mapping[str, str]], layers: Mapping[str, Sequence[Layer]], title: str) -> str:
    sections = []
    for folder, files in texts.items():
        heading = f"<h2>{escape(folder.rstrip('/'))}</h2>" if folder else ""
        passes = "".join(
            f'<tr><td><a href="{folder}{name}">{escape(name)}</a></td><td>{pass_named(pass_of(name)).after.name}</td>'
            f'<td class="number">{len(text.encode()):,}</td></tr>'
            for name, text in files.items()
        )
        rows = "".join(
            f'<tr><td><a href="{folder}{_page(position)}">{escape(layer.name)}</a></td>'
            f"<td>{escape(', '.join(layer.nodes))}</td></tr>"
            for position, layer in enumerate(layers[folder])
        )
        sections.append(
            f"{heading}<h3>Layers</h3><table><tr><th>layer</th><th>nodes</th></tr>{rows}</table>"
            f"<h3>Passes</h3><table><tr><th>file</th><th>level</th><th>bytes</th></tr>{passes}</table>"
        )
    return _html(title, f"<h1>{escape(title)}</h1>" + "".join(sections))


def _layer(folder: str, position: int, layers: Sequence[Layer], layer: Layer, shown: Mapping[str, str]) -> str:
    index = "../index.html" if folder else "index.html"
    links = [f'<a href="{index}">index</a>']
    for other, word in ((position - 1, "previous"), (position + 1, "next")):
        if 0 <= other < len(layers):
            links.append(f'<a href="{_page(other)}">{word} layer: {escape(layers[other].name)}</a>')
    passes = "".join(f'<a href="#{pass_of(name)}">{pass_of(name)}</a>' for name in shown)
    sections = "".join(
        f'<h2 id="{pass_of(name)}"><a href="{name}">{pass_of(name)}</a></h2><pre>{escape(text) or "nothing"}</pre>'
        for name, text in shown.items()
    )
    body = f"<nav>{''.join(links)}</nav><h1>{escape(layer.name)}</h1><nav>{passes}</nav>{sections}"
    return _html(layer.name, body)


def _html(title: str, body: str) -> str:
    head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>{STYLE}</style>'
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{body}</body></html>\n'

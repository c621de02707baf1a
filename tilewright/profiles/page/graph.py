"""The network's graph as a picture in the page: a box a layer, coloured by its share of the cycles."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from tilewright.host.segments import ProgramRun
from tilewright.html.wide import wide
from tilewright.profiles.flows import INPUT, Flow, flows
from tilewright.profiles.page.hosts import HostPart
from tilewright.profiles.page.layout import HEIGHT, DrawnBox, strips, way
from tilewright.profiles.page.repeats import Repeat, repeats
from tilewright.simulator.profile import layers_of
from tilewright.simulator.run_profile import LayerProfile, RunProfile
from tilewright.terminal.tables import percent

Spans = Sequence[tuple[int, int]]
"""For each layer, its first cycle and the one behind its last."""

Edges = Mapping[tuple[int, int], Sequence[Flow]]
"""What passes between two layers, by (writer, reader)."""

CHARACTER = 7.4
"""The width of a letter in the graph, in pixels, on average."""


@dataclass(frozen=True, slots=True)
class Node:
    """What is in one box: a layer, repeated blocks of layers, or what the host computes; `part` is its program's."""

    name: str
    line: str
    hint: str
    cycles: int
    link: str
    part: int

    @property
    def is_host(self) -> bool:
        return self.link == "#host"


def network_graph(
    profile: RunProfile,
    runs: Sequence[ProgramRun],
    spans: Spans,
    hosts: Sequence[HostPart] = (),
    operators: Sequence[str] = (),
) -> str:
    """The graph as SVG; each box is a link to its layer in the time line, a grey one to what the host computes.

    `operators` has a line for each layer. Where blocks of layers are alike and follow each other, a second graph shows
    each such block once, and is the one that is seen first.
    """
    edges, parts = _whole(runs)
    lines = operators or [""] * len(profile.layers)
    alone = [Repeat(layer, 1, 1) for layer in range(len(profile.layers))]
    folded = [one for part in parts for one in _repeats(profile.layers, lines, edges, part)]
    whole = _picture(profile, alone, edges, parts, spans, hosts, lines)
    if len(folded) == len(alone):
        return _shown(whole, "The network")
    short = _picture(profile, folded, edges, parts, spans, hosts, lines)
    button = '<p><button type="button" class="fold" aria-expanded="false" aria-controls="all-layers">'
    button += f"Show all {len(alone)} layers</button></p>"
    return (
        f'{button}<div id="folded">{_shown(short, "The network, repeated blocks once")}</div>'
        f'<div id="all-layers" hidden>{_shown(whole, "The network, all layers")}</div>'
    )


def _shown(picture: str, what: str) -> str:
    return wide(picture, what, "graphs")


def _whole(runs: Sequence[ProgramRun]) -> tuple[dict[tuple[int, int], list[Flow]], list[range]]:
    """The edges between layers counted over all programs, and the layers of each program."""
    edges: dict[tuple[int, int], list[Flow]] = {}
    parts: list[range] = []
    for run in runs:
        first = parts[-1].stop if parts else 0
        parts.append(range(first, first + len(layers_of(run.program))))
        for flow in flows(run.program):
            if flow.writer != INPUT:  # what the host gives is left out
                edges.setdefault((first + flow.writer, first + flow.reader), []).append(flow)
    return edges, parts


def _repeats(layers: Sequence[LayerProfile], lines: Sequence[str], edges: Edges, part: range) -> list[Repeat]:
    """The repeats of a program: layers are alike that compute the same from layers as far before them."""
    reads: dict[int, list[int]] = {}
    for writer, reader in edges:
        reads.setdefault(reader, []).append(reader - writer)
    kinds: list[Hashable] = [
        (lines[at], layers[at].macs, len(layers[at].nodes), tuple(sorted(reads.get(at, ())))) for at in part
    ]
    return [Repeat(part.start + one.first, one.length, one.times) for one in repeats(kinds)]


def _picture(
    profile: RunProfile,
    boxes: Sequence[Repeat],
    edges: Edges,
    parts: Sequence[range],
    spans: Spans,
    hosts: Sequence[HostPart],
    lines: Sequence[str],
) -> str:
    nodes: list[Node] = []
    at: dict[int, int] = {}  # the box of each layer
    for number in range(len(parts) + 1):
        nodes += [_host_node(part, number) for part in hosts if part.programs == number]
        for one in boxes:
            if number < len(parts) and one.first in parts[number]:
                at.update(dict.fromkeys(one.layers, len(nodes)))
                nodes.append(_node(profile.layers, one, spans, lines, number))
    between: dict[tuple[int, int], list[Flow]] = {}
    for (writer, reader), own in edges.items():
        if at[writer] != at[reader]:
            between.setdefault((at[writer], at[reader]), []).extend(own)
    placed, width, height = strips(_places_of_all(nodes, list(between)))
    most = max((node.cycles for node in nodes), default=1) or 1
    drawn = [_edge(placed[writer], placed[reader], own) for (writer, reader), own in between.items()]
    drawn += [_box(box, node, max(1, profile.cycles), most) for box, node in zip(placed, nodes, strict=True)]
    head = f'<svg class="graph" width="{width:g}" height="{height}" viewBox="0 0 {width:g} {height}">'
    return f"{head}{''.join(drawn)}</svg>"


def _places_of_all(nodes: Sequence[Node], edges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Rows and columns of all programs, one below the other; nodes of the host have rows of their own."""
    found: list[tuple[int, int]] = []
    while len(found) < len(nodes):
        first = len(found)
        below = 1 + max((row for row, _ in found), default=-1)
        own = [node for node in nodes[first:] if (node.part, node.is_host) == (nodes[first].part, nodes[first].is_host)]
        inside = [(writer - first, reader - first) for writer, reader in edges if writer >= first]
        if own[0].is_host:
            inside = [(one, one + 1) for one in range(len(own) - 1)]
        found += [(below + row, column) for row, column in places(len(own), inside)]
    return found


def places(count: int, edges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The row and column of each layer: below all that it reads, and if there is room, right below the nearest."""
    before: dict[int, list[int]] = {}
    for writer, reader in edges:
        before.setdefault(reader, []).append(writer)
    found: list[tuple[int, int]] = []
    taken: set[tuple[int, int]] = set()
    for layer in range(count):
        read = [found[writer] for writer in before.get(layer, []) if writer < layer]
        row, column = max(read, default=(-1, 0))
        row += 1
        while (row, column) in taken:
            column += 1
        taken.add((row, column))
        found.append((row, column))
    return found


def _node(layers: Sequence[LayerProfile], one: Repeat, spans: Spans, lines: Sequence[str], part: int) -> Node:
    own = [layers[at] for at in one.layers]
    cycles = sum(layer.cycles for layer in own)
    first, last = min(spans[at][0] for at in one.layers), max(spans[at][1] for at in one.layers)
    link = f'#time" data-first="{first}" data-last="{last}'
    if one.times == 1 and one.length == 1:
        hint = f"{own[0].name}: {cycles:,} cycles, {percent(own[0].utilisation)} of the array"
        hint += f"; {lines[one.first]}" * bool(lines[one.first])
        return Node(own[0].name, lines[one.first], hint, cycles, link, part)
    block = "; ".join(filter(None, lines[one.first : one.first + one.length]))
    hint = f"{one.times} times {one.length} layers, {cycles:,} cycles: {', '.join(layer.name for layer in own)}"
    name = f"{one.times} × {one.length} layers: {own[0].name}"
    return Node(name, block, f"{hint}. Each: {block}" if block else hint, cycles, link, part)


def _host_node(part: HostPart, number: int) -> Node:
    hint = "\n".join(f"{node.name} ({node.op_type}): {node.reason}" for node in part.nodes)
    return Node(part.title, "on the host", hint, 0, "#host", number)


def _box(box: DrawnBox, node: Node, cycles: int, most: int) -> str:
    frame = f'x="{box.x:g}" y="{box.y}" width="{box.width}" height="{HEIGHT}" rx="4"'
    letters = int((box.width - 16) / CHARACTER)
    head = f'<a href="{node.link}"><title>{escape(node.hint)}</title>'
    line = f'<text class="line" x="{box.x + 8:g}" y="{box.y + 32}">{escape(_short(node.line, letters))}</text>'
    if node.is_host:
        name = f'<text x="{box.x + 8:g}" y="{box.y + 16}">{escape(_short(node.name, letters))}</text>'
        return f'{head}<rect class="host" {frame}/>{name}{line}</a>'
    share = f'<text class="share" x="{box.x + box.width - 8:g}" y="{box.y + 16}">{percent(node.cycles / cycles)}</text>'
    name = f'<text x="{box.x + 8:g}" y="{box.y + 16}">{escape(_short(node.name, letters - 7))}</text>'
    heat = f'<rect class="heat" {frame} fill-opacity="{0.75 * node.cycles / most:.3f}"/>'
    return f"{head}<rect {frame}/>{heat}{name}{share}{line}</a>"


def _short(text: str, letters: int) -> str:
    """The text, with its middle left out where it has more letters: names and shapes differ at their ends."""
    if len(text) <= letters:
        return text
    half = (letters - 1) // 2
    return f"{text[: letters - 1 - half]}…{text[-half:]}"


def _edge(writer: DrawnBox, reader: DrawnBox, own: Sequence[Flow]) -> str:
    kind = "dram" if any(flow.is_dram for flow in own) else "chip"
    hint = "; ".join(dict.fromkeys(flow.text for flow in own))
    return f'<path class="{kind}" d="{way(writer, reader)}"><title>{escape(hint)}</title></path>'

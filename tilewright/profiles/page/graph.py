"""The network's graph as a picture in the page: a box a layer, coloured by its share of the cycles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from tilewright.host.segments import ProgramRun
from tilewright.profiles.flows import INPUT, Flow, flows
from tilewright.profiles.page.hosts import HostPart
from tilewright.simulator.profile import layers_of
from tilewright.simulator.run_profile import LayerProfile, RunProfile
from tilewright.terminal.tables import percent

BOX_WIDTH, BOX_HEIGHT, COLUMN, ROW = 250, 24, 320, 42
LEFT, TOP = 16, 12

Spans = Sequence[tuple[int, int]]
"""For each layer, its first cycle and the one behind its last."""


@dataclass(frozen=True, slots=True)
class Node:
    """A layer, counted over all programs, and its place: rows go down along the network, columns are branches."""

    layer: int
    row: int
    column: int


def network_graph(profile: RunProfile, runs: Sequence[ProgramRun], spans: Spans, hosts: Sequence[HostPart] = ()) -> str:
    """The graph as SVG; each box is a link to its layer in the time line, a grey one to what the host computes."""
    nodes: list[Node] = []
    edges: list[tuple[int, int, list[Flow]]] = []
    below, grey = 0, []
    for number, run in enumerate(runs):
        own_hosts = [part for part in hosts if part.programs == number]
        grey += [_host_box(part, below + row) for row, part in enumerate(own_hosts)]
        first, top = len(nodes), below + len(own_hosts)
        between = _edges(flows(run.program))
        nodes += [
            Node(first + position, top + row, column)
            for position, (row, column) in enumerate(places(len(layers_of(run.program)), list(between)))
        ]
        edges += [(first + writer, first + reader, own) for (writer, reader), own in between.items()]
        below = 1 + max((node.row for node in nodes), default=-1)
    last = [part for part in hosts if part.programs == len(runs)]
    grey += [_host_box(part, below + row) for row, part in enumerate(last)]
    layers, cycles = profile.layers, max(1, profile.cycles)
    most = max((layer.cycles for layer in layers), default=1) or 1
    width = LEFT + COLUMN * (1 + max(node.column for node in nodes)) + 120
    height = TOP + ROW * (below + len(last))
    parts = grey + [_edge(nodes[writer], nodes[reader], own) for writer, reader, own in edges]
    for node, layer, span in zip(nodes, layers, spans, strict=True):
        parts.append(_box(node, layer, layer.cycles / cycles, layer.cycles / most, span))
    head = f'<svg class="graph" width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
    return f'<div class="scroll" tabindex="0">{head}{"".join(parts)}</svg></div>'


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


def _edges(found: Sequence[Flow]) -> dict[tuple[int, int], list[Flow]]:
    """The flows between two layers by (writer, reader); what the host gives is left out."""
    edges: dict[tuple[int, int], list[Flow]] = {}
    for flow in found:
        if flow.writer != INPUT:
            edges.setdefault((flow.writer, flow.reader), []).append(flow)
    return edges


def _box(node: Node, layer: LayerProfile, share: float, heat: float, span: tuple[int, int]) -> str:
    x, y = LEFT + COLUMN * node.column, TOP + ROW * node.row
    name = layer.name
    short = name if len(name) <= 26 else f"{name[:12]}…{name[-13:]}"
    hint = f"{name}: {layer.cycles:,} cycles, {percent(layer.utilisation)} of the array"
    return (
        f'<a href="#time" data-first="{span[0]}" data-last="{span[1]}"><title>{escape(hint)}</title>'
        f'<rect x="{x}" y="{y}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="4"/>'
        f'<rect class="heat" x="{x}" y="{y}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="4" '
        f'fill-opacity="{0.75 * heat:.3f}"/>'
        f'<text x="{x + 8}" y="{y + 16}">{escape(short)}</text>'
        f'<text class="share" x="{x + BOX_WIDTH - 8}" y="{y + 16}">{percent(share)}</text></a>'
    )


def _host_box(part: HostPart, row: int) -> str:
    x, y = LEFT, TOP + ROW * row
    hint = "\n".join(f"{node.name} ({node.op_type}): {node.reason}" for node in part.nodes)
    return (
        f'<a href="#host"><title>{escape(hint)}</title>'
        f'<rect class="host" x="{x}" y="{y}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="4"/>'
        f'<text x="{x + 8}" y="{y + 16}">{escape(part.title)}</text></a>'
    )


def _edge(writer: Node, reader: Node, own: Sequence[Flow]) -> str:
    """Straight down to the next row of the same column, otherwise a curve that passes beside the boxes."""
    x, y = LEFT + COLUMN * writer.column + BOX_WIDTH / 2, TOP + ROW * writer.row + BOX_HEIGHT
    to_x, to_y = LEFT + COLUMN * reader.column + BOX_WIDTH / 2, TOP + ROW * reader.row
    if writer.column == reader.column and reader.row != writer.row + 1:
        side, above, below = x + BOX_WIDTH / 2, y - BOX_HEIGHT / 2, to_y + BOX_HEIGHT / 2
        out = side + min(60, 14 + 5 * abs(reader.row - writer.row))
        path = f"M{side:g} {above:g}C{out:g} {above:g} {out:g} {below:g} {side:g} {below:g}"
    else:
        middle = (y + to_y) / 2
        path = f"M{x:g} {y:g}C{x:g} {middle:g} {to_x:g} {middle:g} {to_x:g} {to_y:g}"
    kind = "dram" if any(flow.is_dram for flow in own) else "chip"
    hint = "; ".join(flow.text for flow in own)
    return f'<path class="{kind}" d="{path}"><title>{escape(hint)}</title></path>'

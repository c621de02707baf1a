"""The page: text and tables around the charts, in one file."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any

from tilewright.host.segments import ProgramRun
from tilewright.html.document import document, drawn
from tilewright.html.machine import machine_picture
from tilewright.html.wide import wide
from tilewright.isa.machine.machine import Machine
from tilewright.isa.pages.show import Table, tables
from tilewright.isa.program.program import MODEL
from tilewright.losses.causes import CAUSES, MEANINGS, losses
from tilewright.losses.colours import COLOURS
from tilewright.profiles.page.charts import causes, memory_maps, roofline, time_line
from tilewright.profiles.page.graph import Spans, network_graph
from tilewright.profiles.page.hosts import HostPart, hosts_card
from tilewright.profiles.page.sections import Section
from tilewright.profiles.report import View, headline
from tilewright.simulator.cycle_owners import layer_span
from tilewright.simulator.profile import instructions_of_layers, layers_of
from tilewright.simulator.run_profile import RunProfile
from tilewright.terminal.tables import format_value, percent

FOLDER = Path(__file__).parent

Cell = str | int | float

NUMBER = ' class="number"'


def page(
    title: str,
    profile: RunProfile,
    runs: Sequence[ProgramRun],
    view: View = View(),  # noqa: B008
    hosts: Sequence[HostPart] = (),
    notes: Sequence[str] = (),
    operators: Sequence[str] = (),
    sections: Sequence[Section] = (),
) -> str:
    """One HTML file with everything in it. The same profile gives the same text; `notes` stand below its headline.

    `operators` says in a line what each layer computes; `sections` are what else was asked for.
    """
    machine = runs[0].program.machine if runs else None
    lines = (*headline(profile, view), *notes)
    parts = [f"<h1>{escape(title)}</h1>", *(f"<p>{escape(line)}</p>" for line in lines), _figures(profile)]
    script = ""
    if machine is not None and profile.cycles:
        script, places = drawn(lambda: _charts(profile, machine, runs))
        parts += _sections(profile, runs, places, hosts, operators, sections)
    if hosts:
        parts.append(hosts_card(hosts))
    parts += _remarks(runs)
    if machine is not None:
        parts += ['<h2 id="machine">The machine</h2>', _machine_picture(machine)]
        parts += [_machine_table(table) for table in tables(machine)]
    return document(title, "\n".join(parts), script, FOLDER)


def _charts(profile: RunProfile, machine: Machine, runs: Sequence[ProgramRun]) -> Sequence[Any]:
    starts = _first_cycles(runs)
    time = time_line(runs, starts, profile.cycles)
    return [causes(profile), roofline(profile, machine), time, *memory_maps(runs, starts, time)]


def _first_cycles(runs: Sequence[ProgramRun]) -> list[int]:
    starts = [0]
    for run in runs:
        starts.append(starts[-1] + run.counters.cycles)
    return starts[:-1]


def _sections(
    profile: RunProfile,
    runs: Sequence[ProgramRun],
    places: Sequence[str],
    hosts: Sequence[HostPart],
    operators: Sequence[str],
    sections: Sequence[Section],
) -> Iterator[str]:
    bars, roof, time, *memories = places
    spans = _spans(runs)
    yield "<nav>" + "".join(f'<a href="#{section.name}">{escape(section.title)}</a>' for section in sections)
    yield '<a href="#causes">Causes</a><a href="#layers">Layers</a><a href="#network">Network</a>'
    yield '<a href="#time">Time line</a>'
    yield '<a href="#memories">Memories</a><a href="#roofline">Roofline</a>'
    yield '<a href="#host">Host</a>' * bool(hosts) + '<a href="#machine">Machine</a></nav>'
    for section in sections:
        yield f'<h2 id="{section.name}">{escape(section.title)}</h2>{section.html}'
    yield '<h2 id="causes">Where each layer’s cycles went</h2>'
    meanings = "".join(
        f'<li><i style="background: {COLOURS[cause]}"></i><b>{cause}</b>: {escape(meaning)}</li>'
        for cause, meaning in MEANINGS.items()
    )
    yield f'<ul class="legend quiet">{meanings}</ul>{bars}'
    yield '<h2 id="layers">Layers</h2><p class="quiet">A name shows its layer in the time line.</p>'
    yield _layer_table(profile, spans)
    yield '<h2 id="network">The network</h2>'
    yield '<p class="quiet">The redder a layer, the more cycles it takes. A dashed line is a tensor that goes through '
    yield "DRAM; others stay on chip." + " The host computes what is grey." * bool(hosts) + "</p>"
    if not operators:
        yield '<p class="quiet">Given the model, too, with --model, the boxes say operators and shapes.</p>'
    yield network_graph(profile, runs, spans, hosts, operators)
    yield '<h2 id="time">Time line</h2>'
    yield '<p class="quiet">Every instruction, by engine. '
    yield '<span class="mouse">Turn the wheel to zoom, drag to move.</span>'
    yield '<span class="touch">Pinch to zoom, drag to move.</span></p>' + time
    yield '<h2 id="memories">What lies where, and when</h2>'
    yield '<p class="quiet">Words from when they are written until they are last read, coloured by layer.</p>'
    yield from memories
    yield '<h2 id="roofline">Roofline</h2>'
    yield '<p class="quiet">What the bus and the array allow, and where the layers are; large dots cost most.</p>'
    yield roof


def _figures(profile: RunProfile) -> str:
    read, written = profile.dram_bytes.read, profile.dram_bytes.written
    lost = losses(profile)
    shown = {
        "cycles": f"{profile.cycles:,}",
        **({"cycles for each image": f"{profile.cycles_per_image:,.0f}"} if (profile.images or 1) > 1 else {}),
        "of the array used": percent(profile.utilisation),
        "multiply-accumulates": f"{profile.macs:,}",
        "bytes read from DRAM": f"{read:,}",
        "bytes written to DRAM": f"{written:,}",
        **{f"of the cycles, port {at} moves": percent(port.share) for at, port in enumerate(profile.axi_ports)},
        "cycles lost": f"{round(sum(lost.values())):,}",
    }
    boxes = "".join(f"<div><b>{value}</b><span>{name}</span></div>" for name, value in shown.items())
    return f'<div class="figures">{boxes}</div>'


def _spans(runs: Sequence[ProgramRun]) -> Spans:
    """For each layer of all programs, the cycles that the time line shows of it: first, one behind the last."""
    spans: list[tuple[int, int]] = []
    for run, start in zip(runs, _first_cycles(runs), strict=True):
        for indices in instructions_of_layers(run.program, layers_of(run.program)):
            first, end = layer_span(run.program, indices, run.counters)
            spans.append((start + first, start + end))
    return spans


def _layer_table(profile: RunProfile, spans: Spans) -> str:
    rows = []
    for layer, (first, last) in zip(profile.layers, spans, strict=True):
        link = f'<a href="#time" data-first="{first}" data-last="{last}">{escape(layer.name)}</a>'
        cells: list[Cell] = [layer.cycles, layer.utilisation, layer.macs, layer.dram_bytes.moved]
        cells += [round(layer.loss[cause]) for cause in CAUSES]
        rows.append([f"<td>{link}</td>", *(_cell(cell) for cell in cells), _cell(layer.bound)])
    lost = [f"lost to {cause}" for cause in CAUSES]
    heads = ["layer", "cycles", "utilisation", "MACs", "DRAM bytes", *lost, "bound"]
    numbers = range(1, len(heads) - 1)
    buttons = [
        f'<th scope="col"{NUMBER * (at in numbers)}><button type="button">{head}</button></th>'
        for at, head in enumerate(heads)
    ]
    return _table("Layers", "sortable", buttons, rows)


def _cell(value: Cell) -> str:
    if isinstance(value, str):
        return f"<td>{escape(value)}</td>"
    text = percent(value) if isinstance(value, float) else f"{value:,}"
    return f'<td{NUMBER} data-value="{value}">{text}</td>'


def _remarks(runs: Sequence[ProgramRun]) -> Iterator[str]:
    """What the compiler says of the programs, such as which layers go in stripes; nothing where it says nothing."""
    said = [(about, text) for run in runs for about, text in run.program.metadata.items() if about != MODEL]
    if said:
        yield '<h2 id="remarks">What the compiler remarks</h2>'
        heads = ['<th scope="col">about</th>', '<th scope="col">remark</th>']
        yield _table("Remarks", "plain", heads, [[_cell(about), _cell(text)] for about, text in said])


def _machine_picture(machine: Machine) -> str:
    """The machine as a picture with a style of its own, which is why it is a document in the document."""
    content = b64encode(machine_picture(machine).encode()).decode()
    title = escape(f"The machine {machine.name}", quote=True)
    picture = f'<img class="picture" alt="{title}" src="data:image/svg+xml;base64,{content}">'
    return wide(picture, title)


def _machine_table(table: Table) -> str:
    heads = [f'<th scope="col">{escape(column)}</th>' for column in table.columns]
    rows = [[f"<td>{escape(format_value(cell))}</td>" for cell in row] for row in table.rows]
    return f"<h3>{escape(table.title)}</h3>{_table(table.title, 'plain', heads, rows)}"


def _table(what: str, kind: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    body = "\n".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    head = f"<thead><tr>{''.join(heads)}</tr></thead>"
    return wide(f'<table class="{kind}">{head}<tbody>{body}</tbody></table>', what)

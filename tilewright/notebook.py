"""Programs, results and profiles as people see them in Python and in a notebook: a line of text, or tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from numpy.typing import NDArray

from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.shown import html_table
from tilewright.isa.program.partitioned import HostNode, NetworkValue
from tilewright.isa.program.program import Program as Binary
from tilewright.isa.program.program import Tensor
from tilewright.losses.causes import largest_loss
from tilewright.profiles.report import headline
from tilewright.simulator.run_profile import RunProfile, profile_from_json
from tilewright.terminal.tables import format_value, percent


def form_of(name: str, value: NDArray[Any] | Tensor | NetworkValue) -> str:
    """`image float32 1×3×8×8`"""
    return f"{name} {value.dtype} {'×'.join(map(str, value.shape)) or 'scalar'}"


def listed(forms: Iterable[str]) -> str:
    return ", ".join(forms) or "nothing"


def result_html(outputs: Mapping[str, NDArray[Any]], profile: RunProfile | None) -> str:
    """The outputs with their least and greatest values; with a clock, the layers by cycles and use of the array."""
    rows = [
        (name, array.dtype, array.shape, *((array.min(), array.max()) if array.size else ("", "")))
        for name, array in outputs.items()
    ]
    parts = [table_html("Outputs", ("output", "dtype", "shape", "least", "greatest"), rows)]
    if profile is not None:
        layers = [(one.name, one.cycles, percent(one.utilisation)) for one in profile.layers]
        total = ("total", profile.cycles, percent(profile.utilisation))
        parts.append(table_html(f"Cycles on {profile.isa}", ("layer", "cycles", "array used"), [*layers, total]))
    return "".join(parts)


def program_html(headline: str, machine: Machine, programs: Sequence[Binary], host_nodes: Sequence[HostNode]) -> str:
    """A program in a line, its layers with instructions by engine, and the nodes on the host with the reasons."""
    rows, engines = [], list(machine.engines)
    for binary in programs:
        serves = binary.provenance or (0,) * len(binary.instructions)
        for position, layer in enumerate(binary.layers):
            own = [one.engine.name for one, at in zip(binary.instructions, serves, strict=True) if at == position]
            rows.append((layer.name, layer.macs, *(own.count(engine) for engine in engines)))
    parts = [f"<p>{escape(headline)}</p>", table_html("Layers", ("layer", "MACs", *engines), rows)]
    if host_nodes:
        nodes = [(node.name, node.op_type, node.reason) for node in host_nodes]
        parts.append(table_html("On the host", ("node", "operator", "reason"), nodes))
    return "".join(parts)


class Profile(dict[str, Any]):
    """A profile with the keys of docs/profile.md, ready for JSON; it shows itself as a line, in a notebook as tables.

    `typed` is the same as a value with fields and types.
    """

    @property
    def typed(self) -> RunProfile:
        return profile_from_json(self)

    def __repr__(self) -> str:
        return f"<Profile: {headline(self.typed)[0].rstrip('.')}>"

    def _repr_html_(self) -> str:
        """The answers first, then every layer with its cycles and what most of them were lost to."""
        profile = self.typed
        lines = "".join(f"<p>{escape(line)}</p>" for line in headline(profile))
        rows = []
        for layer in profile.layers:
            lost = largest_loss(layer.loss)
            loss = "" if lost is None else f"{lost} {round(layer.loss[lost]):,}"
            rows.append((layer.name, layer.cycles, percent(layer.utilisation), layer.bound, loss))
        columns = ("layer", "cycles", "array used", "bound", "most lost to")
        return lines + table_html(f"Layers on {profile.isa}", columns, rows)


def table_html(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A plain table, which a notebook styles; numbers and shapes as on a terminal."""
    return html_table(title, columns, [[format_value(value) for value in row] for row in rows])

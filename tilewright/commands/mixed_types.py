"""What `tilewright quantize --mixed` shows: the types of weights and of results and why, and what that is worth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from tilewright.quantization.mixed import Mixed, MixedPart


def mixed_summary(mixed: Mixed) -> dict[str, Any]:
    """The types and why, and the network with them beside those that have one type."""
    budget, types = mixed.budget, mixed.types
    (wide, narrow), (fine, coarse) = types.weights, types.activations
    return {
        "loses_db": budget.loses_db,
        "machine": budget.machine,
        "unit": budget.unit,
        "layers": _parts(mixed.weights, "weights"),
        "results": _parts(mixed.results, "activations"),
        "networks": [
            {
                "weights": weights,
                "activations": activations,
                "snr_db": _rounded(point.snr_db),
                "cost": _rounded(point.taken.cost),
                "host_nodes": point.taken.host_nodes,
            }
            for weights, activations, point in (
                (wide, fine, mixed.wide),
                ("mixed" if wide != narrow else wide, "mixed" if fine != coarse else fine, mixed.mixed),
                (narrow, coarse, mixed.narrow),
            )
        ],
    }


def _parts(parts: Sequence[MixedPart], what: str) -> list[dict[str, Any]]:
    return [
        {
            "name": part.name,
            "nodes": list(part.nodes),
            what: part.type,
            "saves": _rounded(part.saves),
            "from_host": part.from_host,
            "loses_db": _rounded(part.loses_db),
        }
        for part in parts
    ]


def print_mixed(mixed: Mapping[str, Any]) -> None:
    """A row for the weights of each layer, one for each result, then one for each network."""
    from tilewright.terminal.tables import print_table

    unit, wide, budget = mixed["unit"], mixed["networks"][0], f"with at most {mixed['loses_db']:g} dB lost against"
    for title, what, parts in (
        ("Weights by layer", "weights", mixed["layers"]),
        ("Activations by the node that computes them", "activations", mixed["results"]),
    ):
        if parts:
            typer.echo()
            columns = ("layer", what, f"narrow ones alone save {unit}", "and lose dB")
            print_table(
                f"{title} for {mixed['machine']}, {budget} {wide[what]}", columns, [_row(p, what) for p in parts]
            )
    networks = [
        (
            each["weights"],
            each["activations"],
            "exact" if each["snr_db"] is None else f"{each['snr_db']:.1f}",
            _number(each["cost"]),
            str(each["host_nodes"]),
        )
        for each in mixed["networks"]
    ]
    typer.echo()
    last = ("weights", "activations", "SNR of the worst output in dB", unit, "nodes of the host")
    print_table("The networks", last, networks)


def _row(part: Mapping[str, Any], what: str) -> tuple[str, ...]:
    name, more, taken = part["name"], len(part["nodes"]) - 1, part["from_host"]
    saves = "on the host" if part["saves"] is None else _number(part["saves"])
    if taken:
        saves = f"{taken} node{'s' * (taken != 1)} of the host"
    return name if not more else f"{name} and {more} more", part[what], saves, f"{part['loses_db']:.2f}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == round(value) else f"{value:,.2f}"


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)

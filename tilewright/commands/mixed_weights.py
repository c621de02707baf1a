"""What `tilewright quantize --mixed` shows: the type of each layer's weights and why, and what that is worth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from tilewright.quantization.mixed import Mixed


def mixed_summary(mixed: Mixed) -> dict[str, Any]:
    """The type of each layer's weights and why, and the network with them beside those that have one type."""
    budget = mixed.budget
    return {
        "loses_db": budget.loses_db,
        "machine": budget.machine,
        "unit": budget.unit,
        "layers": [
            {
                "name": layer.name,
                "nodes": list(layer.nodes),
                "weights": layer.weights,
                "saves": _rounded(layer.saves),
                "loses_db": _rounded(layer.loses_db),
            }
            for layer in mixed.layers
        ],
        "networks": [
            {
                "weights": weights,
                "snr_db": _rounded(point.snr_db),
                "cost": _rounded(point.taken.cost),
                "host_nodes": point.taken.host_nodes,
            }
            for weights, point in (
                (mixed.types[0], mixed.wide),
                ("mixed", mixed.mixed),
                (mixed.types[1], mixed.narrow),
            )
        ],
    }


def print_mixed(mixed: Mapping[str, Any]) -> None:
    """A row for each layer with the type that its weights got, then a row for each network."""
    from tilewright.terminal.tables import print_table

    unit, wide = mixed["unit"], mixed["networks"][0]["weights"]
    title = f"Weights by layer for {mixed['machine']}, with at most {mixed['loses_db']:g} dB lost against {wide}"
    rows = [
        (
            layer["name"] if len(layer["nodes"]) == 1 else f"{layer['name']} and {len(layer['nodes']) - 1} more",
            layer["weights"],
            "on the host" if layer["saves"] is None else _number(layer["saves"]),
            f"{layer['loses_db']:.2f}",
        )
        for layer in mixed["layers"]
    ]
    typer.echo()
    print_table(title, ("layer", "weights", f"narrow ones alone save {unit}", "and lose dB"), rows)
    networks = [
        (each["weights"], "exact" if each["snr_db"] is None else f"{each['snr_db']:.1f}", _number(each["cost"]))
        for each in mixed["networks"]
    ]
    typer.echo()
    print_table("The networks", ("weights", "SNR of the worst output in dB", unit), networks)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == round(value) else f"{value:,.2f}"


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)

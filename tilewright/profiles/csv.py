"""The layers of a profile as comma-separated values, for a spreadsheet."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tilewright.simulator.run_profile import LayerProfile, profile_json


def layers_csv(layers: Sequence[LayerProfile]) -> str:
    """A line a layer, headed by the keys of docs/profile.md; keys in keys are joined by a point: `loss.edge`."""
    rows = [dict(_flat("", profile_json(layer))) for layer in layers]
    text = io.StringIO()
    writer = csv.DictWriter(text, dict.fromkeys(key for row in rows for key in row), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _flat(prefix: str, value: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, part in value.items():
        name = f"{prefix}{key}"
        if isinstance(part, Mapping):
            yield from _flat(f"{name}.", part)
        else:
            yield name, " ".join(part) if isinstance(part, list) else part

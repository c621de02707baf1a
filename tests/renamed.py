"""A shipped machine whose engines have other names: the same machine to everything but what people read."""

from __future__ import annotations

from collections.abc import Sequence

import yaml

from tilewright.isa.files.loader import load_machine

NAMES = {
    "load": ("fill", "dma"),
    "mma": ("grid", "systolic"),
    "vec": ("lanes_of_it", "vector"),
    "store": ("drain", "dma"),
}


def renamed_text(name: str, overrides: Sequence[str] = ()) -> str:
    """The text of a machine file; `overrides` as `--set` takes them."""
    plain = yaml.safe_load(load_machine(name, overrides).text)
    plain["engines"] = {NAMES[old][0]: {"template": NAMES[old][1], **entry} for old, entry in plain["engines"].items()}
    for entry in plain["instructions"].values():
        entry["engine"] = NAMES[entry["engine"]][0]
    return yaml.safe_dump(plain, sort_keys=False, width=120)

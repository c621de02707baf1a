"""What a shell offers after Tab, beyond commands and options: the names of machines, and machine files."""

from __future__ import annotations

from glob import escape, glob
from pathlib import Path


def complete_machine(incomplete: str) -> list[str]:
    """Shipped machines and .yaml files that begin so, and folders that may hold some."""
    from tilewright.isa.files.loader import shipped_machines

    found = sorted(glob(escape(incomplete) + "*"))
    folders = [f"{name}/" for name in found if Path(name).is_dir()]
    files = [name for name in found if name.endswith((".yaml", ".yml"))]
    return [*(name for name in shipped_machines() if name.startswith(incomplete)), *files, *folders]

"""The change of a machine that makes room for what did not fit, as `--set` takes it."""

from __future__ import annotations

import yaml

from isa.machine import Machine


def larger_memory(machine: Machine, name: str, words: int) -> str:
    """The override that gives a memory at least so many words in equal banks: `memories.act.kib=8`.

    The key is the one, `kib` or `depth`, by which the machine's own file says the size: a file may have only one.
    """
    memory = machine.memories[name]
    whole = -(-words // memory.banks) * memory.banks
    if "depth" in yaml.safe_load(machine.text)["memories"][name]:
        return f"memories.{name}.depth={whole}"
    return f"memories.{name}.kib={-(-whole * memory.word_bytes // 1024)}"

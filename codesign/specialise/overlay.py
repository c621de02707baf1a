"""The file of a machine with new instructions, as a person would write it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.codesign.specialise.answer import Specialised
from tilewright.codesign.specialise.candidates import PARAMETERS, Candidate, together
from tilewright.isa.files.keys import EXTENDS
from tilewright.isa.files.laid_over import ENGINES, INSTRUCTIONS

WIDTH = 120


def machine_file(found: Specialised, extends: str) -> str:
    """YAML of the machine with what was chosen, or of the machine as it is, as a file that extends another one."""
    chosen = found.choice.instructions
    new = f"{', '.join(each.name for each in chosen)}, found" if chosen else "nothing new: nothing pays"
    about = f"{found.proposal.machine.name} with {new} for {', '.join(found.base.layers)}"
    return overlay_text(chosen, extends, about)


def overlay_text(candidates: Sequence[Candidate], extends: str, about: str) -> str:
    """YAML of a machine that extends another one with the candidates' instructions."""
    over = together(candidates).over
    lines = [f"{EXTENDS}: {extends}", f"about: {_scalar(about)}"]
    if ENGINES in over:
        lines.append(f"{ENGINES}:")
        lines += [f"  {name}: {_flow(entry)}" for name, entry in over[ENGINES].items()]
    if PARAMETERS in over:
        lines.append(f"{PARAMETERS}: {_flow(over[PARAMETERS])}")
    if over[INSTRUCTIONS]:
        lines.append(f"{INSTRUCTIONS}:")
    for name, entry in over[INSTRUCTIONS].items():
        lines.append(f"  {name}:")
        for key, value in entry.items():
            lines += _entry(key, value)
    return "\n".join(lines) + "\n"


def _entry(key: str, value: Any) -> list[str]:
    """A key of an instruction; what is too long for a line stands below its key."""
    line = f"    {key}: {value if key == 'do' else _flow(value)}"
    if len(line) <= WIDTH:
        return [line]
    if not isinstance(value, Mapping):
        return [f"    {key}: >-", *_wrapped(str(value), "      ")]
    return [f"    {key}:", *(f"      {name}: {_flow(of)}" for name, of in value.items())]


def _wrapped(text: str, indent: str) -> list[str]:
    lines, line = [], indent
    for word in text.split(" "):
        if len(line) + len(word) > WIDTH and line.strip():
            lines.append(line.rstrip())
            line = indent
        line += f"{word} "
    return [*lines, line.rstrip()]


def _flow(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name}: {_flow(of)}" for name, of in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_flow(each) for each in value) + "]"
    return _scalar(value)


def _scalar(value: Any) -> str:
    """Quoted where YAML would read something else."""
    text = str(value)
    return json.dumps(text) if any(sign in text for sign in "[]{}:,#&*!|>'\"%@`") else text

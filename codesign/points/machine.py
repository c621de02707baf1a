"""What identifies a machine in results that are kept."""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache
from typing import Any

import yaml

from tilewright.isa.machine.machine import Machine

WORDS = ("name", "about")
"""Keys whose words change nothing."""


def machine_key(machine: Machine) -> str:
    """A hash of all of a machine that can change a result; its name and its descriptions are not in it."""
    return _key(machine.text)


@lru_cache(maxsize=1024)
def _key(text: str) -> str:
    facts = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    instructions = {name: _without_words(of) for name, of in facts.get("instructions", {}).items()}
    meaning = json.dumps({**_without_words(facts), "instructions": instructions})
    return hashlib.sha256(meaning.encode()).hexdigest()


def _without_words(facts: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in facts.items() if key not in WORDS}

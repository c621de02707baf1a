"""Machines with further stages of hardware, as overlays of random ones."""

from __future__ import annotations

import dataclasses

import yaml

from tests.one_port import SMALL, WRITES_WEIGHTS
from tests.random_machines import overlay_text, random_overlay
from tilewright.isa.files.loader import load_machine_text
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.pipeline import Pipeline

ALL_STAGES = {field.name: 1 for field in dataclasses.fields(Pipeline)}


def one_port_with_stages(stages: dict[str, int] | None = None) -> Machine:
    """A small `tiny8-1p` with registers wherever a machine's file can ask for them, or where it is said."""
    overlay = {**SMALL, **WRITES_WEIGHTS, "pipeline": ALL_STAGES if stages is None else stages}
    memories = {
        "act": {"kib": None, "depth": 256, "banks": 4},
        "wgt": {"kib": None, "depth": 128},
        "acc": {"kib": None, "depth": 128},
    }
    text = yaml.safe_dump({"extends": "tiny8-1p", **overlay, "memories": memories}, sort_keys=False)
    return load_machine_text(text, "stages.yaml")


def random_machine_with_stages(seed: int) -> Machine:
    text = overlay_text({**random_overlay(seed), "pipeline": ALL_STAGES})
    return load_machine_text(text, f"stages{seed}.yaml")

"""The engines of machines: those of the shipped ones by name, which tests may name and the product may not."""

from __future__ import annotations

from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.engine import Direction, Engine, Template
from tilewright.isa.machine.machine import Machine

ENGINES = tuple(load_machine("base16").engines)

SEVERAL = ("base16-2dma", "base16-2vec", "two16", "quad8")
"""The shipped machines that have several engines of a template that may do the same."""

OTHER_ENGINES = (*SEVERAL, "dual16", "wide-narrow")
"""These, and those with a wider array or a vector engine with instructions of its own."""


def vector_of(machine: Machine) -> Engine:
    """The first vector engine of a machine."""
    return machine.of(Template.VECTOR)[0]


def array_of(machine: Machine) -> Engine:
    """The first systolic array of a machine."""
    return machine.of(Template.SYSTOLIC)[0]


def load_of(machine: Machine) -> Engine:
    """The first engine of a machine that reads DRAM."""
    return machine.dma(Direction.IN)[0]


def store_of(machine: Machine) -> Engine:
    """The first engine of a machine that writes DRAM."""
    return machine.dma(Direction.OUT)[0]

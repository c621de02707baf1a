"""Cycles that no program for a machine goes below."""

from __future__ import annotations

from tilewright.codesign.bounds.needs import Needs
from tilewright.codesign.templates.table import facet_of
from tilewright.isa.machine.machine import Machine


def least_cycles(needs: Needs, machine: Machine) -> int:
    """A lower bound of the cycles of a network on a machine, if no node of it runs on the host."""
    engines = products_a_cycle(machine)
    beats = -(-needs.weight_bytes // machine.read_bytes)
    return max(-(-needs.products // engines) if engines else 0, beats)


def products_a_cycle(machine: Machine) -> int:
    """The most products that all engines together can do in a cycle, one with a weight of 1 included."""
    engines = machine.engines.values()
    return sum(facet_of(engine.template).products_a_cycle(machine, engine) for engine in engines)

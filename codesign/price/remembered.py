"""Sketches of hardware whose parts are counted once, and found again in every machine that has the same part."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial

from amaranth.lib import wiring

from tilewright.codesign.price.depends import facts_of
from tilewright.codesign.price.netlist import Netlist, PricedPart
from tilewright.codesign.price.operators import Sketch, sketch, sketch_apart

MOST = 4096
"""Sketches that are kept."""

APART = tuple(kind for kind in facts_of.registry if kind not in (object, wiring.Component))

_KNOWN: dict[Hashable, Netlist[Sketch]] = {}
"""By all that a part depends on, for the life of the process."""


def remembered_sketch(part: PricedPart, *left_out: type) -> Netlist[Sketch]:
    """The same as `sketch`, in half of its time from the second machine on, in a fourth where one key differs."""
    if isinstance(part, partial):
        return _kept((part.func, part.args, left_out), lambda: sketch(part, *left_out))
    return _remembered(part, False, left_out)


def _remembered(component: wiring.Component, is_restarted: bool, left_out: tuple[type, ...]) -> Netlist[Sketch]:
    def inner(part: wiring.Component, is_part_restarted: bool) -> Netlist[Sketch]:
        return _remembered(part, is_restarted or is_part_restarted, left_out)

    def make() -> Netlist[Sketch]:
        return sketch_apart(component, is_restarted, left_out, APART, inner)

    facts = facts_of(component)
    if facts is None:
        return make()
    _mark_used(component)
    return _kept((type(component), facts, is_restarted, left_out), make)


def _mark_used(component: wiring.Component) -> None:
    """Amaranth warns of what is described in vain, and of what that holds; what it would say points at the part."""
    component._MustUse__used, component._MustUse__context = True, None
    for inner in vars(component).values():
        if isinstance(inner, wiring.Component):
            _mark_used(inner)


def _kept(key: Hashable, make: Callable[[], Netlist[Sketch]]) -> Netlist[Sketch]:
    if key not in _KNOWN:
        found = make()
        if len(_KNOWN) >= MOST:
            _KNOWN.clear()
        _KNOWN[key] = found
    return _KNOWN[key]

"""The profile on a terminal: what matters in three lines, then tables that fit in 80 columns and use 200."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tilewright.errors import InputError
from tilewright.losses.causes import CAUSES, MEANINGS, PRODUCTS, largest_loss, losses, parts
from tilewright.simulator.losses import Loss
from tilewright.terminal.tables import percent, print_table, print_text, terminal_width

if TYPE_CHECKING:
    from tilewright.simulator.run_profile import LayerProfile, RunProfile

WIDE_COLUMNS = 140
"""From this width on, the table of layers has the multiply-accumulates, and a column for each cause of loss."""

DEAREST = 3
"""As many layers are named in the lines above the tables."""

SHORT_MILLISECONDS = 0.1

Order = Literal["program", "cycles", "loss"]
ORDERS: tuple[Order, ...] = ("program", "cycles", "loss")


@dataclass(frozen=True, slots=True)
class View:
    """Which layers are shown, and in which order; `clock_mhz` turns cycles into time."""

    order: Order = "program"
    top: int | None = None
    clock_mhz: float | None = None

    def layers(self, profile: RunProfile) -> list[LayerProfile]:
        """The layers in this order, as many as are shown."""
        layers = list(profile.layers)
        if self.order == "cycles":
            layers.sort(key=lambda layer: -layer.cycles)
        elif self.order == "loss":
            layers.sort(key=lambda layer: -sum(layer.loss.values()))
        return layers if self.top is None else layers[: self.top]


def print_profile(profile: RunProfile, view: View = View(), notes: Sequence[str] = ()) -> None:  # noqa: B008
    """Four lines, notes below them, the layers, where the cycles went, and what each engine did."""
    for line in headline(profile, view):
        print(line)
    for note in notes:
        print_text(note)
    print()
    print_layers(profile, view)
    print()
    print_causes(profile)
    print()
    print_engines(profile)
    if profile.axi_ports:
        print()
        print_ports(profile)


def print_ports(profile: RunProfile) -> None:
    """What passed each AXI port of a machine that has several."""
    rows = [
        (number, ", ".join(port.users), port.read, port.written, percent(port.share))
        for number, port in enumerate(profile.axi_ports)
    ]
    print_table("AXI ports", ("port", "of", "bytes read", "bytes written", "of the cycles"), rows)


def headline(profile: RunProfile, view: View = View()) -> tuple[str, ...]:  # noqa: B008
    """The run, the layers that cost most, and the largest cause of loss with what may help."""
    cycles = profile.cycles
    if not cycles:
        return ("No cycles: nothing runs on the machine.",)
    share = profile.utilisation
    used = f"; {percent(share)} of the array's multiply-accumulates are used" if share else ""
    took = f"{cycles:,} cycles{for_images(cycles, profile.images)}{time_of(cycles, view.clock_mhz, profile.images)}"
    lines = [f"{took} on {profile.isa}{used}."]
    dearest = View("cycles", DEAREST).layers(profile)
    if len(profile.layers) > 1:
        named = ", ".join(f"{layer.name} {percent(layer.cycles / cycles)}" for layer in dearest)
        lines.append(f"Most cycles: {named}.")
    loss = losses(profile)
    cause = largest_loss(loss)
    if cause is not None:
        what = CAUSES[cause]
        lines.append(f"Largest loss: {percent(loss[cause] / cycles)}, {what.meaning}.")
        lines.append(f"What may help: {what.remedy}.")
    return tuple(lines)


def for_images(cycles: int, images: int | None) -> str:
    """` for 8 images, 2,406 each`, or nothing if a run takes one."""
    return "" if images is None or images == 1 else f" for {images} images, {cycles / images:,.0f} each"


def time_of(cycles: int, clock_mhz: float | None, images: int | None = None) -> str:
    """` (1.25 ms at 200 MHz, 800 runs a second)`, or nothing without a clock."""
    if clock_mhz is None:
        return ""
    rate = f"{(images or 1) * 1e6 * clock_mhz / cycles:,.0f} {'runs' if images is None else 'images'} a second"
    milliseconds = cycles / (1000 * clock_mhz)
    time = f"{1000 * milliseconds:.3g} µs" if milliseconds < SHORT_MILLISECONDS else f"{milliseconds:,.3g} ms"
    return f" ({time} at {clock_mhz:g} MHz, {rate})"


def print_layers(profile: RunProfile, view: View = View()) -> None:  # noqa: B008
    """A row a layer; on a wide terminal with all causes of loss, in cycles."""
    is_wide = terminal_width() >= WIDE_COLUMNS
    shown = view.layers(profile)
    columns = ["layer", "cycles", "utilisation", "DRAM bytes", "bound", "most lost to"]
    rows = [_row(layer, is_wide) for layer in shown]
    if len(shown) < len(profile.layers):
        others = [layer for layer in profile.layers if not any(layer is one for one in shown)]
        rows.append(_others(others, is_wide))
    cause = _most_lost(losses(profile), profile.cycles)
    total = ["total", profile.cycles, percent(profile.utilisation), profile.dram_bytes.moved, "", cause]
    if is_wide:
        columns += ["MACs", *(f"lost to {name}" for name in CAUSES)]
        total += [profile.macs, *(round(value) for value in losses(profile).values())]
    print_table(f"Layers on {profile.isa}", columns, [*rows, total])


def _row(layer: LayerProfile, is_wide: bool) -> list[str | int]:
    cause = _most_lost(layer.loss, layer.cycles)
    used, moved = percent(layer.utilisation), layer.dram_bytes.moved
    row: list[str | int] = [layer.name, layer.cycles, used, moved, layer.bound, cause]
    return [*row, layer.macs, *(round(layer.loss[name]) for name in CAUSES)] if is_wide else row


def _others(layers: Sequence[LayerProfile], is_wide: bool) -> list[str | int]:
    dram = sum(layer.dram_bytes.moved for layer in layers)
    cycles, macs = sum(layer.cycles for layer in layers), sum(layer.macs for layer in layers)
    row: list[str | int] = [f"{len(layers)} others", cycles, "", dram, "", ""]
    loss = [round(sum(layer.loss[name] for layer in layers)) for name in CAUSES]
    return [*row, macs, *loss] if is_wide else row


def _most_lost(loss: Mapping[Loss, float], cycles: int) -> str:
    cause = largest_loss(loss)
    return "" if cause is None or not cycles else f"{cause} {100 * loss[cause] / cycles:.0f} %"


def print_causes(profile: RunProfile) -> None:
    """Every cycle of the run once: what a full array would need, and the rest by cause."""
    cycles = profile.cycles
    if not cycles:
        return
    shares = parts(cycles, losses(profile))
    rows = [
        (cause, round(part), percent(part / cycles), MEANINGS[cause])
        for cause, part in sorted(shares.items(), key=lambda entry: (entry[0] != PRODUCTS, -entry[1]))
        if cause == PRODUCTS or round(part)
    ]
    print_table("Where the cycles went", ("cause", "cycles", "share", ""), rows)


def layer_named(profile: RunProfile, name: str) -> LayerProfile:
    """The layer of this name, or the only one whose name contains it. Raises InputError."""
    layers = profile.layers
    found = [layer for layer in layers if layer.name == name] or [layer for layer in layers if name in layer.name]
    if len(found) == 1:
        return found[0]
    known = ", ".join(layer.name for layer in (found or layers)[:12])
    more = ", …" if len(found or layers) > 12 else ""
    fault = f"{len(found)} layers are called like {name!r}" if found else f"no layer {name!r}"
    raise InputError(f"{fault}; there are: {known}{more}")


if TYPE_CHECKING:
    from tilewright.simulator.run_profile import RunProfile


def print_engines(profile: RunProfile) -> None:
    """A column for each engine, a row for each use of its cycles; every column adds up to the run."""
    engines = profile.engines
    if not engines:
        print(f"{profile.isa}'s hardware does not count what its engines do: `counters: all` in its file does.")
        return
    uses = {
        name: {
            "busy": of.busy,
            **_prefixed("wait", of.wait),
            **_prefixed("stall", of.stall),
            "idle": of.idle,
        }
        for name, of in engines.items()
    }
    labels = dict.fromkeys(label for counts in uses.values() for label in counts)
    rows = [(label, *(of.get(label, 0) for of in uses.values())) for label in labels]
    total = ("total", *(sum(of.values()) for of in uses.values()))
    print_table("Engines, in cycles", ("cycles", *engines), [*rows, total])


def _prefixed(kind: str, counts: Mapping[str, int]) -> dict[str, int]:
    return {f"{kind} {cause}": count for cause, count in counts.items()}

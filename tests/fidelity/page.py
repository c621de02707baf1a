"""docs/fidelity.md: written from what was measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.fidelity.measure import OF_256, SEED, Network, Run, Sides

PAGE = Path(__file__).resolve().parents[2] / "docs" / "fidelity.md"

HEAD = f"""\
# Fidelity: the simulator's cycles beside the hardware's

The cycle model of the simulator is meant to be exact: what it says of a program is what the hardware takes, to the cycle. This
page measures that. `make fidelity` compiles six networks, runs each in the simulator and on the hardware (the Verilog that synthesis
gets, in Verilator), and writes the page. Inputs are drawn from seed {SEED}.

- *latency*: cycles from a read's address to its first beat, of the memory behind the bus. The program and the hardware are the
  same for all; the machines' own files say 64.
- *differ*: how many of them are not the same on both sides. Instructions are compared by the cycle in which each starts and the
  one in which it ends. Counters are all that a run leaves in the machine's registers: cycles, bytes, and of machines that count
  all of it what each engine did in each cycle. Bytes are those of the whole DRAM and of all memories on chip.
- *random back-pressure*: the program's [C](firmware.md) runs the same hardware on another bus, which lets every channel wait at
  random: it moves in {OF_256} of 256 cycles, and gives beats of several reads in turns. What such a bus does in which cycle,
  nobody knows beforehand, so the simulator has no figure for it. Values must be the simulator's all the same, and the machine must keep
  the rules of AXI: what is valid stays as it is until it is taken, and no burst crosses a page.
"""  # noqa: E501

OTHERS = """\
## Beside others

What others publish of their own models. None of them is of the same thing: read the third column.

| model | figure | against what |
| --- | --- | --- |
| Tilewright | 0 cycles | its own Verilog: every instruction of the networks above. That Verilog has not been on a chip; a memory that refreshes, or a clock that changes, is outside of the model |
| [ONNXim](https://arxiv.org/abs/2406.08051) | 0.23 % mean absolute error | Gemmini's Verilog, one core, matrix products and convolutions |
| [MAESTRO](https://arxiv.org/abs/1805.02566) | 3.9 % absolute error on average | Verilog of MAERI, and what is published of Eyeriss, for layers of two networks |
| [TPU v1](https://arxiv.org/abs/1704.04760) | 8 % on average | counters of the chip, for six networks in use |
| [Vela](https://gitlab.arm.com/artificial-intelligence/ethos-u/ethos-u-vela) | none | its estimates are meant to compare schedules with each other, it says |

An analytical model answers in microseconds what a model of each cycle answers in milliseconds: it need not be exact to be useful.
"""  # noqa: E501


def page(networks: Sequence[Network]) -> str:
    """The whole page."""
    parts = [HEAD, "\n".join(summary(networks)), "\n".join(pressure(networks)), OTHERS]
    return "\n".join([*parts, *(section(network) for network in networks)])


def summary(networks: Sequence[Network]) -> Iterator[str]:
    """A row for each network and latency."""
    yield "## All networks\n"
    columns = ("network", "machine", "latency", "simulator", "hardware", "difference")
    columns += ("layers", "differ", "instructions", "differ", "counters", "differ", "bytes that differ")
    yield from head(columns, 2)
    for network in networks:
        for run in network.runs:
            yield row(network.name, f"`{network.machine}`", run.latency, *compared(run.cycles), *facts(run))
    yield ""


def facts(run: Run) -> tuple[int, ...]:
    layers, counters = (sum(differs(each) for each in found.values()) for found in (run.layers, run.counters))
    moved = (run.instructions, run.instructions_that_differ)
    return (len(run.layers), layers, *moved, len(run.counters), counters, run.bytes_that_differ)


def pressure(networks: Sequence[Network]) -> Iterator[str]:
    """A row for each network on a bus that lets it wait."""
    yield "## Under random back-pressure\n"
    columns = ("network", "machine", "cycles", "values of outputs", "differ", "rules of AXI broken")
    yield from head(columns, 2)
    for network in networks:
        found = network.pressed
        facts = (found.cycles, found.values, found.values_that_differ, found.broken_rules)
        yield row(network.name, f"`{network.machine}`", *facts)
    yield ""


def section(network: Network) -> str:
    """Layers and counters of a network."""
    lines = [f"## {network.name} on `{network.machine}`\n"]
    lines += ["Cycles of each layer: those by which it ends after all layers before it.\n"]
    lines += table("layer", network.runs, {run.latency: run.layers for run in network.runs})
    lines += ["\nCounters, in cycles and bytes:\n"]
    lines += table("counter", network.runs, {run.latency: run.counters for run in network.runs})
    return "\n".join(lines) + "\n"


def table(what: str, runs: Sequence[Run], found: Mapping[int, Mapping[str, Sides]]) -> list[str]:
    """Simulator, hardware and difference at each latency."""
    latencies = [run.latency for run in runs]
    columns = [f"{side} at {latency}" for latency in latencies for side in ("simulator", "hardware", "difference")]
    lines = list(head((what, *columns), 1))
    for name in found[latencies[0]]:
        lines.append(row(f"`{name}`", *(value for each in latencies for value in compared(found[each][name]))))
    return lines


def compared(both: Sides) -> tuple[int, int, int]:
    return both.simulator, both.hardware, both.simulator - both.hardware


def differs(both: Sides) -> bool:
    return both.simulator != both.hardware


def head(columns: Sequence[str], texts: int) -> Iterator[str]:
    yield f"| {' | '.join(columns)} |"
    yield f"| {' | '.join(['---'] * texts + ['---:'] * (len(columns) - texts))} |"


def row(*cells: str | int) -> str:
    return f"| {' | '.join(cell if isinstance(cell, str) else f'{cell:,}' for cell in cells)} |"

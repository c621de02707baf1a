"""Networks on machines: each pair compiled, checked and simulated, each machine priced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from tilewright.codesign.compare.machines import ComparedMachine
from tilewright.codesign.points.derived import Derived, derived
from tilewright.codesign.points.evaluate import Failure, MeasuredNetwork, NetworkFigures, Outcome, figures, measure
from tilewright.codesign.points.network import Network
from tilewright.codesign.points.priced import MachineFigures, Priced, price_of
from tilewright.codesign.progress import Progress, silent
from tilewright.isa.errors import did_you_mean


@dataclass(frozen=True)
class ComparedPoint:
    """A network on a machine. `measured` is None where there are no figures."""

    outcome: Outcome
    derived: Derived | None
    measured: MeasuredNetwork | None

    @property
    def network(self) -> str:
        return self.outcome.network

    @property
    def machine(self) -> str:
        return self.outcome.machine

    def as_json(self) -> dict[str, Any]:
        return {**self.outcome.as_json(), **(asdict(self.derived) if self.derived is not None else {})}


@dataclass(frozen=True)
class Comparison:
    """All points, network by network; `machines` by name, None for one without a price."""

    networks: tuple[str, ...]
    machines: Mapping[str, MachineFigures | None]
    points: tuple[ComparedPoint, ...]
    effort: int

    def __repr__(self) -> str:
        return f"<Comparison: {', '.join(self.networks)} on {', '.join(self.machines)}>"

    def point(self, network: str, machine: str) -> ComparedPoint:
        """Of a network and a machine by name; raises KeyError."""
        for point in self.points:
            if (point.network, point.machine) == (network, machine):
                return point
        raise KeyError((network, machine))

    def best(self, figure: str, network: str) -> frozenset[str]:
        """The machines with the best figure of a network; none if no machine is better than another.

        Nor is any where the figure of one of them is not known: it may be better. Only machines that leave as few
        nodes to the host as any are compared: the host's time is in no figure. Raises ValueError for an unknown figure
        or network.
        """
        figures = (*(of.name for of in (*fields(NetworkFigures), *fields(Derived)) if of.type != "str"),)
        for name, known, what in ((figure, figures, "figure"), (network, self.networks, "network")):
            if name not in known:
                raise ValueError(f"no {what} {name!r}{did_you_mean(name, known)}; there are: {', '.join(known)}")
        outcomes = [of.outcome for of in self.points if of.network == network]
        fewest = min((of.host_nodes for of in outcomes if isinstance(of, NetworkFigures)), default=0)
        values = {
            point.machine: point.as_json()[figure]
            for point in self.points
            if point.network == network
            and isinstance(point.outcome, NetworkFigures)
            and point.outcome.host_nodes == fewest
        }
        return best_of(values, figure in HIGHER_IS_BETTER)

    def as_json(self) -> dict[str, Any]:
        return {
            "effort": self.effort,
            "machines": [
                {"machine": name} if of is None else {**of.as_json(), "area_mm2": of.area_mm2}
                for name, of in self.machines.items()
            ],
            "points": [point.as_json() for point in self.points],
        }


HIGHER_IS_BETTER = frozenset({"utilisation", "inferences_per_second", "images"})


def best_of(values: Mapping[str, float | None], is_higher: bool = False) -> frozenset[str]:
    """The names of the best value; none if all are equal, or there is only one, or one is not known."""
    known = [value for value in values.values() if value is not None]
    if len(known) < len(values) or len(set(known)) < 2:
        return frozenset()
    best = (max if is_higher else min)(known)
    return frozenset(name for name, value in values.items() if value == best)


def compare_machines(
    networks: Sequence[Network],
    machines: Sequence[ComparedMachine],
    effort: int = 1,
    with_price: bool = True,
    clock_mhz: float | None = None,
    progress: Progress = silent,
) -> Comparison:
    """Compile and simulate every network on every machine, and price the machines unless that is not wanted.

    With `clock_mhz`, all machines run at that clock in place of their own, which takes half a minute to find. Raises
    PriceError; a network that fails on a machine is a point with the reason.
    """
    prices: dict[str, Priced | None] = {}
    for candidate in machines:
        prices[candidate.name] = None
        if with_price:
            with progress(f"pricing {candidate.name}"):
                prices[candidate.name] = _priced(candidate, clock_mhz)
    points = []
    for network in networks:
        for candidate in machines:
            with progress(f"{network.name} on {candidate.name}"):
                found = measure(network, candidate.machine, effort)
                points.append(_point(found, prices[candidate.name]))
    known = {name: None if priced is None else priced.figures for name, priced in prices.items()}
    return Comparison(tuple(network.name for network in networks), known, tuple(points), effort)


def _priced(candidate: ComparedMachine, clock_mhz: float | None) -> Priced:
    priced = price_of(candidate.machine, candidate.like, with_clock=clock_mhz is None)
    if clock_mhz is None:
        return priced
    return replace(priced, figures=replace(priced.figures, clock_ns=1000 / clock_mhz, clock_limit="given"))


def _point(found: MeasuredNetwork | Failure, priced: Priced | None) -> ComparedPoint:
    if isinstance(found, Failure):
        return ComparedPoint(found, None, None)
    outcome = figures(found, None if priced is None else priced.price)
    return ComparedPoint(outcome, derived(outcome, None if priced is None else priced.figures), found)

"""Verifies points of a study, each to some degrees, and keeps what was found in the study.

The exact area of a point is that of all its logic, synthesised. Of points that the study dropped, some are compiled,
to see whether one takes fewer cycles than it was dropped for.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tilewright.codesign.errors import PriceError, StudyError
from tilewright.codesign.explore.space import Point, Space
from tilewright.codesign.explore.store import Store
from tilewright.codesign.explore.study import DONE, DROPPED, Entry, Study
from tilewright.codesign.explore.totals import machine_figures
from tilewright.codesign.points.evaluate import Failure, measure
from tilewright.codesign.points.network import Network, read_network
from tilewright.codesign.points.priced import exact_price_of
from tilewright.codesign.verify.hardware import verify_datapath, verify_hardware
from tilewright.codesign.verify.kept import machine_of, verdicts, verified_line
from tilewright.codesign.verify.verdict import (
    AREA,
    BITS,
    BOUND,
    DEGREES,
    PROOF,
    RTL,
    Verdict,
    VerifyOutcome,
    fails,
    holds,
    not_done,
)
from tilewright.codesign.version import version
from tilewright.isa.errors import did_you_mean
from tilewright.isa.machine.machine import Machine

CompareBits = Callable[[Network, Machine, int], Verdict]
"""Compares a network's tensors on a machine, compiled with an effort, with ONNX Runtime's."""


@dataclass(frozen=True, slots=True)
class PointVerdict:
    """The verdict on a point at a degree."""

    label: str
    degree: str
    verdict: Verdict


def verify(
    folder: Path, space: Space, labels: Sequence[str], degrees: Sequence[str], compare_bits: CompareBits
) -> Iterator[PointVerdict]:
    """Verify points of a study, or its front and some dropped points; what is known already is not tested again.

    Of a dropped point the bound is tested, of others all else. A test that could not be done is not kept. Raises
    StudyError for an unknown point or degree, for a study of another version, and where the space's files have
    changed since.
    """
    study = Study(folder)
    if study.space_facts["version"] != version():
        raise StudyError(f"{folder}: is of another version of this program; give the command that made it again, first")
    for degree in degrees:
        if degree not in DEGREES:
            meant = did_you_mean(degree, list(DEGREES))
            raise StudyError(f"no degree {degree!r}{meant}; there are: {', '.join(DEGREES)}")
    entries = chosen(study, labels, degrees)
    networks = [read_network(each.path, name=each.name) for each in space.networks]
    with Store(folder) as store:
        for entry in entries:
            subject = _Subject(space, study, entry, networks, compare_bits)
            for degree in (name for name in DEGREES if name in degrees and _is_of(name, entry)):
                verdict = verdicts(study, entry).get(degree)
                if verdict is None:
                    verdict = subject.verdict(degree)
                    if verdict.outcome is not VerifyOutcome.NOT_DONE:
                        store.add(verified_line(study, entry, degree, verdict))
                yield PointVerdict(entry.label, degree, verdict)


def _is_of(degree: str, entry: Entry) -> bool:
    """Whether points such as this one are tested to a degree."""
    return (degree == BOUND) == (entry.state == DROPPED)


def chosen(study: Study, labels: Sequence[str], degrees: Sequence[str]) -> list[Entry]:
    """The entries of points by label; or of the front, and some that were dropped if bounds are tested.

    Raises StudyError.
    """
    if not labels:
        if not study.front:
            raise StudyError(f"{study.folder}: no point is measured yet")
        return [*study.front, *(some_dropped(study) if BOUND in degrees else ())]
    entries = {entry.label: entry for entry in study.entries}
    for label in labels:
        if label not in entries:
            raise StudyError(
                f"{study.folder}: no point {label!r}{did_you_mean(label, list(entries))}; "
                "`tilewright explore show --all --json -` lists them"
            )
        if not (entries[label].state == DONE or (entries[label].state == DROPPED and BOUND in degrees)):
            raise StudyError(f"{study.folder}: {label} has no figures to verify: it is {entries[label].state}")
    return [entries[label] for label in labels]


class _Subject:
    """A point under test."""

    def __init__(
        self, space: Space, study: Study, entry: Entry, networks: Sequence[Network], compare_bits: CompareBits
    ) -> None:
        self._space = space
        self._study = study
        self._entry = entry
        self._point: Point = entry.values
        self._machine = space.machine(self._point)
        self._networks = networks
        self._compare_bits = compare_bits
        if space.machine_key(self._point, self._machine) != machine_of(study, entry):
            raise StudyError(f"{study.folder}: the machine of {entry.label} has changed since; run the study again")

    def verdict(self, degree: str) -> Verdict:
        tests: Mapping[str, Callable[[], Verdict]] = {
            BITS: self._bits,
            RTL: lambda: verify_hardware(self._machine),
            PROOF: lambda: verify_datapath(self._machine),
            BOUND: lambda: verify_dropped(self._space, self._study, self._entry, self._machine, self._networks),
            AREA: lambda: verify_area(self._space, self._point, self._entry, self._machine),
        }
        return tests[degree]()

    def _bits(self) -> Verdict:
        """All networks: the first that fails, or was not compared, stands for them."""
        verdicts = {each.name: self._compare_bits(each, self._machine, self._space.effort) for each in self._networks}
        for outcome, make in ((VerifyOutcome.FAILS, fails), (VerifyOutcome.NOT_DONE, not_done)):
            for name, verdict in verdicts.items():
                if verdict.outcome is outcome:
                    return make(f"{name}: {verdict.text}")
        return holds("; ".join(f"{name}: {verdict.text}" for name, verdict in verdicts.items()))


def verify_area(space: Space, point: Point, entry: Entry, machine: Machine) -> Verdict:
    """Synthesise all logic; fails when a constraint that the study's figures meet is not met by the exact ones."""
    try:
        exact = machine_figures(exact_price_of(machine, space.target_mhz(point)).figures)
    except PriceError as error:
        return not_done(str(error))
    known = {name: value for name, value in exact.items() if name != "clock_mhz"}
    names = {**space.names(point), **entry.figures, **known}
    text = f"{exact['logic_mm2']:.3g} mm² of logic, {_share(entry, exact['logic_mm2'] or 0.0)} the study's figure"
    for constraint in space.constraints:
        if constraint.figures & known.keys() and not constraint.is_met(names):
            return fails(f"{text}: `{constraint.expression.text}` is not met")
    return holds(text)


def _share(entry: Entry, exact: float) -> str:
    """How far the exact logic is from what the study has: `2.1 % above`."""
    estimated = entry.figures.get("logic_mm2") or exact
    share = 100 * (exact / estimated - 1)
    return f"{abs(share):.1f} % {'above' if share > 0 else 'below'}"


TRIED = 3
"""So many of the dropped points are tried where no point is named."""


def some_dropped(study: Study) -> list[Entry]:
    """A few of the dropped points, the same each time, in no order that their keys have."""
    dropped = [entry for entry in study.entries if entry.state == DROPPED]
    return sorted(dropped, key=lambda entry: hashlib.sha256(entry.label.encode()).digest())[:TRIED]


def verify_dropped(space: Space, study: Study, entry: Entry, machine: Machine, networks: Sequence[Network]) -> Verdict:
    """Compile all networks; fails when they take fewer cycles than no program was said to go below."""
    line = study.line("dropped", entry.label, study.space_facts["version"])
    assert line is not None, "a dropped point has a line that says why"
    least, cycles = float(line["least_cycles"]), 0.0
    for network, weighted in zip(networks, space.networks, strict=True):
        found = measure(network, machine, space.effort)
        if isinstance(found, Failure):
            return holds(f"{network.name} fails in the stage {found.stage}: it would not be on the front")
        if found.host_nodes:
            return holds(f"{network.name} leaves nodes to the host: it would not be on the front")
        cycles += weighted.weight * sum(each.cycles for each in found.profiles)
    text = f"{cycles:,.0f} cycles, dropped for {least:,.0f} at best"
    return holds(text) if cycles >= least else fails(text)

"""`tilewright explore verify`: put points of a study to the test; and what `explore show` says of that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tilewright.commands.options import Json, report
from tilewright.commands.study import SpaceFile, space_of

if TYPE_CHECKING:
    from tilewright.codesign.explore.space import Space
    from tilewright.codesign.explore.study import Entry, Study
    from tilewright.codesign.verify.verify import PointVerdict

MARKS = {"holds": "yes", "fails": "FAILS", "not done": "not done"}
"""How a table says the outcome of a test."""


def verify_command(
    study: Annotated[Path, typer.Argument(metavar="STUDY", help="The folder of a study.")],
    points: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[POINT...]", help="Points by their labels; if none is given, the front, and some dropped points."
        ),
    ] = None,
    degree: Annotated[
        list[str] | None,
        typer.Option("--degree", metavar="DEGREE", help="bits, rtl, proof, area or bound; all if none is given."),
    ] = None,
    space: SpaceFile = None,
    json: Json = None,
) -> None:
    """Test machines of a study: values, hardware, datapath, area, bounds. Exit code 1 when a test fails.

    bits: all tensors of each network against ONNX Runtime. rtl: the hardware against the simulator, every byte and
    cycle. proof: the vector datapath, for all inputs. area: all logic synthesised. bound: points
    that were dropped take no fewer cycles than they were dropped for. What is found is kept in the study.
    """
    from tilewright.codesign.explore.study import Study

    findings = verify_points(study, space_of(Study(study), space), points or (), degree or ())
    if report([_as_json(finding) for finding in findings], json):
        _print_findings(findings)
    require_sound(findings)


def verify_points(
    folder: Path, space: Space, points: Sequence[str] = (), degrees: Sequence[str] = ()
) -> Sequence[PointVerdict]:
    """Verify points, or the front; each verdict is said on standard error as soon as it is there."""
    from tilewright.codesign.explore.specialised import instructions_of
    from tilewright.codesign.verify.verdict import DEGREES
    from tilewright.codesign.verify.verify import verify
    from tilewright.values.verified import compare_bits

    findings: list[PointVerdict] = []
    space = instructions_of(space, folder)
    for finding in verify(folder, space, points, degrees or tuple(DEGREES), compare_bits):
        findings.append(finding)
        typer.echo(f"{finding.label}: {finding.degree} {_said(finding)}", err=True)
    return findings


def require_sound(findings: Sequence[PointVerdict]) -> None:
    """Raises typer.Exit with code 1 where a test fails."""
    if any(finding.verdict.fails for finding in findings):
        raise typer.Exit(1)


def _said(finding: PointVerdict) -> str:
    return f"{MARKS[finding.verdict.outcome.value]}: {finding.verdict.text}"


def _as_json(finding: PointVerdict) -> dict[str, str]:
    verdict = finding.verdict
    return {"point": finding.label, "degree": finding.degree, "outcome": verdict.outcome.value, "text": verdict.text}


def _print_findings(findings: Sequence[PointVerdict]) -> None:
    """A row a point, a column a degree."""
    from tilewright.terminal.tables import print_table, print_text

    degrees = list(dict.fromkeys(finding.degree for finding in findings))
    rows: dict[str, dict[str, str]] = {}
    for finding in findings:
        rows.setdefault(finding.label, {})[finding.degree] = MARKS[finding.verdict.outcome.value]
    print_table(
        "Verified",
        ("point", *degrees),
        [(label, *(of.get(degree, "") for degree in degrees)) for label, of in rows.items()],
    )
    failed = sum(finding.verdict.fails for finding in findings)
    if failed:
        print_text(f"{failed} of {len(findings)} tests FAIL{'S' * (failed == 1)}.")


# -- what `explore show` says ------------------------------------------------------------------------------------------


def verified_json(study: Study, entry: Entry) -> Mapping[str, Any]:
    """The verdicts on a point that its study keeps, by degree."""
    from tilewright.codesign.verify.kept import verdicts

    return {
        degree: {"outcome": verdict.outcome.value, "text": verdict.text}
        for degree, verdict in (verdicts(study, entry).items() if entry.networks else ())
    }


def print_verified(study: Study, entries: Sequence[Entry]) -> None:
    """To which degree the points of a front are verified; nothing if none is."""
    from tilewright.codesign.verify.kept import verdicts
    from tilewright.terminal.tables import print_table, print_text

    found = {entry.label: verdicts(study, entry) for entry in entries}
    degrees = list(dict.fromkeys(degree for of in found.values() for degree in of))
    if not degrees:
        return
    print()
    rows = [(study.difference(entry), *(_mark(found[entry.label], degree) for degree in degrees)) for entry in entries]
    print_table("Verified", ("point", *degrees), rows)
    for entry in entries:
        for degree, verdict in found[entry.label].items():
            if verdict.fails:
                print_text(f"FAILS: {entry.label}: {degree}: {verdict.text}", indent=2)


def _mark(verdicts: Mapping[str, Any], degree: str) -> str:
    return MARKS[verdicts[degree].outcome.value] if degree in verdicts else "no"

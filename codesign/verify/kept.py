"""The verdicts that a study keeps: a line for each machine and degree, by the version that found it."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.codesign.explore.lines import Line
from tilewright.codesign.explore.study import Entry, Study
from tilewright.codesign.verify.verdict import BITS, BOUND, DEGREES, Verdict, VerifyOutcome


def verdicts(study: Study, entry: Entry) -> Mapping[str, Verdict]:
    """What is known of a point, by degree."""
    found = {}
    for degree in DEGREES:
        line = study.line("verified", *_key(study, entry, degree).values())
        if line is not None:
            found[degree] = Verdict(VerifyOutcome(line["outcome"]), line["text"])
    return found


def verified_line(study: Study, entry: Entry, degree: str, verdict: Verdict) -> Line:
    """The line that keeps a verdict."""
    facts = {"outcome": verdict.outcome.value, "text": verdict.text}
    return {"kind": "verified", **_key(study, entry, degree), **facts}


def machine_of(study: Study, entry: Entry) -> str:
    """The key of a point's machine; nothing of one that cannot be built."""
    line = study.line("machine", entry.label)
    assert line is not None, "a point has a line of its own"
    return str(line.get("machine", ""))


def _key(study: Study, entry: Entry, degree: str) -> dict[str, object]:
    """Bits and cycles are those of programs, so they depend on the networks and the effort."""
    space, is_of_programs = study.space_facts, degree in (BITS, BOUND)
    return {
        "machine": machine_of(study, entry),
        "degree": degree,
        "networks": ",".join(sorted(each["hash"] for each in space["networks"])) if is_of_programs else "",
        "effort": space["effort"] if is_of_programs else 0,
        "version": space["version"],
    }

"""What a test of a machine said, and the degrees to which a machine can be verified."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

BITS, RTL, PROOF, AREA, BOUND = "bits", "rtl", "proof", "area", "bound"

DEGREES: Mapping[str, str] = {
    BITS: "each network's tensors are those of ONNX Runtime",
    RTL: "the hardware has the simulator's bytes and cycles",
    PROOF: "the vector datapath computes what its instructions say, for all inputs",
    AREA: "all logic is synthesised, and within the space's constraints",
    BOUND: "of a point that was dropped: compiled, it takes no fewer cycles than it was dropped for",
}
"""In the order in which they are tested, with what each of them says of a machine."""


class VerifyOutcome(Enum):
    """A machine holds, or fails; or it could not be tested here."""

    HOLDS = "holds"
    FAILS = "fails"
    NOT_DONE = "not done"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of a test, and what it found in a few words."""

    outcome: VerifyOutcome
    text: str

    @property
    def fails(self) -> bool:
        return self.outcome is VerifyOutcome.FAILS


def holds(text: str) -> Verdict:
    return Verdict(VerifyOutcome.HOLDS, text)


def fails(text: str) -> Verdict:
    return Verdict(VerifyOutcome.FAILS, text)


def not_done(text: str) -> Verdict:
    return Verdict(VerifyOutcome.NOT_DONE, text)

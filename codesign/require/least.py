"""What any machine needs at least, whatever the compiler finds: by the bounds of the networks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tilewright.codesign.bounds.needs import Needs, needs_of
from tilewright.codesign.points.network import Network
from tilewright.codesign.require.question import RequiredLimits
from tilewright.isa.language.numeric import IntegerType


@dataclass(frozen=True, slots=True)
class Least:
    """`macs` and `bus_bytes` are of a cycle; None where no rate is asked, so that nothing follows."""

    products: int  # of a run: those that no program leaves out
    weight_bytes: int  # that each run reads
    macs: int | None
    bus_bytes: int | None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def needs_of_all(networks: Sequence[Network], weight: IntegerType) -> Needs:
    """Of one run of each network, with weights of a type."""
    found = [needs_of(network, weight) for network in networks]
    return Needs(sum(of.products for of in found), sum(of.weight_bytes for of in found))


def least(needs: Needs, asked: RequiredLimits) -> Least:
    """1,000 products in 300 cycles are 4 a cycle at least: 3 would take 334 cycles."""
    cycles = asked.cycles
    if cycles is None:
        return Least(needs.products, needs.weight_bytes, None, None)
    return Least(needs.products, needs.weight_bytes, -(-needs.products // cycles), -(-needs.weight_bytes // cycles))

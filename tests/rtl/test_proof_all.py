"""Every proof of the shipped machines holds, as `make prove` prints them."""

from __future__ import annotations

import pytest

from tilewright.isa.files.loader import load_machine, shipped_machines
from tilewright.rtl.proof.all import all_proofs


@pytest.mark.long
@pytest.mark.parametrize("names", [("tiny8",), shipped_machines()], ids=["tiny8", "all machines"])
def test_every_proof_holds(names: tuple[str, ...]) -> None:
    proofs = all_proofs([load_machine(name) for name in names])
    assert [(names, proof.claim, proof.counterexample) for names, proof in proofs if not proof.holds] == []

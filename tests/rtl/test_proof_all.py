"""Every proof of every shipped machine holds, as `make prove` prints them."""

from __future__ import annotations

import pytest

from tilewright.isa.files.loader import load_machine, shipped_machines
from tilewright.rtl.proof.all import all_proofs


@pytest.mark.slow
def test_every_proof_of_every_shipped_machine_holds() -> None:
    proofs = all_proofs([load_machine(name) for name in shipped_machines()])
    assert [(names, proof.claim, proof.counterexample) for names, proof in proofs if not proof.holds] == []

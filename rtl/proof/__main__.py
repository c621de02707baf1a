"""Prints the table of proofs of a machine, and ends with 1 if one fails: python -m tilewright.rtl.proof"""

from __future__ import annotations

import argparse
import signal
import sys

from tilewright.isa.errors import IsaError
from tilewright.isa.files.loader import load_machine, shipped_machines
from tilewright.rtl.proof.all import all_proofs


def main(arguments: list[str]) -> int:
    """Prove one machine, or all shipped ones: equal hardware once."""
    parser = argparse.ArgumentParser(prog="python -m tilewright.rtl.proof", description=__doc__)
    parser.add_argument("--machine", help="a shipped machine or a YAML file; without it, all shipped machines")
    asked = parser.parse_args(arguments).machine
    try:
        machines = [load_machine(name) for name in ([asked] if asked else shipped_machines())]
    except IsaError as error:
        print(error, file=sys.stderr)
        return 2
    proofs = []
    print(f"{'what':72} {'method':48} {'result':8} seconds")
    for names, proof in all_proofs(machines):
        proofs.append(proof)
        result = "proved" if proof.holds else "FAILED"
        print(f"{names + ': ' + proof.claim:72} {proof.method:48} {result:8} {proof.seconds:7.1f}", flush=True)
        if not proof.holds:
            print(f"    {proof.counterexample}", flush=True)
    failed = sum(not proof.holds for proof in proofs)
    print(f"{len(proofs)} proofs, {failed} failed, {sum(proof.seconds for proof in proofs):.0f} seconds")
    return 1 if failed else 0


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a question to the solver would end first
    sys.exit(main(sys.argv[1:]))

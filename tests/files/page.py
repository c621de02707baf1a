"""docs/files.md: for each exporter what was tried, and what of it runs where."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path

from tests.files import onnx_styles, ort_quantizer, tflite_styles, torch_export
from tests.files.trial import Ending, Trial, tried

PAGE = Path(__file__).resolve().parents[2] / "docs" / "files.md"
MACHINE = "base16"

EXPORTERS = ("PyTorch, TorchScript", "PyTorch, dynamo", "tf2onnx", "Brevitas", "NNCF", "AIMET", "Quark")
"""Those of ONNX files that are not run here, or not everywhere."""

TRIALS: Sequence[Trial] = [
    *sorted((*torch_export.TRIALS, *onnx_styles.TRIALS), key=lambda trial: EXPORTERS.index(trial.exporter)),
    *ort_quantizer.TRIALS,
    *tflite_styles.TRIALS,
]

HEAD = f"""\
# Files

This page lists what exporters and quantisers write, and which part of it runs on `{MACHINE}`. `python -m tests.files`
writes it: it makes a small file of each form, compiles and runs it, and compares the results with those of ONNX Runtime
without optimisations, or of LiteRT's reference kernels. [operators.md](operators.md) lists operators one by one.

An exporter that is a package and is installed is *run*. The file of any other comes from a *generator* that writes the
same form (`tests/files`). PyTorch is not needed for anything else here: where it is installed, its exporters are run
(`pip install torch`). Float files, and only they, are quantised first, with random samples.

*Apart* is how far the results are from the reference: in steps of an integer output, or, of a float output, as the
ratio of the results to their difference. A float file is compared with itself in float32, so that this is what int8
costs.

{{summary}}
"""


def lines(trials: Sequence[Trial] = TRIALS) -> dict[Trial, str]:
    """A row of the page for each file."""
    return {trial: row(trial, tried(trial, MACHINE)) for trial in trials}


def row(trial: Trial, ending: Ending) -> str:
    cells = (trial.form, trial.maker, ending.place, ending.apart, ending.reason)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def page(rows: Mapping[Trial, str]) -> str:
    """The page's text."""
    whole = sum(" | machine | " in line for line in rows.values())
    refused = sum(" | refused | " in line for line in rows.values())
    summary = (
        f"Of {len(rows)} files, {whole} run on the machine as a whole, {len(rows) - whole - refused} on machine and "
        f"host or on the host, and {refused} are refused. The host computes what the machine cannot, in the same "
        "`run`; the last column says why."
    )
    parts = [HEAD.format(summary="\n".join(textwrap.wrap(summary, 120)))]
    for exporter, group in groupby(rows.items(), key=lambda item: item[0].exporter):
        head = ["form", "made by", "where", "apart", "why not all on the machine"]
        parts += [f"## {exporter}\n", f"| {' | '.join(head)} |", f"| {' | '.join(['---'] * len(head))} |"]
        parts += [*(line for _, line in group), ""]
    return "\n".join(parts)

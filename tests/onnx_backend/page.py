"""docs/onnx-backend.md: written from the outcomes of the tests, and read back by the test that no line is lost."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tests.onnx_backend.results import Outcome, Place

PAGE = Path(__file__).resolve().parents[2] / "docs" / "onnx-backend.md"

KINDS: Mapping[str, str] = {
    "Node": "single operators",
    "Simple": "small models",
    "Real": "light models: AlexNet, DenseNet-121, Inception 1 and 2, ResNet-50, ShuffleNet, SqueezeNet, VGG-19, ZFNet",
    "PyTorchConverted": "models converted from PyTorch",
    "PyTorchOperator": "PyTorch operators",
}
"""What the onnx package's tests are, by their kind."""

QUANTISED = re.compile("^QLinear|uantizeLinear$|Integer$")
"""Operators on quantised integers."""

WHY: Mapping[str, str] = {
    "bernoulli": "random: the expected values are one draw of another generator",
    "image_decoder": "ONNX Runtime has no ImageDecoder; the reference evaluator has it when Pillow is installed",
    "loop16_seq_none": "the test's own comparison cannot compare the lists that it expects",
    "gradient": "an operator for training, in a preview domain that neither evaluator knows",
    "range_bfloat16": "ONNX Runtime takes no bfloat16 arrays; the reference evaluator counts one element too many",
}
"""What is behind a failure, by a part of the test's name."""

WIDTH = 150

TITLES = {"On the machine": Place.NPU, "On machine and host": Place.BOTH, "On the host": Place.HOST}
"""The sections with names of tests."""

HEAD = """\
# ONNX's backend interface

`tilewright.onnx_backend` implements the interface of `onnx.backend.base`: `prepare`, `run_model`, `run_node`,
`supports_device`.

```python
import onnx
import tilewright.onnx_backend as backend

prepared = backend.prepare(onnx.load("model.onnx"), "CPU", isa="base16")
outputs = prepared.run([image])
```

The only device is `CPU`. It simulates the machine that `isa` names. Operators that the machine cannot do run on the
host, in ONNX Runtime without optimisations. Operators that ONNX Runtime cannot do run in ONNX's reference evaluator.

There are three options: `isa` (a machine's name, path or value), `on` (`sim`, `rtl` or `interpreter`), and
`host_floats=False`, which refuses a model if the machine can do nothing of it.

Some models have weights, scales or zero points as inputs. For the program they are constants. So such a model is
compiled when the first inputs come, and again for each new set of these values.

## The onnx package's own tests

`python -m tests.onnx_backend` runs these tests on `base16` and writes this page. A test of ours fails if one of them no
longer passes, or if it moves from the machine to the host. *NPU* means that every node runs on the machine.
"""

ENDS = """\
This machine computes with integers; none of its instructions has a floating-point type. A QuantizeLinear at an input of
the model and a DequantizeLinear at an output convert between the host's float array and the integers in DRAM. The host
does this when it stores or reads the array. The program describes the tensor's scales and zero points: one, or one for
each channel or block. If a model does nothing else, the machine copies these integers through its memories, as int8 or
int32 elements. Between operators, the machine accepts int8 and uint8 with one scale.

Floats of few bits (float8 e4m3fn and e5m2, float4 e2m1) are integers, too, in steps of the least value of their type
([types.md](types.md#floats-of-few-bits-from-files)). So they go from an input to an output where a memory holds as many
bits: of e2m1 as int8, of e4m3 as int32. Of e5m2 none of `base16` does.

Two kinds of tests stay on the host:

- **DynamicQuantizeLinear**, also written as ReduceMin, Div, Round, …: it computes its scale and zero point in float32
  in each run, from the smallest and the largest value of float data. A program needs them as constants, because the
  multipliers and shifts of the integer operators are made from them.
- **E5M2**, but on machines whose accumulators have 33 bits or more.
"""


TYPES = """\
## Types, on the machines that have them

The same tests of integer-quantised operators on machines with other types of weights and activations
([types.md](types.md)). *Failed* are those whose model is refused, or whose results differ.
"""

MACHINES = ("base16", "base16-w4", "w4-only", "base16-a16", "mixed16", "llm16", "mx16")
"""Those of this table."""

NAMES = "quantize|qlinear|integer"
"""Parts of the names of tests of integer-quantised operators."""


def type_rows(by_machine: Mapping[str, Sequence[Outcome]]) -> list[tuple[str, ...]]:
    """How many tests of integer-quantised operators ran where, for each machine; and what the first one lacks."""
    usual = {of.name: of.place for of in next(iter(by_machine.values()))}
    rows = []
    for machine, outcomes in by_machine.items():
        found = [of for of in outcomes if _is_quantised(of)]
        counts = [sum(of.place is place for of in found) for place in Place]
        other = [of for of in found if of.place is not usual[of.name]]
        names = ", ".join(of.name.removeprefix("test_") for of in other)
        reasons = ", ".join(dict.fromkeys(why(of) for of in other))
        rows.append((machine, *map(str, counts), str(len(found)), f"{names}: {reasons}" if other else ""))
    return rows


def page(outcomes: Sequence[Outcome], version: str, by_machine: Mapping[str, Sequence[Outcome]]) -> str:
    """The page's text; `by_machine` are the tests of integer-quantised operators on other machines."""
    return "\n".join(
        [
            HEAD,
            f"With onnx {version}:\n",
            _table(("tests", *(place.value for place in Place), "all"), _counts(outcomes)),
            "## Integer-quantised operators\n",
            f"{quantised_count(outcomes)}\n",
            ENDS,
            _table(("test", "where", "what keeps it from the machine"), quantised(outcomes)),
            TYPES,
            _table(("machine", *(place.value for place in Place), "all", "unlike the first"), type_rows(by_machine)),
            "## On the machine\n",
            _names(of for of in outcomes if of.place is Place.NPU),
            "## On machine and host\n",
            _names(of for of in outcomes if of.place is Place.BOTH),
            "## Not passed\n",
            _table(("test", "why"), [(f"{of.kind} {of.name}", why(of)) for of in outcomes if of.place is Place.FAILED]),
            "## On the host\n",
            _names(of for of in outcomes if of.place is Place.HOST),
        ]
    )


def quantised_count(outcomes: Sequence[Outcome]) -> str:
    """How many tests of integer-quantised operators run on the machine, every result as the onnx package has it."""
    places = [of.place for of in outcomes if _is_quantised(of)]
    counts = ", ".join(f"{place.value} {places.count(place)}" for place in Place if place in places)
    return f"Of {len(places)} tests: {counts}."


def why(outcome: Outcome) -> str:
    """Why a test fails; the error's text if nobody knows more."""
    known = [text for part, text in WHY.items() if part in outcome.name]
    return known[0] if known else outcome.reason.replace("|", "\\|")


def read_page(text: str) -> dict[str, Place]:
    """Of each test that passes, where."""
    found: dict[str, Place] = {}
    for title, place in TITLES.items():
        section = text.partition(f"## {title}\n")[2].partition("\n## ")[0]
        for kind, names in re.findall(r"^### (\w+)\n\n```text\n(.*?)\n```$", section, re.MULTILINE | re.DOTALL):
            found |= {f"{kind} test_{name}": place for name in names.split()}
    return found


def _counts(outcomes: Sequence[Outcome]) -> list[tuple[str, ...]]:
    rows = []
    for kind, words in KINDS.items():
        of_kind = [of for of in outcomes if of.kind == kind]
        counts = [sum(of.place is place for of in of_kind) for place in Place]
        rows.append((f"{kind}: {words}", *map(str, counts), str(len(of_kind))))
    totals = [sum(of.place is place for of in outcomes) for place in Place]
    return [*rows, ("all", *map(str, totals), str(len(outcomes)))]


def quantised(outcomes: Sequence[Outcome]) -> list[tuple[str, ...]]:
    """Each test of integer-quantised operators: name, where it ran, and why not on the machine."""
    return [
        (of.name.removeprefix("test_"), of.place.value, of.reason.replace("|", "\\|"))
        for of in outcomes
        if _is_quantised(of)
    ]


def _is_quantised(of: Outcome) -> bool:
    return any(QUANTISED.search(operator) for operator in of.operators)


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(row)} |" for row in (columns, ["---"] * len(columns), *rows)]
    return "\n".join(lines) + "\n"


def _names(outcomes: Iterable[Outcome]) -> str:
    """Names without `test_`, by kind, in blocks of text."""
    by_kind: dict[str, list[str]] = {}
    for of in outcomes:
        by_kind.setdefault(of.kind, []).append(of.name.removeprefix("test_"))
    if not by_kind:
        return "None.\n"
    blocks = []
    for kind, names in by_kind.items():
        lines = textwrap.wrap(" ".join(sorted(names)), WIDTH, break_long_words=False, break_on_hyphens=False)
        blocks.append("\n".join([f"### {kind}", "", "```text", *lines, "```", ""]))
    return "\n".join(blocks)

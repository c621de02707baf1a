"""Which operators of the networks run on a machine, and which on the host and why: the page docs/coverage.md.

python -m programs.networks.coverage                          # the page, for all networks: some minutes
python -m programs.networks.coverage --update                 # write it
python -m programs.networks.coverage ds-cnn unet              # the rows of these networks
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import onnx

from programs.networks.registry import NETWORKS, int8_network
from tilewright.compiler.partition.faults import find_faults
from tilewright.isa.files.loader import load_machine

PAGE = Path(__file__).resolve().parents[2] / "docs" / "coverage.md"
MACHINES = ("base16", "vector16", "sequence16")

FAMILIES: Mapping[str, tuple[str, ...]] = {
    "classifiers": (
        "resnet8", "resnet18", "resnet20v2", "resnet50", "resnet50v1.5", "squeezenet1.0", "squeezenet1.1", "botnet50",
    ),
    "classifiers with depthwise convolutions": (
        "mobilenetv1", "mobilenetv1-0.25", "mobilenetv2", "mobilenetv3-large", "mobilenetv3-small",
        "efficientnet-lite0", "shufflenetv2",
    ),
    "detectors": ("yolov3-tiny", "yolov3-tiny-boxes"),
    "segmentation": ("unet", "deeplabv3-mobilenetv2"),
    "speech and sound": ("ds-cnn", "autoencoder"),
    "recurrent networks": ("lstm-denoiser", "lstm-tagger", "gru-keywords"),
    "transformers": (
        "vit-tiny", "kwt-1", "bert-tiny", "mobilebert-block", "whisper-tiny-encoder", "gpt2-block", "stories260k",
        "stories260k-step", "stories15m", "stories15m-step",
    ),
}  # fmt: skip
"""The networks by what they are for."""

CONVERSIONS = ("QuantizeLinear", "DequantizeLinear")

HEAD = f"""\
# Coverage

This page lists what runs where of the networks in [`programs/networks`](../programs/networks/README.md), quantised to
int8. `python -m programs.networks.coverage --update` writes it. It asks the compiler of each operator whether
{", ".join(f"`{machine}`" for machine in MACHINES)} have instructions for it. What one has none for runs on the host, in
ONNX Runtime, in the same `run` ([host.md](host.md)). So does what is not worth its transfers between such operators,
which is not listed here. QuantizeLinear and DequantizeLinear are not counted.

[operators.md](operators.md) says the same of single operators, in all their forms.
"""

TITLES = ("network", "operators", *(f"on the host with `{machine}`" for machine in MACHINES))
NOTHING = "none"

NUMBER = re.compile(r"-?\d+")
"""Reasons that differ only in their numbers, such as a zero point, are one; the first of them is shown."""


def main() -> None:
    """Print or write the page, or print the rows of some networks."""
    parser = argparse.ArgumentParser(prog="python -m programs.networks.coverage", description="What runs where.")
    parser.add_argument("names", nargs="*", choices=[[], *NETWORKS], metavar="NAME", help="networks; default: all")
    parser.add_argument("--update", action="store_true", help=f"write docs/{PAGE.name}")
    arguments = parser.parse_args()
    if arguments.names:
        print(_table([row(name) for name in arguments.names]))
    elif arguments.update:
        PAGE.write_text(page())
    else:
        print(page(), end="")


def page() -> str:
    """The page's text."""
    tables = (f"## {family.capitalize()}\n\n{_table(list(map(row, names)))}\n" for family, names in FAMILIES.items())
    return "\n".join([HEAD, *tables])


def row(name: str) -> str:
    """A network's row: its operators, and those that each machine leaves to the host."""
    model = int8_network(name)
    nodes = [node for node in model.graph.node if node.op_type not in CONVERSIONS]
    counts = Counter(node.op_type for node in nodes)
    operators = ", ".join(f"{count} {operator}" for operator, count in sorted(counts.items()))
    return _line((f"`{name}`", operators, *(_on_host(model, machine) for machine in MACHINES)))


def _on_host(model: onnx.ModelProto, isa: str) -> str:
    """The operators that a machine has no instructions for, and why; those with the same reason together."""
    kinds = {node.name: node.op_type for node in model.graph.node}
    reasons: dict[str, str] = {}
    counts: dict[str, Counter[str]] = {}
    for name, error in find_faults(model, load_machine(isa)).items():
        form = NUMBER.sub("", error.fact)
        reasons.setdefault(form, error.fact)
        counts.setdefault(form, Counter())[kinds[name]] += 1
    listed = {form: ", ".join(f"{n} {kind}" for kind, n in sorted(count.items())) for form, count in counts.items()}
    ordered = sorted(reasons, key=lambda form: sorted(counts[form]))
    return "; ".join(f"{listed[form]}: {reasons[form]}" for form in ordered) or NOTHING


def _table(rows: Sequence[str]) -> str:
    return "\n".join([_line(TITLES), _line(["---"] * len(TITLES)), *rows])


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()

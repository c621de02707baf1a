"""The profile's JSON: its keys, what it gives back when it is read, and that no other place names its keys."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from tests.generators import random_program
from tests.test_engine_names import PACKAGES
from tilewright.isa.files.loader import load_machine
from tilewright.isa.outside import OutsideError
from tilewright.isa.program.partitioned import HostNode
from tilewright.isa.program.program import place_regions
from tilewright.isa.program.state import EngineCounters
from tilewright.simulator.cycles import simulate_cycles
from tilewright.simulator.losses import Loss
from tilewright.simulator.profile import profile
from tilewright.simulator.run_profile import (
    DramBytes,
    LayerProfile,
    PortTraffic,
    Resource,
    RunProfile,
    profile_from_json,
    profile_json,
)

SMALL = RunProfile(
    isa="m",
    cycles=9,
    macs=640,
    array_macs=640,
    utilisation=0.5,
    bound_cycles={Resource.COMPUTE: 5},
    dram_bytes=DramBytes(64, 8),
    layers=(
        LayerProfile(
            "conv",
            ("a", "b"),
            9,
            640,
            640,
            0.5,
            DramBytes(64, 8),
            {Resource.COMPUTE: 5},
            Resource.NONE,
            {Loss.IDLE: 4.0},
        ),
    ),
    engines={"second": EngineCounters(busy=4, wait={"first": 2}, stall={"port": 1}, idle=2)},
    host_nodes=(HostNode("n", "Cast", "floats", 12),),
    axi_ports=(PortTraffic(("fetch", "in"), 48, 0, 0.75), PortTraffic(("out",), 16, 8, 0.5)),
)

TEXT = """{
 "isa": "m", "cycles": 9, "macs": 640, "array_macs": 640, "utilisation": 0.5, "bound_cycles": {"compute": 5},
 "dram_bytes": {"read": 64, "written": 8},
 "layers": [{"name": "conv", "nodes": ["a", "b"], "cycles": 9, "macs": 640, "array_macs": 640, "utilisation": 0.5,
 "dram_bytes": {"read": 64, "written": 8}, "bound_cycles": {"compute": 5}, "bound": "none", "loss": {"idle": 4.0}}],
 "engines": {"second": {"busy": 4, "wait": {"first": 2}, "stall": {"port": 1}, "idle": 2}},
 "host_nodes": [{"name": "n", "op_type": "Cast", "reason": "floats", "transfer_bytes": 12}],
 "images": null, "axi_ports": [{"users": ["fetch", "in"], "read": 48, "written": 0, "share": 0.75},
 {"users": ["out"], "read": 16, "written": 8, "share": 0.5}], "cycles_per_image": 9.0
}"""


def test_writes_the_keys_of_the_documentation_in_their_order() -> None:
    assert json.dumps(profile_json(SMALL)) == TEXT.replace("\n ", " ").replace("{ ", "{").replace("\n", "")


def test_reads_what_it_writes() -> None:
    program = random_program(load_machine("tiny8"), np.random.default_rng(0), 12)
    found = profile(program, simulate_cycles(program, place_regions(program.limits)))
    made = profile_json(found)
    assert json.loads(json.dumps(made)) == made
    assert profile_from_json(made) == found
    assert profile_from_json(json.loads(TEXT)) == SMALL


def test_says_which_value_is_wrong() -> None:
    with pytest.raises(OutsideError, match=r"^Expected `int`, got `str` - at `\$\.layers\[0\]\.cycles`$"):
        profile_from_json(json.loads(TEXT.replace('["a", "b"], "cycles": 9', '["a", "b"], "cycles": "9"')))


# -- no other place names a key ----------------------------------------------------------------------------------------

KEYS = frozenset(
    field.name for kind in (RunProfile, LayerProfile, DramBytes, EngineCounters) for field in fields(kind)
) - {"isa", "name"}
"""Those of a profile; `isa` and `name` are keys of many things."""

OTHER_VALUES = {
    "isa/files/machine_file.py": "a machine's file",
    "isa/binary/description.py": "a program's description",
    "isa/binary/segments.py": "the parts of a network",
    "rtl/simulation/bench.py": "the bench's answer",
    "rtl/simulation/session.py": "the bench's answer",
    "tilewright/commands/compile_report.py": "the summary of compile",
    "tilewright/dumps/selection_report.py": "the table of select",
    "tilewright/explain/program.py": "what explain says",
    "tilewright/explain/report.py": "what explain says",
    "tilewright/commands/fpga.py": "the figures of a system on a board",
    "tilewright/commands/quantize.py": "the summary of quantize",
    "tilewright/commands/mixed_types.py": "the summary of quantize",
    "codesign/price/report.py": "what price says",
    "codesign/price/measure_activity.py": "the images of a network",
    "tilewright/demo.py": "the images of a network",
    "codesign/advise/kept_trials.py": "a kept trial",
    "codesign/explore/study.py": "a study's point",
    "codesign/explore/run.py": "a study's point",
}
"""Files that read these words as keys of something else."""


def read_keys(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """(line, key) of every `value["key"]` and `value.get("key")` that is read."""
    for node in ast.walk(tree):
        key: ast.expr | None = None
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
            key = node.slice
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "get"
            and node.args
        ):
            key = node.args[0]
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            yield key.lineno, key.value


def keys_of_files(repository: Path) -> Iterator[tuple[str, int, str]]:
    for package in PACKAGES:
        for path in sorted((repository / package).rglob("*.py")):
            if not any(part.is_symlink() for part in path.parents):
                for line, key in read_keys(ast.parse(path.read_text())):
                    if key in KEYS:
                        yield path.relative_to(repository).as_posix(), line, key


def test_no_file_reads_a_profile_by_its_keys(repository: Path) -> None:
    found = list(keys_of_files(repository))
    assert [f"{place}:{line} {key}" for place, line, key in found if place not in OTHER_VALUES] == []
    assert set(OTHER_VALUES) - {place for place, _, _ in found} == set(), "exceptions that nothing needs any more"

"""A network in parts: what the machine does is compiled, what it cannot is on the host with its reason."""

import numpy as np
import pytest

from tests.compiler.models import conv_model
from tests.mixed_networks import sandwich
from tilewright.compiler.partition.compile import compile_partitioned
from tilewright.isa.files.loader import load_machine
from tilewright.isa.program.partitioned import HostSegment, NpuSegment, Partitioned
from tilewright.isa.program.program import Program


@pytest.mark.parametrize("machine", ["base16", "tiny8"])
def test_compiles_the_parts_around_what_the_machine_cannot_do(machine: str) -> None:
    compiled = compile_partitioned(sandwich(), load_machine(machine))
    assert isinstance(compiled, Partitioned)
    first, host, last = compiled.segments
    assert isinstance(first, NpuSegment) and first.program.instructions
    assert isinstance(host, HostSegment) and [node.op_type for node in host.nodes] == ["CumSum"]
    assert isinstance(last, NpuSegment) and last.program.instructions


def test_a_network_for_the_machine_alone_is_a_program() -> None:
    model = conv_model(np.random.default_rng(0), 8, 8)
    assert isinstance(compile_partitioned(model, load_machine("base16")), Program)

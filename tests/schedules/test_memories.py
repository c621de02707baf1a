"""The least memory of a network is the smallest power of two with which no more of it goes to the host."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compiler.models import ModelBuilder, add_conv
from tests.schedules.memories import least_kib, machine_with, nests_without_program, selected
from tilewright.compiler.options import Options
from tilewright.compiler.partition.compile import compile_partitioned
from tilewright.isa.program.partitioned import Partitioned


@pytest.mark.parametrize(
    ("most", "from_kib", "least"), [(256, 12, 16), (256, 1, 1), (256, 200, 256), (160, 128, 128), (160, 129, 160)]
)
def test_the_least_memory_is_the_smallest_power_of_two_from_which_nothing_more_is_on_the_host(
    most: int, from_kib: int, least: int
) -> None:
    """One node is on the host anyway, three with less than so many KiB."""
    asked: list[int] = []

    def on_host(kib: int) -> int:
        asked.append(kib)
        return 1 if kib >= from_kib else 3

    assert least_kib(on_host, most) == least
    assert len(asked) <= 5  # the most, the smallest, and then by bisection
    assert least > 1 or len(asked) == 2


@pytest.mark.slow
@pytest.mark.parametrize("kib", [1, 2, 4])
def test_what_has_no_program_of_its_own_is_what_a_compilation_leaves_to_the_host(kib: int) -> None:
    """A softmax of 1,024 channels needs two words for each 16 of them: more than 2 KiB."""
    builder = ModelBuilder(np.random.default_rng(0))
    x = builder.quantize(builder.input("x", [1, 16, 2, 2]), 0.1, name="x.q")
    wide = add_conv(builder, x, 16, 1024, 1, name="wide")
    builder.output(builder.quantize(builder.node("Softmax", [wide], name="softmax", axis=1), 1 / 256, -128))
    network, machine = builder.build("wide").SerializeToString(), machine_with("sequence16", kib)
    selection = selected(network, machine)
    assert selection is not None
    compiled = compile_partitioned(network, machine, Options(effort=0))
    on_host = [node.name for node in compiled.host_nodes] if isinstance(compiled, Partitioned) else []
    assert nests_without_program(selection) == on_host == (["softmax"] if kib < 4 else [])


@pytest.mark.parametrize("isa", ["base16", "tensil16", "vta16"])
def test_a_machine_has_as_much_memory_as_is_said_whether_its_file_says_kib_or_words(isa: str) -> None:
    memory = machine_with(isa, 32).memories["act"]
    assert memory.depth * memory.word_bytes == 32 * 1024

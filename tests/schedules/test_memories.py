"""The least memory of a network is the smallest power of two with which no more of it goes to the host."""

from __future__ import annotations

import pytest

from tests.schedules.memories import least_kib, machine_with


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
    assert len(asked) <= 5  # bisection: the most, and of eight powers of two at most four


@pytest.mark.parametrize("isa", ["base16", "tensil16", "vta16"])
def test_a_machine_has_as_much_memory_as_is_said_whether_its_file_says_kib_or_words(isa: str) -> None:
    memory = machine_with(isa, 32).memories["act"]
    assert memory.depth * memory.word_bytes == 32 * 1024

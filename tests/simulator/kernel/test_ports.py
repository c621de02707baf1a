"""Who has a port in a cycle, on machines of several engines of a kind, which no machine file has yet."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.kernels.kernel import kept_on_disk
from tilewright.simulator.kernel import ports
from tilewright.simulator.kernel.layout import machine_record
from tilewright.simulator.templates.systolic import SystolicFacet

arbitrate_reads, takes_write = kept_on_disk(ports.arbitrate_reads), kept_on_disk(ports.takes_write)

PORTS = 4
WRITTEN_AT, ASK, GRANT, TURN, ASKER, GIVEN_TO = 0, 10, 20, 30, 40, 50


def machine_of(arrays: int, asks: list[int]) -> tuple[np.void, NDArray[np.int64]]:
    """A machine of arrays that read no sums or weights, and requesters, each an engine's, that ask for ports."""
    m = np.zeros(1, machine_record(len(asks), 1, {"arrays": (SystolicFacet.records["arrays"], arrays)}))[0]
    m["arrays"]["c_read_port"] = m["arrays"]["w_port"] = -1
    m["arrays"]["number"] = np.arange(arrays)
    m["requesters"] = len(asks)
    m["at_written_at"], m["at_read_turn"] = WRITTEN_AT, TURN
    m["at_ask"], m["at_grant"], m["at_asker"], m["at_given_to"] = ASK, GRANT, ASKER, GIVEN_TO
    q = np.zeros(60, np.int64)
    q[WRITTEN_AT : WRITTEN_AT + PORTS] = -1
    q[TURN : TURN + PORTS] = len(asks) - 1
    q[ASK : ASK + len(asks)] = asks
    q[ASKER : ASKER + len(asks)] = np.arange(len(asks))
    return m, q


def granted(m: np.void, q: NDArray[np.int64]) -> list[int]:
    arbitrate_reads(m, q, 0)
    return np.flatnonzero(q[GRANT : GRANT + m["requesters"]]).tolist()


def test_vectors_of_two_arrays_take_turns_on_a_port() -> None:
    m, q = machine_of(2, [1, 1])

    assert [granted(m, q), granted(m, q), granted(m, q)] == [[0], [1], [0]]


def test_turns_of_four_are_as_a_search_from_the_last_one_on_finds_them() -> None:
    random = np.random.default_rng(3)
    m, q = machine_of(4, [0] * 4)
    last = [3] * PORTS

    for _ in range(200):
        asks = random.integers(-1, PORTS, 4).tolist()
        q[ASK : ASK + 4] = asks
        expected = set()
        for port in range(PORTS):
            turns = [(last[port] + 1 + distance) % 4 for distance in range(4)]
            first = next((k for k in turns if asks[k] == port), None)
            if first is not None:
                expected.add(first)
                last[port] = first
        assert granted(m, q) == sorted(expected)


def test_every_array_s_weights_come_before_what_others_ask_for() -> None:
    m, q = machine_of(3, [0, 1, 2, 3])
    m["arrays"]["w_port"] = [-1, 3, 1]
    m["arrays"]["c_read_port"] = [2, -1, -1]

    assert granted(m, q) == [0]


def test_apart_an_array_is_in_its_own_way_alone() -> None:
    m, q = machine_of(2, [0, 1, 1])
    m["arrays"]["w_port"] = [1, 1]
    m["is_apart"] = 1

    assert granted(m, q) == [0, 2]


def test_the_first_write_of_a_cycle_has_the_port() -> None:
    m, q = machine_of(1, [0])

    assert [takes_write(m, q, port, 7) for port in (2, 1, 2, -1)] == [True, True, False, False]
    assert takes_write(m, q, 2, 8)

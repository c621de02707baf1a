"""What engines of each kind do: how one starts an instruction, and what all of them do in a cycle."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

from tilewright.isa.kernels.kernel import part_of_kernel
from tilewright.simulator.kernel.dispatch import fetch_burst, request_fetch, request_read
from tilewright.simulator.kernel.dma import ask_word, start_load, start_store, step_load, step_store
from tilewright.simulator.kernel.layout import LOAD, STORE, SYSTOLIC, VECTOR
from tilewright.simulator.kernel.nests import count_of
from tilewright.simulator.kernel.ports import arbitrate_reads, note_write, takes_read, takes_write
from tilewright.simulator.kernel.systolic import ask_vector, start_systolic, step_systolic
from tilewright.simulator.kernel.vector import ask_sources, result_port, start_vector, step_vector


@part_of_kernel
def start(m, e, code, q, i, is_ideal):
    """Start an instruction of an engine; an ideal one is over at once."""
    if is_ideal:
        e.retiring = 1
        if e.kind == LOAD:
            m.loads[e.row].packed += 1  # nothing of it is left for the packer
    elif e.kind == LOAD:
        start_load(m, m.loads[e.row], code, q, i)
    elif e.kind == STORE:
        start_store(m, m.stores[e.row], code, q, i)
    elif e.kind == SYSTOLIC:
        start_systolic(m, m.arrays[e.row], code, q, i)
    elif e.kind == VECTOR:
        start_vector(m, m.vectors[e.row], code, q, i)


@part_of_kernel
def ask_reads(m, code, q, t):
    """Requests of engines that are no arrays for words of memories on chip; whether there is one."""
    others_ask = False
    for row in range(count_of(m.vectors, m.vectors_count)):
        if ask_sources(m, m.vectors[row], code, q, t):
            others_ask = True
    for row in range(count_of(m.stores, m.stores_count)):
        if ask_word(m, m.stores[row], q):
            others_ask = True
    return others_ask


@part_of_kernel
def note_writes(m, q, t):
    """Every write that asks for a bank in this cycle, whether it gets it or not; none where engines are apart."""
    for row in range(count_of(m.arrays, m.arrays_count)):
        note_write(m, q, m.arrays[row].c_write_port, t)
    for row in range(count_of(m.vectors, m.vectors_count)):
        note_write(m, q, result_port(m, m.vectors[row], q, t), t)
    for row in range(count_of(m.loads, m.loads_count)):
        if m.loads[row].writer_held:
            note_write(m, q, m.loads[row].writer_port, t)


@part_of_kernel
def step_arrays(m, code, q, t, others_ask):
    """Requests of arrays, all reads of memories on chip, and what arrays do."""
    for row in range(count_of(m.arrays, m.arrays_count)):
        ask_vector(m, m.arrays[row], code, q, t)
    if m.one_port_banks and not m.is_apart:
        note_writes(m, q, t)
    is_arbitrated = others_ask or count_of(m.arrays, m.arrays_count) > 1
    if is_arbitrated:
        for row in range(count_of(m.arrays, m.arrays_count)):
            q[m.at_ask + m.arrays[row].requester] = m.arrays[row].a_port
        arbitrate_reads(m, q, t)
    for row in range(count_of(m.arrays, m.arrays_count)):
        a = m.arrays[row]
        is_granted = q[m.at_grant + a.requester] != 0 if is_arbitrated else takes_read(m, a, q, t)
        step_systolic(m, a, code, q, t, is_granted)


@part_of_kernel
def step_others(m, code, q, t):
    """All writes into memories on chip, in the order of their right to a port, and what all but arrays do."""
    for row in range(count_of(m.arrays, m.arrays_count)):
        takes_write(m, q, m.arrays[row].c_write_port, t)
    for row in range(count_of(m.vectors, m.vectors_count)):
        step_vector(m, m.vectors[row], code, q, t)
    fetched = 0 if m.is_apart else fetch_burst(m)
    for port in range(count_of(m.ports, m.ports_count)):
        m.ports[port].is_asked = 0
    if fetched > 0:
        request_fetch(m, q, t, fetched)
    for row in range(count_of(m.loads, m.loads_count)):
        d = m.loads[row]
        p = m.ports[d.port]
        loaded = step_load(m, d, code, q, t, p.is_asked)
        if loaded > 0:
            request_read(m, p, q, t, row, loaded)
    for row in range(count_of(m.stores, m.stores_count)):
        step_store(m, m.stores[row], code, q, t)

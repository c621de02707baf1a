"""The ports of the on-chip memories: who reads and who writes in a cycle.

A port has the number of its bank. A bank with one port serves the reads of arrays that do not ask first, then writes,
then other reads; so that reads know it, the writes of a cycle are noted before.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

from tilewright.isa.kernels.kernel import part_of_kernel
from tilewright.simulator.kernel.nests import count_of

NOBODY = -1
"""An asker that is no engine."""


@part_of_kernel
def is_array_port(m, port, asker):
    """Whether an array reads c or w from a port. Apart, it matters only to that array itself."""
    for row in range(count_of(m.arrays, m.arrays_count)):
        a = m.arrays[row]
        if (port == a.c_read_port or port == a.w_port) and (not m.is_apart or asker == a.number):
            return True
    return False


@part_of_kernel
def note_write(m, q, port, t):
    """Note that a write asks for a bank in this cycle: of a bank with one port, no other read has it then."""
    if port >= 0 and q[m.at_one_port + port]:
        q[m.at_asked_at + port] = t


@part_of_kernel
def is_taken(m, q, port, asker, t):
    """Whether a port goes to the c or w of an array, or to a write. Apart, an engine knows its own array alone."""
    if is_array_port(m, port, asker):
        return True
    return m.one_port_banks > 0 and q[m.at_asked_at + port] == t


@part_of_kernel
def holder(m, q, port, k):
    """Which requester before another has a port in this cycle, or NOBODY. Apart, only those of its engine count."""
    if m.is_apart:
        for j in range(k):
            if q[m.at_grant + j] and q[m.at_ask + j] == port and q[m.at_asker + j] == q[m.at_asker + k]:
                return j
        return NOBODY
    j = q[m.at_given_to + port]
    return j if j < k and q[m.at_grant + j] and q[m.at_ask + j] == port else NOBODY


@part_of_kernel
def arbitrate_reads(m, q, t):
    """The c and w of arrays win; the others take turns on each port. Apart, only those of one engine do."""
    for k in range(m.requesters):
        port = q[m.at_ask + k]
        q[m.at_grant + k] = 0
        if port < 0 or is_taken(m, q, port, q[m.at_asker + k], t):
            continue
        earlier = holder(m, q, port, k)
        if earlier != NOBODY:
            if not earlier <= q[m.at_read_turn + port] < k:  # whose turn it is comes behind who had it last
                continue
            q[m.at_grant + earlier] = 0
        q[m.at_grant + k] = 1
        q[m.at_given_to + port] = k
    for k in range(m.requesters):
        if q[m.at_grant + k]:
            q[m.at_read_turn + q[m.at_ask + k]] = k


@part_of_kernel
def takes_read(m, a, q, t):
    """The same, where nobody but one array asks: whether its read has the port."""
    if a.a_port < 0 or is_taken(m, q, a.a_port, a.number, t):
        return False
    q[m.at_read_turn + a.a_port] = a.requester
    return True


@part_of_kernel
def takes_write(m, q, port, t):
    """Whether a write has its port in this cycle: the first that wants it, so ask in the order of their right to it."""
    if port < 0:
        return False
    if m.is_apart:
        return True
    if m.one_port_banks and q[m.at_one_port + port] and is_array_port(m, port, NOBODY):
        return False
    is_free = q[m.at_written_at + port] != t
    q[m.at_written_at + port] = t
    return is_free

"""The ports of the on-chip memories: who reads and who writes in a cycle."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

from tilewright.isa.kernels import part_of_kernel


@part_of_kernel
def arbitrate_reads(m, a, q, c_port, w_port):
    """The array's c and w win; the others take turns on each port. Apart, only those of one engine do."""
    count = m.requesters
    for k in range(count):
        port = q[m.at_ask + k]
        q[m.at_grant + k] = 0
        if port < 0 or (port in (c_port, w_port) and (k == a.requester or not m.is_apart)):
            continue
        wins = 1
        for j in range(count):
            if j != k and q[m.at_ask + j] == port and (not m.is_apart or q[m.at_asker + j] == q[m.at_asker + k]):
                turn = q[m.at_read_turn + port]
                if (j - turn - 1) % count < (k - turn - 1) % count:
                    wins = 0
        q[m.at_grant + k] = wins
    for k in range(count):
        if q[m.at_grant + k]:
            q[m.at_read_turn + q[m.at_ask + k]] = k


@part_of_kernel
def arbitrate_writes(m, c_port, vector_port, load_port):
    """The array's c wins, then the vector engine. Whether it and a load are written."""
    vector_written = vector_port >= 0 and (vector_port != c_port or m.is_apart)
    load_written = load_port >= 0 and ((load_port != c_port and load_port != vector_port) or m.is_apart)
    return vector_written, load_written

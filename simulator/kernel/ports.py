"""The ports of the on-chip memories: who reads and who writes in a cycle."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

from tilewright.simulator.kernel.compilation import part_of_cycle


@part_of_cycle
def arbitrate_reads(p, q, c_port, w_port):
    """The array's c and w win; the others take turns on each port."""
    count = p.requesters
    for k in range(count):
        port = q[p.at_ask + k]
        q[p.at_grant + k] = 0
        if port < 0 or port in (c_port, w_port):
            continue
        wins = 1
        for j in range(count):
            if j != k and q[p.at_ask + j] == port:
                turn = q[p.at_read_turn + port]
                if (j - turn - 1) % count < (k - turn - 1) % count:
                    wins = 0
        q[p.at_grant + k] = wins
    for k in range(count):
        if q[p.at_grant + k]:
            q[p.at_read_turn + q[p.at_ask + k]] = k


@part_of_cycle
def arbitrate_writes(c_port, vec_port, load_port):
    """The array's c wins, then vec. Whether vec and load are written."""
    vec_written = vec_port >= 0 and vec_port != c_port
    load_written = load_port >= 0 and load_port != c_port and load_port != vec_port
    return vec_written, load_written

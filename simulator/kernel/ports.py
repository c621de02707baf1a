"""The ports of the on-chip memories: who reads and who writes in a cycle."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

from tilewright.isa.kernels import part_of_kernel
from tilewright.simulator.kernel.layout import MMA_ASKS


@part_of_kernel
def arbitrate_reads(p, q, c_port, w_port):
    """The array's c and w win; the others take turns on each port. Apart, only those of one engine do."""
    count = p.requesters
    for k in range(count):
        port = q[p.at_ask + k]
        q[p.at_grant + k] = 0
        if port < 0 or (port in (c_port, w_port) and (k == MMA_ASKS or not p.is_apart)):
            continue
        wins = 1
        for j in range(count):
            if j != k and q[p.at_ask + j] == port and (not p.is_apart or engine_of(p, j) == engine_of(p, k)):
                turn = q[p.at_read_turn + port]
                if (j - turn - 1) % count < (k - turn - 1) % count:
                    wins = 0
        q[p.at_grant + k] = wins
    for k in range(count):
        if q[p.at_grant + k]:
            q[p.at_read_turn + q[p.at_ask + k]] = k


@part_of_kernel
def grant_vector(p, q, c_port, w_port):
    """The same, where nobody but the array asks."""
    port = q[p.at_ask + MMA_ASKS]
    is_granted = port >= 0 and port != c_port and port != w_port
    q[p.at_grant + MMA_ASKS] = is_granted
    q[p.at_grant + p.requesters - 1] = 0
    if is_granted:
        q[p.at_read_turn + port] = MMA_ASKS


@part_of_kernel
def engine_of(p, requester):
    """Equal for read requesters of the same engine."""
    if requester == MMA_ASKS:
        return 0
    return 1 if requester < p.requesters - 1 else 2


@part_of_kernel
def arbitrate_writes(p, c_port, vec_port, load_port):
    """The array's c wins, then vec. Whether vec and load are written."""
    vec_written = vec_port >= 0 and (vec_port != c_port or p.is_apart)
    load_written = load_port >= 0 and ((load_port != c_port and load_port != vec_port) or p.is_apart)
    return vec_written, load_written

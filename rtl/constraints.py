"""The clock of a machine as constraints: for Vivado and tools that take SDC, and for Lattice's and nextpnr."""

from __future__ import annotations

CLOCK_PORT = "clk"
"""The machine's only clock."""


def clock_constraints(port: str, mhz: float) -> dict[str, str]:
    """The text of each format by the end of its file's name: one clock at a port, and no exceptions.

    No path of the machine takes several cycles, and none is false. Its pins have no delays here: what is outside of
    them is the integrator's.
    """
    create = f"create_clock -name {port} -period {1000 / mhz:.3f} [get_ports {port}]\n"
    return {"sdc": create, "xdc": create, "lpf": f'FREQUENCY PORT "{port}" {mhz} MHZ;\n'}

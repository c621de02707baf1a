"""The exception of the simulator; a fault of the machine itself is `isa.program.faults.MachineFault`."""


class SimulatorError(Exception):
    """A run cannot begin: memory and program do not fit each other."""

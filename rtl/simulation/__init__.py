"""The hardware under Verilator: a bench around the machine, a memory behind its bus, and how they are built and run."""

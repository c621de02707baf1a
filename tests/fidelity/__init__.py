"""How the cycles of the simulator compare with those of the hardware: docs/fidelity.md, layer by layer."""

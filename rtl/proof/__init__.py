"""Proofs that the hardware does what the machine file says, by an SMT solver, for all inputs."""

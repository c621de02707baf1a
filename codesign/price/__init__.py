"""The price of a machine: area by unit, memories as macros, and the energy of memory accesses."""

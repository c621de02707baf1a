"""A program as C for a product: `tilewright bundle`. Driver, network and test vector in a folder that a compiler takes.

`driver/` holds what is the same for every network; `registers_c` writes what follows from the machine, `network_c` what
follows from the program, and `vector_c` inputs with the outputs that the simulator gives for them.
"""

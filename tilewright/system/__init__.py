"""A machine with a processor and a memory around it, in LiteX: simulated with firmware, or built for a board.

`core` is the machine as a LiteX module, `soc` the system around it, `firmware` compiles a bundle for its processor,
`simulated` runs both in Verilator.
"""

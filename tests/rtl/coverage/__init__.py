"""What of the hardware's Verilog is executed in a chosen set of runs: lines, and each bit's changes.

`builds` has Verilator count, `data` reads what it writes, `missed` says why choices are not taken, `__main__` makes the
runs and docs/rtl-coverage.md.
"""

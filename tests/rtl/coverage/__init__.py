"""What of the hardware's Verilog is executed in a chosen set of runs: lines, and each bit's changes.

`builds` has Verilator count, `data` reads what it writes, `runs` are the programs, `page` makes docs/rtl-coverage.md.
"""

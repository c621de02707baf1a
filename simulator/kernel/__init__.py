"""The machine of docs/microarchitecture.md, stepped cycle by cycle over integers and compiled with numba.

Each section of the page is a file here, whose functions decide from what registers held at the start of the cycle. No
figure is stated here: all of them come in records.

Every function takes what it needs of the same: `m` (see `layout.machine_record`), in it the row of an engine among its
kind (`a`, `v`, `d`: see `simulator.templates`) and among all engines (`e`), `code` (int64, a row for each instruction)
and `q` (int64: all rings and tables, each from its place `at_…` on). Rows are parts of `m`, so that one register of the
processor leads to all of them. Nothing counts references, since counting costs ten times the work itself. `t` is the
cycle, `i` an instruction's row.

Nests are aligned at the innermost loop. On-chip words and banks are counted through all memories.
"""

"""The machine of docs/microarchitecture.md, stepped cycle by cycle over integers and compiled with numba.

Each section of the page is a file here, whose functions decide from what registers held at the start of the cycle. No
figure is stated here: all of them come in `p`.

Every function takes what it needs of the same four: `p` (PARAMETERS), `s` (STATE), `code` (int64, a row for each
instruction) and `q` (int64: all queues and tables, each from its place `p.at_…` on). They are flat and nothing counts
references to them, because counting costs ten times the work itself. `t` is the cycle, `i` an instruction's row.

Nests are aligned at the innermost loop. On-chip words and banks are counted through all memories.
"""

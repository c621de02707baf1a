"""Nodes of the host as C: each is a loop nest over elements whose addresses are affine.

`table` has a row for each operator; `elementwise`, `movement` and `reductions` write the bodies, `code` their loops.
"""

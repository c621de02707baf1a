"""Kernels: loops over integers in Python, compiled once on a computer with numba and kept on disk as machine code.

What is done once for each instruction, cycle or word is a kernel, where numpy has no operation for it. It takes flat
arrays and makes none itself. A process that finds all its kernels on disk never loads numba, which takes longer than
the compilation of a small network.
"""

"""What each engine template is to the simulator, one file each: the record of its state, and how a program fills it.

Its steps in the compiled kernel have the same file name in `simulator/kernel/`.
"""

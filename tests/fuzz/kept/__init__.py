"""Inputs that once showed a fault: every run of the tests tries them again. Each has its story beside it."""

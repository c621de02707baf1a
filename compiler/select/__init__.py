"""Instruction selection: nests are covered by the machine's instructions, found by form and never by name."""

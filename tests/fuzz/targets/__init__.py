"""What is fuzzed: each file has one kind of input, how it is made, and what must hold of it."""

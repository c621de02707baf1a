"""Which single change of a machine buys most for these networks, and what of it buys nothing: each of them tried."""

"""The hardware in Amaranth: one unit a file, sizes from the machine description, latencies from `isa.timing`."""

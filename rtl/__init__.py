"""The hardware in Amaranth: one unit a file, every size from the machine description, every latency from `isa.timing`."""

"""How far a machine's figures can be trusted: its values, hardware, datapath and area, each put to the test."""

"""The syntax of texts: what graphs, nests and tile programs print as, and are read back from."""

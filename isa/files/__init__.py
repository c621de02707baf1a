"""From machine files to machines: YAML, keys, checks, and what editors and people learn about them."""

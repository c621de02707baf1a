"""From machine files to machines: YAML, keys, checks, and what editors and people are told of them."""

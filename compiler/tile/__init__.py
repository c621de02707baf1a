"""Level 3, tile programs: engine operations on buffers without addresses, their text, and what they compute."""

"""Level 2, nests: loops around one expression, their text, what they compute, and the passes on them."""

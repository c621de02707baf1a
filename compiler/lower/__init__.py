"""From graphs to nests: each operator as loop nests with integer constants."""

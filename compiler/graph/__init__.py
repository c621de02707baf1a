"""Level 1, graphs: operators on typed tensors, their text, and what they compute."""

"""The inverse question: what a machine must be, so that networks run so often a second, within an area."""

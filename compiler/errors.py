"""The compiler's exception; each message names the node, what was expected, what came, and what to do."""


class CompileError(Exception):
    """A model that cannot be compiled for a machine, or is not what it should be."""

"""The exceptions of the ISA layer; each message says what was expected, what came, where, and what to do."""


class IsaError(Exception):
    """A machine file, an assembly text or a binary is not what it should be."""

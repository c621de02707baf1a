"""The exceptions of the ISA layer; each message says what was expected, what came, where, and what to do."""


class IsaError(Exception):
    """A machine file, an assembly text or a binary is not what it should be."""


def short(value: object) -> str:
    """A value as messages quote it: its repr, cut when it is long."""
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:80]}… ({len(text)} characters)"

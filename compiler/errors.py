"""The compiler's exceptions; each message names the node, what was expected, what came, and what to do."""


class CompileError(Exception):
    """A model that cannot be compiled for a machine, or is not what it should be."""


class DoesNotFit(CompileError):
    """Buffers that are alive at the same time need more of a memory than there is.

    `needed` and `available` count words of an on-chip memory or bytes of a DRAM region; `layer` is the layer whose
    operations need the space.
    """

    def __init__(self, memory: str, needed: int, available: int, layer: str) -> None:
        super().__init__(f"{layer}: {memory} needs {needed} words at the same time, the machine has {available}")
        self.memory = memory
        self.needed = needed
        self.available = available
        self.layer = layer

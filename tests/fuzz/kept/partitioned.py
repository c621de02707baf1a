"""Networks in parts that once showed a fault, each the smallest of its kind."""

from tests.fuzz.targets.partitioned import ChangedNetwork
from tests.fuzz.trees import Change, Edit

EXAMPLES: tuple[ChangedNetwork, ...] = (
    # A text that is no text: it was read, and could not be written again.
    ChangedNetwork(description=(Edit(change=Change.SET, path=("inputs", 0, "dtype"), value="\ud800"),)),
    # An input without a size: nothing can be run on it.
    ChangedNetwork(description=(Edit(change=Change.SET, path=("inputs", 0, "shape", 0), value=None),)),
    # An input whose element type is a name that means none.
    ChangedNetwork((0, 1, 2), (Edit(Change.COPY, ("inputs", 0, "dtype"), ("outputs", 0, "name")),)),
)

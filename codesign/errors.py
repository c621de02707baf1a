"""What goes wrong when a machine is priced and is its user's to mend."""


class PriceError(Exception):
    """A process with a fault in its tables, or a machine that cannot be priced with it."""

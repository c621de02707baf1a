"""What goes wrong when machines are priced or explored and is their user's to mend."""


class PriceError(Exception):
    """A process with a fault in its tables, or a machine that cannot be priced with it."""


class StudyError(Exception):
    """A space with a fault in its file, or a study that cannot be read, written or joined."""


class QuestionError(Exception):
    """A question about machines that asks nothing, or that no machine can answer."""

"""Numbers that stand for no cycle, in the scheduler's columns and in its compiled steps."""

NEVER = 1 << 62
"""A cycle later than the last one of any run."""

NOT_YET = -1
"""Instead of a cycle: it is not known yet when there will be room. As the end of a buffer: it has no words so far."""

"""What a machine costs: hardware priced with the figures of a process."""

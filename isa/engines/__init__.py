"""Engine templates: what each can do, and when each operator of a statement runs."""

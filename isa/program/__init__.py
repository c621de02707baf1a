"""Programs as frozen objects, and what a run leaves behind."""

"""The page of a study: its front in any two figures, every point in parallel coordinates and in a table."""

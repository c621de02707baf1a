"""Studies of spaces of machines as people see them: the page, and the profiles of their points."""

"""What each engine template costs and can do: a file for each."""

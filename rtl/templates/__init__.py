"""What each engine template is in hardware: a file for each."""

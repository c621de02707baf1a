"""What each engine template is, as far as a machine's file, its programs and its manual ask: a file for each."""

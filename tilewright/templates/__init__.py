"""What pages and reports show of each engine template: a file for each."""

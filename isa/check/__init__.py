"""The checker: that a program stays in bounds, cannot deadlock or race, and reads no junk."""

"""What a profile shows a person: tables, a comparison of two runs, a time line, a page."""

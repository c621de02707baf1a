"""Texts of passes as files, and pages of them."""

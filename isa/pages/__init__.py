"""Machines as pages for people: manual, tables, differences."""

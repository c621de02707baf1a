"""The tests; their folders mirror the project's."""

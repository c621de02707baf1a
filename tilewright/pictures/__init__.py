"""The pictures of the documentation, drawn from machines, programs and their runs."""

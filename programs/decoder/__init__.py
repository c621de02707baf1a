"""A decoder that is trained here and writes text: README.md says what is in this folder."""

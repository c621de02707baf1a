"""A model for more images at a time: where images lie in each tensor, and what of the file holds their number."""

"""Chains of layers that tensors pass through in stripes of rows, so that what lies between them stays on chip."""

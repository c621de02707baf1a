"""Explores spaces of machines: which point of a space, measured on networks and priced, is worth building."""

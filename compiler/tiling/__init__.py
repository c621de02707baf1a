"""From covered nests to tile programs: sizes of tiles, what stays on chip, which operations."""

"""The truth about one network on one machine: compiled, checked, cycle for cycle, with area, clock and energy."""

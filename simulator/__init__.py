"""Runs programs without hardware: the interpreter (the meaning), values (fast), cycles (exact timing), profiles."""

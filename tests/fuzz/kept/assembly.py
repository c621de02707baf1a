"""Assembly texts that once showed a fault, each the smallest of its kind."""

from typing import Any

EXAMPLES: tuple[Any, ...] = ()

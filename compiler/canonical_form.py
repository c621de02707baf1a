"""Names taken off: what was found of one graph, nest or tile program holds for all that have its canonical form.

Each level of the compiler has one function that brings a value to this form: `canonical_graph`, `canonical_nests` and
`canonical_tiles`. Example: of `y = add(x, x)` and of `b = add(a, a)`, both tell `add (0, 0) (1,)`, and their names are
x, y and a, b. Of `b = add(a, c)` it is `add (0, 1) (2,)`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import cached_property


class NameNumbers(dict[str, int]):
    """Names with their numbers; a name that is asked for the first time gets the next one."""

    def __missing__(self, name: str) -> int:
        number = self[name] = len(self)
        return number


@dataclass(frozen=True)
class CanonicalForm:
    """What is `told` of a value, with numbers in place of names: equal for values that are the same but for names.

    `names` has them by their numbers.
    """

    told: Hashable
    names: tuple[str, ...] = field(compare=False)

    @staticmethod
    def of(tell: Callable[[NameNumbers], Hashable]) -> CanonicalForm:
        """The form that `tell` makes of a value; it asks for the number of each name."""
        numbers = NameNumbers()
        told = tell(numbers)
        return CanonicalForm(told, tuple(numbers))

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(self.told)

    def names_from(self, other: CanonicalForm) -> dict[str, str]:
        """The names of this value by those of another one of the same form."""
        return dict(zip(other.names, self.names, strict=True))

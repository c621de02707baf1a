"""Which passes run, and in which order: all as the compiler has them, or those of a user's list."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from tilewright.compiler.errors import CompileError
from tilewright.compiler.passes import MACHINE_FROM, SIZED_FROM, AnyPass, in_order

LEFT_OUT = "-"
"""What begins the name of a pass that is left out."""


@dataclass(frozen=True)
class PassList:
    """Passes in the order in which they run. A position is one among them."""

    passes: tuple[AnyPass, ...]
    sized: Collection[str]  # passes that sizes of memories matter to

    @staticmethod
    def standard(passes: tuple[AnyPass, ...]) -> PassList:
        """All passes in their usual order."""
        names = [step.name for step in passes]
        return PassList(passes, names[names.index(SIZED_FROM) :])

    def names(self) -> tuple[str, ...]:
        return tuple(step.name for step in self.passes)

    def named(self, name: str) -> AnyPass:
        """The pass of a name; raises CompileError when there is none."""
        return self.passes[self.position(name)]

    def position(self, name: str) -> int:
        """Where a pass is; raises CompileError when it is not there."""
        names = self.names()
        if name not in names:
            raise CompileError(fact=f"there is no pass {name!r}", expected=f"one of {', '.join(names)}")
        return names.index(name)

    def step(self, name: str) -> tuple[AnyPass, ...]:
        """The pass of a name alone; nothing if it is left out."""
        return tuple(step for step in self.passes if step.name == name)

    def sized_from(self) -> int:
        """The position of the first pass that sizes of memories matter to."""
        return next(position for position, step in enumerate(self.passes) if step.name in self.sized)

    def after(self, wanted: Collection[str]) -> int:
        """The position behind the last of some passes."""
        return 1 + max(position for position, step in enumerate(self.passes) if step.name in wanted)


def chosen(text: str, standard: PassList) -> tuple[str, ...]:
    """The names of a user's list: all in their order, `import,forms,simplify,…`, or those left out, `-fuse,-columns`.

    Raises CompileError for an unknown name, and for a list of both kinds.
    """
    words = [word.strip() for word in text.split(",")]
    left_out = [word.removeprefix(LEFT_OUT) for word in words if word.startswith(LEFT_OUT)]
    for name in left_out or words:
        standard.position(name)
    if not left_out:
        return tuple(words)
    if len(left_out) < len(words):
        raise CompileError(
            fact=f"the list {text!r} has names with and without {LEFT_OUT!r}", expected="one or the other"
        )
    return tuple(name for name in standard.names() if name not in left_out)


def listed(names: Sequence[str], standard: PassList) -> PassList:
    """The passes of these names in this order; raises CompileError where they cannot run so."""
    passes = tuple(standard.named(name) for name in names)
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise CompileError(f"pass {repeated[0]!r}", "is listed twice", expected="each pass once at most")
    first = standard.names()[: standard.position(MACHINE_FROM)]
    if tuple(names[: len(first)]) != first:
        reason = "what they make is cut into parts for the machine and the host"
        raise CompileError(
            fact=f"the list begins with {', '.join(names[: len(first)])}", expected=f"{', '.join(first)}: {reason}"
        )
    last = standard.names()[-1]
    if names[-1] != last:
        raise CompileError(fact=f"the list ends with {names[-1]}", expected=f"{last}, which makes the program")
    return PassList(in_order(passes), standard.sized)

"""How hard `abc` works for a short path: scripts of it, each faster and larger than the one before.

What a script gives is a netlist that computes the same; docs/price.md has the delays and areas that they reach.
"""

from __future__ import annotations

from collections.abc import Mapping

PERIOD_PS = 1000
"""What gates are sized for: no machine here reaches it, so all are as fast as they can be."""

_CLEAN = "strash; ifraig; scorr; dc2; strash"

_SIZE = f"topo; buffer -c -N 8; topo; upsize -D {PERIOD_PS}; dnsize -D {PERIOD_PS}; stime -p"
"""Buffers for nets with more than eight readers, then gates of other sizes."""

_MAP = f"map -B 0.9 -D {PERIOD_PS}"

_LEVELS = "&get -n; &st; &if -g -K 6; &put; strash"
"""Fewer levels of gates, where that takes more of them."""

EFFORTS: Mapping[str, str] = {
    "small": "",
    "light": f"{_CLEAN}; dch -f; {_MAP}; {_SIZE}",
    "medium": f"{_CLEAN}; dch -f; if -g; strash; dch -f; {_MAP}; {_SIZE}",
    "fast": f"{_CLEAN}; {_LEVELS}; dch -f; if -g; strash; dch -f; {_MAP}; {_SIZE}",
}
"""By name, from the smallest on. Without commands: those that Yosys has for a library with delays."""

SMALLEST, FASTEST = next(iter(EFFORTS)), list(EFFORTS)[-1]


AREA = "area"
"""No effort at all: the least area, as prices state it; nets have no buffers, whatever they drive."""


def harder(effort: str) -> str | None:
    """The next effort, None behind the last."""
    names = list(EFFORTS)
    following = names.index(effort) + 1
    return names[following] if following < len(names) else None


def script_of(effort: str) -> str:
    """The commands that `abc` is to read, one a line; empty where it has its own."""
    return EFFORTS.get(effort, "").replace("; ", "\n")


def options_of(effort: str) -> str:
    """What Yosys is to tell `abc`, beside the library; the script is in the file `effort.abc`."""
    if effort == AREA:
        return ""
    script = " -script effort.abc" if EFFORTS[effort] else ""
    return f" -constr constraints.txt -D {PERIOD_PS}{script}"

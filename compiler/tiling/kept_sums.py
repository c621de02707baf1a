"""Which sums of the array stay in its memory until another nest has read them, as those of blocks of weights do.

Several nests write them, each a part, and the last instruction of each is the array's own: so nothing else would leave
them there.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.compiler.select.cover import Selection


def sums_for_others(selection: Selection, within: Mapping[int, int]) -> dict[str, int]:
    """The tensors of sums that the array leaves in parts for other nests, and the most words that it writes at once."""
    program, found = selection.program, dict[str, int]()
    ends = {tensor.name for tensor in (*program.inputs, *program.outputs)}
    parts: dict[str, list[int]] = {}
    for position, nest in enumerate(program.nests):
        parts.setdefault(nest.result.tensor, []).append(position)
    for tensor, positions in parts.items():
        covers = [selection.covers[position] for position in positions]
        is_plain = all(len(cover.steps) == 1 and cover.dot is not None for cover in covers)
        if len(positions) > 1 and is_plain and tensor not in ends and not within.keys() & {*positions}:
            found[tensor] = max(cover.steps[0].format.destination.block for cover in covers)
    return found

"""Random mutations of machine files, for tests that any text must pass."""

from __future__ import annotations

import random
import re

SCALARS = re.findall(
    r"\S+",
    r"""0 -1 16 1.5 .nan .inf '16' null true [] {} [dram] act dram load *load &load int8 int99 uint1 0x_ 1:30 !!int !foo
    a//0 a**9 ' " [ ] { } : , # | > % @ ` --- ? lanes 2**99 1//0 "\0" "\ud800" é 1e999 accumulate vec mma === <<""",
)


def mutated(text: str, rng: random.Random) -> str:
    """A text with one or a few of its lines deleted, doubled, swapped, indented anew, or with other scalars in them."""
    lines = text.splitlines()
    words = re.findall(r"\w+", text)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        at = rng.randrange(len(lines))
        match rng.randrange(6):
            case 0:
                del lines[at]
            case 1:
                lines.insert(rng.randrange(len(lines)), lines[at])
            case 2:
                other = rng.randrange(len(lines))
                lines[at], lines[other] = lines[other], lines[at]
            case 3:
                lines[at] = " " * rng.randrange(8) + lines[at].lstrip()
            case 4:
                cut = rng.randint(0, len(lines[at]))
                lines[at] = lines[at][:cut] + rng.choice(SCALARS) + lines[at][cut + rng.randrange(4) :]
            case 5:
                found = list(re.finditer(r"\w+", lines[at]))
                if found:
                    word = rng.choice(found)
                    lines[at] = lines[at][: word.start()] + rng.choice(words + SCALARS) + lines[at][word.end() :]
    return "\n".join(lines) + "\n"

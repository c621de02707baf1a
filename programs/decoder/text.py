"""The text that the decoder learns: sentences about Python, from the documentation that Python itself comes with.

`pydoc_data.topics` is what `help("for")` shows; its licence is in LICENSE-PSF.txt beside this file. The text differs
between versions of Python. So what evaluation and quantisation read is part of the repository; only training needs
the module.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

FOLDER = Path(__file__).resolve().parent

CHARACTERS = "\n" + "".join(map(chr, range(32, 127)))
"""Token → character. 96 tokens: whole words of a machine with 16 or 32 lanes."""

HELD_BACK = ("async", "calls", "floating", "numbers", "truth")
"""Topics whose paragraphs are not learned, wherever else they stand."""

PLAIN = str.maketrans({"“": '"', "”": '"', "‘": "'", "’": "'", "–": "-", "—": "-", "…": "."})
NO_PROSE = re.compile(r"::=|\*\*\*|===|---|>>>|\.\.\.  ")
"""Grammars, headings and examples."""

SHORTEST = 40
"""Characters of a paragraph that counts as prose."""


def encode(text: str) -> NDArray[np.int64]:
    """The tokens of a text. Raises ValueError for a character that the decoder does not know."""
    unknown = sorted(set(text) - set(CHARACTERS))
    if unknown:
        raise ValueError(f"the decoder knows printable ASCII and line breaks; the text has {unknown}")
    return np.array([CHARACTERS.index(character) for character in text], np.int64)


def decode(tokens: Iterable[int]) -> str:
    """The text of these tokens."""
    return "".join(CHARACTERS[token] for token in tokens)


def split() -> tuple[str, str]:
    """Text to learn, and text that is held back: paragraphs, each a line, none of them twice."""
    from pydoc_data.topics import topics

    held_back = dict.fromkeys(each for topic in HELD_BACK for each in paragraphs(topics[topic]))
    learned = dict.fromkeys(each for topic in sorted(topics) for each in paragraphs(topics[topic]))
    return (
        "".join(f"{each}\n" for each in learned if each not in held_back),
        "".join(f"{each}\n" for each in held_back),
    )


def paragraphs(topic: str) -> Iterator[str]:
    """The paragraphs of prose: whole sentences, in plain characters and on one line each."""
    for paragraph in re.split(r"\n\s*\n", topic):
        plain = " ".join(paragraph.translate(PLAIN).split())
        begins = plain[:1].isupper() or plain[:1] in ('*"(')
        if begins and plain.endswith((".", ":", ".)")) and len(plain) >= SHORTEST and plain.isascii():
            if NO_PROSE.search(plain) is None:
                yield plain


def stored(name: str) -> str:
    """A text of this folder: `held_back`, or `calibration`, which is part of what was learned."""
    return (FOLDER / f"{name}.txt").read_text()

"""Functions of a cell's pins, as Liberty files have them: `!((A1*A2)+B1)`."""

from __future__ import annotations

import re
from collections.abc import Collection

MOST_CHARACTERS = 1_000
MOST_NESTED = 30

TOKEN = re.compile(r"\s*([A-Za-z_]\w*|[01]|[!*+^&|()'])")

NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def fault_of_function(text: str, pins: Collection[str]) -> str:
    """What is wrong with a function of these pins; nothing if it is one."""
    if len(text) > MOST_CHARACTERS:
        return f"has more than {MOST_CHARACTERS} characters"
    tokens = TOKEN.findall(text)
    if "".join(tokens) != re.sub(r"\s", "", text):
        return "expected names, !, *, +, ^, &, |, ', 0, 1 and brackets"
    depth, is_complete = 0, False  # brackets that are open; whether what was read so far may end here
    for token in tokens:
        match token:
            case "'" | ")":
                fits, depth = is_complete, depth - (token == ")")
            case "*" | "+" | "^" | "&" | "|":
                fits, is_complete = is_complete, False
            case "!" | "(":
                fits, is_complete, depth = True, False, depth + (token == "(")
            case _:
                fits, is_complete = True, True
                if NAME.fullmatch(token) and token not in pins:
                    return f"{token} is no pin of its cell"
        if not fits or not 0 <= depth <= MOST_NESTED:
            return f"{token} does not fit there"
    return "" if is_complete and depth == 0 else "it ends too early"

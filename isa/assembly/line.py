"""One line of assembly text as tokens, read from left to right; every fault knows its column."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar, assert_never

from tilewright.isa.errors import did_you_mean

T = TypeVar("T")

_TOKEN = re.compile(
    r'(?P<string>"(?:[^"\\]|\\.)*")'
    r"|(?P<number>-?(?:0x[0-9a-fA-F_]+|[0-9][0-9_]*(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)(?![\w.]))"
    r"|(?P<word>[A-Za-z_./][\w./-]*)"
    r"|(?P<mark>[()\[\]=,;:])"
)

_BARE_NAME = re.compile(r"[A-Za-z_/][\w./-]*")


class LineFault(Exception):
    """What is wrong with a line, and at which column (from 1)."""

    def __init__(self, column: int, message: str) -> None:
        super().__init__(message)
        self.column = column


class TokenKind(Enum):
    """What a token is; the value is the name of its group in _TOKEN."""

    STRING = "string"
    NUMBER = "number"
    WORD = "word"
    MARK = "mark"
    END = "end"  # of the line, or where its comment begins
    OTHER = "other"  # what no line may hold


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of a line, and its column from 1."""

    kind: TokenKind
    text: str
    column: int

    def __str__(self) -> str:
        return "the end of the line" if self.kind is TokenKind.END else repr(self.text)


def quoted(name: str) -> str:
    """A name as it stands in a line: bare if it is a plain word, otherwise as a JSON string."""
    return name if _BARE_NAME.fullmatch(name) else json.dumps(name, ensure_ascii=False)


class AssemblyLine:
    """The tokens of a line, without its comment; methods take what they name or raise LineFault."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _tokenise(text)
        self._next = 0

    @property
    def peek(self) -> Token:
        return self._tokens[self._next]

    @property
    def is_done(self) -> bool:
        return self.peek.kind is TokenKind.END

    @property
    def rest(self) -> str:
        """What is not taken yet, without the comment, as it stands."""
        return self._text[self.peek.column - 1 : self._tokens[-1].column - 1].rstrip()

    @property
    def is_label(self) -> bool:
        """A name and a colon come next; no instruction looks like that."""
        after = self._tokens[min(self._next + 1, len(self._tokens) - 1)]
        return (
            self.peek.kind in (TokenKind.WORD, TokenKind.STRING) and after.text == ":" and after.kind is TokenKind.MARK
        )

    def take(self) -> Token:
        token = self.peek
        self._next += not self.is_done
        return token

    def accept(self, mark: str) -> bool:
        """Take a mark (or word) if it comes next."""
        if self.peek.kind in (TokenKind.MARK, TokenKind.WORD) and self.peek.text == mark:
            self._next += 1
            return True
        return False

    def expect(self, mark: str) -> None:
        if not self.accept(mark):
            raise LineFault(self.peek.column, f"expected {mark!r}, not {self.peek}")

    def word(self, what: str) -> Token:
        if self.peek.kind is not TokenKind.WORD:
            raise LineFault(self.peek.column, f"expected {what}, not {self.peek}")
        return self.take()

    def known_word(self, what: str, known: tuple[str, ...]) -> Token:
        """A word out of a closed set."""
        token = self.word(f"{what} ({', '.join(known)})")
        if token.text not in known:
            hint = did_you_mean(token.text, known)
            raise LineFault(token.column, f"unknown {what} {token.text!r}{hint}; expected {', '.join(known)}")
        return token

    def name(self, what: str) -> str:
        """A bare word or a quoted string."""
        token = self.take()
        match token.kind:
            case TokenKind.WORD:
                return token.text
            case TokenKind.STRING:
                try:
                    return str(json.loads(token.text))
                except ValueError as error:
                    raise LineFault(token.column, f"{token.text} is not a string: {error}") from error
            case TokenKind.NUMBER | TokenKind.MARK | TokenKind.END | TokenKind.OTHER:
                raise LineFault(token.column, f"expected {what}, not {token}")
            case _:
                assert_never(token.kind)

    def integer(self, what: str, low: int, high: int) -> int:
        token = self.take()
        try:
            value = int(token.text, 0) if token.kind is TokenKind.NUMBER else None
        except ValueError:
            value = None
        if value is None:
            raise LineFault(token.column, f"{what}: expected an integer, not {token}")
        if not low <= value <= high:
            raise LineFault(token.column, f"{what} = {token.text} is out of range; expected {low} to {high}")
        return value

    def number(self, what: str) -> float:
        token = self.take()
        try:
            return float(token.text if token.kind is TokenKind.NUMBER else "")
        except ValueError:
            raise LineFault(token.column, f"{what}: expected a number, not {token}") from None

    def items(self, read: Callable[[], T]) -> list[T]:
        """`(item, item, …)`, possibly empty; `read` takes one item."""
        self.expect("(")
        items: list[T] = []
        if self.accept(")"):
            return items
        while True:
            items.append(read())
            if self.accept(")"):
                return items
            self.expect(",")

    def end(self) -> None:
        if not self.is_done:
            raise LineFault(self.peek.column, f"expected the end of the line, not {self.peek}")


def _tokenise(text: str) -> list[Token]:
    tokens: list[Token] = []
    position = 0
    while True:
        while position < len(text) and text[position].isspace():
            position += 1
        if position == len(text) or text[position] == "#":
            return [*tokens, Token(TokenKind.END, "", position + 1)]
        match = _TOKEN.match(text, position)
        if match is None:
            match = re.compile(r"[^\s,;()\[\]=#]+|.").match(text, position)
            assert match is not None
            tokens.append(Token(TokenKind.OTHER, match[0], position + 1))
        else:
            assert match.lastgroup is not None
            tokens.append(Token(TokenKind(match.lastgroup), match[0], position + 1))
        position = match.end()

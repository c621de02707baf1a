"""The tools that agents have: commands of the command line, their schemas from the commands' own signatures."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from tilewright.errors import InputError

TOOLS: Mapping[str, tuple[str, ...]] = {
    "machines": ("isa", "list"),
    "show_machine": ("isa", "show"),
    "lint": ("isa", "lint"),
    "operators": ("operators",),
    "quantize": ("quantize",),
    "compile": ("compile",),
    "profile": ("profile",),
    "explain": ("explain",),
    "evaluate": ("evaluate",),
    "compare": ("compare",),
    "advise": ("advise",),
    "require": ("require",),
    "price": ("price",),
    "explore": ("explore", "run"),
    "show_study": ("explore", "show"),
}
"""The words of each tool's command."""

LEFT_OUT = frozenset({"json", "dask"})
"""Options that are the server's own, or that reach beyond this machine."""

JSON_TYPES: Mapping[type, str] = {str: "string", Path: "string", int: "integer", float: "number", bool: "boolean"}

PATHS = frozenset({"MACHINE", "FILE"})
"""What options call a text that may be a path."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a command. `option` is None for what stands without a name."""

    name: str
    option: str | None
    of: type
    is_list: bool
    is_path: bool
    is_needed: bool
    help: str
    default: Any
    least: float | None
    most: float | None

    def schema(self) -> dict[str, Any]:
        """The JSON Schema of its value."""
        one: dict[str, Any] = {"type": JSON_TYPES[self.of]}
        one |= {} if self.least is None else {"minimum": self.least}
        one |= {} if self.most is None else {"maximum": self.most}
        found: dict[str, Any] = {"type": "array", "items": one} if self.is_list else one
        found["description"] = self.help
        return found if self.default is None else {**found, "default": self.default}


@dataclass(frozen=True, slots=True)
class Tool:
    """A command as a tool."""

    name: str
    words: tuple[str, ...]
    description: str
    parameters: tuple[Parameter, ...]

    def schema(self) -> dict[str, Any]:
        """The JSON Schema of its arguments, an object."""
        return {
            "type": "object",
            "properties": {of.name: of.schema() for of in self.parameters},
            "required": [of.name for of in self.parameters if of.is_needed],
            "additionalProperties": False,
        }

    def command(self, arguments: Mapping[str, Any], root: Path) -> list[str]:
        """The words of the command line for these arguments, whose paths are in `root`. Raises InputError."""
        known = {of.name: of for of in self.parameters}
        for name in arguments:
            if name not in known:
                raise InputError(f"{self.name} has no {name!r}; it takes: {', '.join(known)}")
        for name, of in known.items():
            if of.is_needed and arguments.get(name) is None:
                raise InputError(f"{self.name} needs {name!r}: {of.help}")
        options: list[str] = []
        plain: list[str] = []
        for name, value in arguments.items():
            if value is not None:
                self._add(known[name], value, root, options, plain)
        return [*self.words, *options, "--", *plain]

    def _add(self, of: Parameter, value: Any, root: Path, options: list[str], plain: list[str]) -> None:
        for each in value if of.is_list and isinstance(value, list) else [value]:
            _require_type(self.name, of, each)
            if of.is_path:
                require_below(root, str(each))
            if of.option is None:
                plain.append(str(each))
            elif of.of is not bool:
                options.append(f"{of.option}={each}")
            elif each:
                options.append(of.option)


def require_below(root: Path, path: str) -> None:
    """Raise InputError for a path that leads out of a folder, by itself or through links."""
    if path.startswith("~") or not (root / path).resolve().is_relative_to(root.resolve()):
        raise InputError(f"{path}: outside of the folder that this server may use; give a path below it")


def _require_type(tool: str, of: Parameter, value: Any) -> None:
    is_number = of.of is float and isinstance(value, int) and not isinstance(value, bool)
    is_text = of.of is Path and isinstance(value, str)
    is_right = isinstance(value, of.of) and isinstance(value, bool) == (of.of is bool)
    if not (is_right or is_number or is_text):
        raise InputError(f"{tool}: {of.name} is {value!r}; expected {JSON_TYPES[of.of]}")


def tools(command_line: Any) -> dict[str, Tool]:
    """All tools by name, from the commands of a command line."""
    return {name: _tool(name, words, command_line) for name, words in TOOLS.items()}


def _tool(name: str, words: Sequence[str], command: Any) -> Tool:
    for word in words:
        command = command.commands[word]
    hints = get_type_hints(inspect.unwrap(command.callback))
    kept = [of for of in command.params if of.name not in LEFT_OUT]
    parameters = tuple(_parameter(of, hints[of.name]) for of in kept)
    return Tool(name, tuple(words), " ".join(command.help.split()), parameters)


def _parameter(of: Any, hint: Any) -> Parameter:
    one = _without_none(hint)
    is_list = get_origin(one) is list
    kind: type = get_args(one)[0] if is_list else one
    is_option = of.param_type_name == "option"
    limits = of.type_descriptor.parameter_info
    is_path = kind is Path or (kind is str and of.metavar in PATHS)
    default = of.default if isinstance(of.default, (*JSON_TYPES,)) and of.default is not False else None
    option = max(of.opts, key=len) if is_option else None
    return Parameter(
        of.name, option, kind, is_list, is_path, of.required, of.help or "", default, limits.min, limits.max
    )


def _without_none(hint: Any) -> Any:
    """`X` of `X | None`."""
    if get_origin(hint) is not UnionType:
        return hint
    [own] = [of for of in get_args(hint) if of is not NoneType]
    return own

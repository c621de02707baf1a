"""Help in the words of the field: no names of Python's types."""

from __future__ import annotations

from typing import Any


def with_plain_help(command: Any) -> Any:
    """The command, its help without `<bool>` or `<list[Path]>`: no type for what has a name or takes no value.

    So for all commands below it.
    """
    for parameter in command.get_params(command.context_class(command)):
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
        elif parameter.param_type_name == "argument":
            parameter.display_type_rich = lambda ctx: ""
    for below in getattr(command, "commands", {}).values():
        with_plain_help(below)
    return command

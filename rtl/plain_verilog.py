"""Verilog as Yosys writes it → SystemVerilog that all tools take: plain names, `always_comb`, no widths to guess.

Nothing of the circuit changes. What each step does is in its docstring.
"""

from __future__ import annotations

import re

_ESCAPED = re.compile(r"\\(\S+) ")

_IDENTIFIER = re.compile(r"(?<![\\$'\w])[A-Za-z_]\w*")


def plain(modules: list[str]) -> list[str]:
    """The modules of a netlist, in their order, with plain names throughout."""
    return _plain_names([_plain_module(module) for module in modules])


def _plain_module(module: str) -> str:
    for step in (_without_nothing, _always_comb, _with_initial_blocks, _with_defaults, _reduced, _padded):
        module = step(module)
    return module


def _without_nothing(module: str) -> str:
    """Without signals of no bits, which Verilog cannot declare: no statement names them."""
    declared = re.compile(r"^  (?:wire|reg) \[-1:0\] (\S+ ?);\n", re.MULTILINE)
    return declared.sub(lambda found: "" if module.count(found[1]) == 1 else found[0], module)


def _always_comb(module: str) -> str:
    """`always @*` waits for a change. One whose inputs begin with their values has none, so Yosys gives it a signal.

    In simulators that set initial values before all else, that signal does not change, either. `always_comb` begins
    by itself.
    """
    module = re.sub(r"^  reg \\\$auto\$verilog_backend\S+  = 0;\n", "", module, flags=re.MULTILINE)
    return re.sub(
        r"^  always @\* begin\n    if \(\\\$auto\$verilog_backend\S+ \) begin end\n",
        "  always_comb begin\n",
        module,
        flags=re.MULTILINE,
    )


def _with_initial_blocks(module: str) -> str:
    """The value of a register before its reset in a block of its own, not where it is declared."""
    declared = re.compile(r"^(  reg (?:signed )?(?:\[\d+:\d+\] )?)(\S+ ?) = (\S+);\n", re.MULTILINE)
    return declared.sub(r"\1\2;\n  initial \2 = \3;\n", module)


def _with_defaults(module: str) -> str:
    """Each choice with a default, which leaves what was assigned before it."""
    lines, has_default = [], []
    for line in module.splitlines(keepends=True):
        word = line.strip()
        if word.startswith(("case ", "casez ", "case(", "casez(")):
            has_default.append(False)
        elif word.startswith("default:"):
            has_default[-1] = True
        elif word == "endcase" and not has_default.pop():
            lines.append(f"{line[: len(line) - len(line.lstrip())]}  default: ;\n")
        lines.append(line)
    return "".join(lines)


def _reduced(module: str) -> str:
    """Whether all bits are 0, as a reduction: `!` is for one bit."""
    return re.sub(r"^(  assign .* = )! (\S+ ?(?:\[\d+(?::\d+)?\])?;|\{.*\};)$", r"\1~| \2", module, flags=re.MULTILINE)


_OPERAND = r"(?:\d+'[hbd][0-9a-f]+|(?:\\\S+ |[A-Za-z_]\w*)(?: ?\[\d+(?::\d+)?\])?)"

_BINARY = re.compile(rf"^  assign (\S+ ?) = ({_OPERAND}) (==|!=|<=?|>=?|[-+&|^]) ({_OPERAND});$", re.MULTILINE)


def _padded(module: str) -> str:
    """Operands without a sign as wide as they count: with the zeros that the language puts before them."""
    widths = _declared_widths(module)

    def pad(found: re.Match[str]) -> str:
        result, left, operator, right = found.groups()
        bits = [_width(operand, widths) for operand in (left, right)]
        if result.strip() not in widths or None in bits:
            return found[0]
        is_comparison = operator in ("==", "!=", "<", "<=", ">", ">=")
        wanted = max(*(b for b in bits if b), 0 if is_comparison else widths[result.strip()])
        left, right = (_extended(operand, b or 0, wanted) for operand, b in zip((left, right), bits, strict=True))
        return f"  assign {result} = {left} {operator} {right};"

    return _BINARY.sub(pad, module)


def _declared_widths(module: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for sign, high, name in re.findall(r"^  (?:wire|reg) (signed )?(?:\[(\d+):0\] )?(\S+) ?;", module, re.MULTILINE):
        if not sign:
            found[name] = int(high or 0) + 1
    return found


def _width(operand: str, widths: dict[str, int]) -> int | None:
    """The bits of an operand; None where they are not known."""
    if constant := re.match(r"(\d+)'", operand):
        return int(constant[1])
    if part := re.search(r"\[(\d+)(?::(\d+))?\]$", operand):
        return int(part[1]) - int(part[2] or part[1]) + 1
    return widths.get(operand.strip())


def _extended(operand: str, bits: int, wanted: int) -> str:
    if bits >= wanted:
        return operand
    if constant := re.match(r"\d+'(.*)", operand):
        return f"{wanted}'{constant[1]}"
    return f"{{ {wanted - bits}'h0, {operand} }}"


def _plain_names(modules: list[str]) -> list[str]:
    """Without names that only a backslash makes possible: tools ask for the space behind them in each path."""
    text = "".join(modules)
    taken, names = set(_IDENTIFIER.findall(text)), {}
    for escaped in dict.fromkeys(_ESCAPED.findall(text)):
        name = re.sub(r"\W+", "_", re.sub(r"^\$(?=\d)", "value_", escaped)).strip("_")
        name = f"value_{name}" if name[:1].isdigit() else name
        free, number = name, 2
        while free in taken:
            free, number = f"{name}_{number}", number + 1
        taken.add(free)
        names[escaped] = free
    return [_ESCAPED.sub(lambda found: names[found[1]], module) for module in modules]

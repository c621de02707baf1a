"""Statements of machines read as plain Python arithmetic, and random words for them."""

import ast
import math
import random
from collections.abc import Mapping, Sequence
from fractions import Fraction
from types import MappingProxyType
from typing import Any

from tilewright.isa.language.numeric import IntegerType
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import Element


def types_of_memories(machine: Machine) -> dict[str, str]:
    """What the name of a memory stands for where a statement says a type."""
    return {name: str(memory.element.type) for name, memory in machine.memories.items() if memory.element.type}


def round_to_integer(x: Fraction, rounding: str) -> int:
    match rounding:
        case "even":
            return round(x)
        case "up":
            return math.floor(x + Fraction(1, 2))
        case _:
            return math.floor(abs(x) + Fraction(1, 2)) * (1 if x > 0 else -1)


class Evaluator:
    """A statement's text for one lane, over a reduce group: `group` lists the names' values of each iteration.

    The value of a table is a function from what is looked up. `lanes` has the groups of all lanes, `types` what other
    names of types stand for.
    """

    def __init__(
        self,
        group: Sequence[Mapping[str, Any]],
        rounding: str,
        lanes: Sequence[Sequence[Mapping[str, Any]]] = (),
        types: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.group = group
        self.rounding = rounding
        self.lanes = lanes
        self.types = types

    def store(self, text: str) -> int:
        return self.at(ast.parse(text).body[0].value, self.group[-1])  # type: ignore[attr-defined]

    def at(self, node: ast.expr, names: Mapping[str, Any]) -> int:
        match node:
            case ast.Constant(value=int(value)):
                return value
            case ast.Name(id=name):
                return names[name]
            case ast.Attribute(value=ast.Name(id=name), attr=field):
                return names[f"{name}.{field}"]
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                return -self.at(inner, names)
            case ast.BinOp() | ast.Compare():
                sides = (node.left, node.right) if isinstance(node, ast.BinOp) else (node.left, node.comparators[0])
                a, b = (self.at(side, names) for side in sides)
                operator = type(node.op if isinstance(node, ast.BinOp) else node.ops[0]).__name__
                return {
                    "Add": lambda: a + b,
                    "Sub": lambda: a - b,
                    "Mult": lambda: a * b,
                    "LShift": lambda: a * 2**b,
                    "RShift": lambda: math.floor(Fraction(a, 2**b)),
                    "Lt": lambda: int(a < b),
                    "LtE": lambda: int(a <= b),
                    "Gt": lambda: int(a > b),
                    "GtE": lambda: int(a >= b),
                    "Eq": lambda: int(a == b),
                    "NotEq": lambda: int(a != b),
                }[operator]()
            case ast.Call(func=ast.Name(id=word), args=args):
                return self.call(word, args, names)
        raise AssertionError(ast.dump(node))

    def call(self, word: str, args: list[ast.expr], names: Mapping[str, Any]) -> int:
        if word in ("sum", "max_over", "min_over"):
            values = [self.at(args[0], each) for each in self.group]
            return {"sum": sum(values), "max_over": max(values), "min_over": min(values)}[word]
        if word in ("lanes_sum", "lanes_max"):
            at = next(position for position, each in enumerate(self.group) if each is names)
            each_lane = (Evaluator(group, self.rounding, self.lanes, self.types) for group in self.lanes)
            others = [lane.at(args[0], lane.group[at]) for lane in each_lane]
            return sum(others) if word == "lanes_sum" else max(others)
        if word == "lut":
            return names[args[0].id](self.at(args[1], names))  # type: ignore[attr-defined]
        if word in ("sat", "wrap", "cast"):
            name = args[1].id  # type: ignore[attr-defined]
            text = self.types.get(name, name)
            bits, is_signed = int(text.split("int")[1]), not text.startswith("u")
            low = -(1 << (bits - 1)) if is_signed else 0
            value = self.at(args[0], names)
            return (value - low) % (1 << bits) + low if word == "wrap" else max(low, min(value, low + (1 << bits) - 1))
        values = [self.at(arg, names) for arg in args]
        match word:
            case "clamp":
                return min(max(values[0], values[1]), values[2])
            case "round_shift":
                return round_to_integer(Fraction(values[0], 2 ** values[1]), self.rounding)
            case "where":
                return values[1] if values[0] else values[2]
            case "abs":
                return abs(values[0])
            case "clz":
                return f"{values[0] % 2**64:064b}1".index("1")
        return min(values) if word == "min" else max(values)


def random_integer(of: IntegerType, seed: random.Random) -> int:
    low, high = of.interval.low, of.interval.high
    return seed.choice([low, high, 0 if low <= 0 else low, min(1, high), *(seed.randint(low, high) for _ in range(6))])


def random_element(element: Element, seed: random.Random) -> tuple[int, dict[str, int]]:
    """Bits in memory, and value by field ("" for a plain element)."""
    if element.type is not None:
        value = random_integer(element.type, seed)
        return value % (1 << element.type.bits), {"": value}
    values = {field.name: random_integer(field.type, seed) for field in element.fields}
    bits = sum(values[f.name] % (1 << f.type.bits) << f.low_bit for f in element.fields)
    return bits, values

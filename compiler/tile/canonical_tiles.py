"""The canonical form of a tile program: buffers are numbers, in the order in which the program has them."""

from __future__ import annotations

from collections.abc import Hashable

from tilewright.compiler.canonical_form import CanonicalForm, NameNumbers
from tilewright.compiler.tile.program import TileOperation, TileProgram


def canonical_tiles(program: TileProgram) -> CanonicalForm:
    """All that the order, the addresses and the waits of a program follow from.

    The content of constants is not told, nor are immediates. An instruction that many operations share is told once.
    """

    def tell(numbers: NameNumbers) -> Hashable:
        buffers = [
            (numbers[b.name], b.place, b.size, b.alignment, b.offset, b.is_in_bank) for b in program.buffers.values()
        ]
        instructions = _Instructions(program)
        operations = [
            (
                instructions.number(operation),
                tuple([(operand, numbers[buffer], offset) for operand, (buffer, offset) in operation.bases.items()]),
                operation.layer,
            )
            for operation in program.operations
        ]
        return program.machine, len(program.layers), tuple(buffers), tuple(operations), tuple(instructions.numbers)

    return CanonicalForm.of(tell)


class _Instructions:
    """The instructions of a program's operations, with their fields but for immediates, numbered."""

    def __init__(self, program: TileProgram) -> None:
        self._formats = program.machine.formats
        self._known: dict[tuple[str, int], int] = {}  # by identity: the fields of operations are mostly one object
        self.numbers: dict[Hashable, int] = {}

    def number(self, operation: TileOperation) -> int:
        mnemonic, fields = operation.mnemonic, operation.fields
        key = mnemonic, id(fields)
        if key not in self._known:
            immediates = self._formats[mnemonic].immediates
            told = mnemonic, tuple(sorted([field for field in fields.items() if field[0] not in immediates]))
            self._known[key] = self.numbers.setdefault(told, len(self.numbers))
        return self._known[key]

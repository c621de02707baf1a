"""How much there is to check in a program, from its numbers alone: no iteration is gone through for it."""

from __future__ import annotations

from tilewright.isa.check.feedback import feedback_steps
from tilewright.isa.check.footprint import MAX_PIECES, Reaches, extent, most_pieces, operand_steps, place_of, unit_words
from tilewright.isa.errors import IsaError
from tilewright.isa.machine.encoding import Instruction, Operand
from tilewright.isa.machine.memory import DRAM
from tilewright.isa.program.budgets import UNBOUNDED, Budgets, require
from tilewright.isa.program.program import Program, Tensor

STEPS_IN_A_PIECE = 64
"""Steps over arrays that take about as long as a piece does."""


def require_checkable(program: Program, budgets: Budgets) -> None:
    """Raise OverBudget when the accesses of a program are cut into more pieces than are looked at."""
    if budgets == UNBOUNDED:
        return
    reaches = Reaches(program.machine)
    pieces = sum(_pieces(program, instruction, reaches) for instruction in program.instructions)
    pieces += sum(_output_pieces(program, tensor) for tensor in program.outputs)
    require(budgets, "pieces", pieces, "the accesses are cut into up to %s of memory, each to be checked")


def _pieces(program: Program, instruction: Instruction, reaches: Reaches) -> int:
    """Pieces of an instruction's operands; 0 of one out of bounds, which is a fault that is seen without them."""
    operands = instruction.format.operands
    if not all(_is_inside(program, instruction, operand) for operand in operands):
        return 0
    steps = feedback_steps(instruction, reaches.of(instruction))
    return sum(_operand_pieces(program, instruction, operand) for operand in operands) + steps // STEPS_IN_A_PIECE


def _operand_pieces(program: Program, instruction: Instruction, operand: Operand) -> int:
    steps = operand_steps(instruction, operand)
    pieces = most_pieces(steps, unit_words(instruction, operand, program.machine))
    return min(MAX_PIECES, pieces + (most_pieces(steps, 1) if operand.memory != DRAM and operand.block > 1 else 0))


def _is_inside(program: Program, instruction: Instruction, operand: Operand) -> bool:
    low, high = extent(instruction, operand, program.machine)
    if operand.memory != DRAM:
        return low >= 0 and high <= program.machine.memories[operand.memory].depth
    try:
        return low >= 0 and high <= program.limits[place_of(instruction, operand)]
    except IsaError:
        return False


def _output_pieces(program: Program, tensor: Tensor) -> int:
    """Pieces of an output's elements: one for each pixel where its last channels do not fill words."""
    batch, channels, height, width = tensor.stored
    is_inside = 0 <= tensor.offset < tensor.offset + tensor.bytes <= program.limits["outputs"]
    return batch * height * width if channels % tensor.lanes and is_inside else 0

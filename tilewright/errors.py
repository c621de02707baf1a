"""The errors of the public face, and the list of all that a user may meet."""

from __future__ import annotations

from tilewright.codesign.errors import PriceError, QuestionError, StudyError
from tilewright.compiler.errors import CompileError
from tilewright.isa.errors import IsaError
from tilewright.isa.program.faults import MachineFault
from tilewright.rtl.simulation.tools import RtlError
from tilewright.simulator.errors import SimulatorError


class InputError(Exception):
    """Arrays, files or options from the user do not fit the program; the message says what would."""


USER_ERRORS: tuple[type[Exception], ...] = (
    InputError,
    IsaError,
    CompileError,
    SimulatorError,
    RtlError,
    MachineFault,
    PriceError,
    QuestionError,
    StudyError,
    OSError,
)
"""What the command line turns into one or two lines and exit code 1; anything else is a defect of ours."""


def describe(error: Exception) -> str:
    """The error as one or two lines."""
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror or error}"
    return str(error) or type(error).__name__

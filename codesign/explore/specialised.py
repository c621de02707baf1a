"""A space whose points may have instructions of their own: `specialise: +5%`, found once for the base machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tilewright.codesign.errors import StudyError
from tilewright.codesign.explore.space import SPECIALISED, Axis, Space
from tilewright.codesign.explore.store import INSTRUCTIONS_FILE
from tilewright.isa.files.loader import build_machine, read_overlay
from tilewright.isa.folders.whole_file import write_whole


def with_instructions(space: Space, folder: Path, tell: Callable[[str], None] = lambda line: None) -> Space:
    """The space with the overlay of its instructions, if it asks for any: that in the folder, or what is found now.

    They are chosen for the base machine, by the networks with their weights and the first objective that
    `tilewright specialise` has, too, or cycles. Where nothing pays, no point has any. Raises StudyError.
    """
    file = folder / INSTRUCTIONS_FILE
    if (axis := _asked(space)) is not None and not file.is_file():
        write_whole(file, _found(space, axis.share or 0.0, tell).encode())
    return instructions_of(space, folder)


def instructions_of(space: Space, folder: Path) -> Space:
    """The same from the folder of a study alone. Raises StudyError where nobody looked for instructions yet."""
    axis = _asked(space)
    if axis is None:
        return space
    file = folder / INSTRUCTIONS_FILE
    if not file.is_file():
        raise StudyError(f"{file} is not there: `explore run` writes it, which looks for the instructions")
    overlay = read_overlay(file)
    found = Axis(SPECIALISED, (0, 1) if overlay.value else (0,), overlay)
    return replace(space, axes=tuple(found if each is axis else each for each in space.axes))


def _asked(space: Space) -> Axis | None:
    """The axis of instructions that are to be found."""
    return next((axis for axis in space.axes if axis.share is not None), None)


def _found(space: Space, share: float, tell: Callable[[str], None]) -> str:
    """The text of the file. Raises StudyError."""
    from tilewright.codesign.advise.trials import NoAdvice
    from tilewright.codesign.specialise.goal import SavedQuantity
    from tilewright.codesign.specialise.objective import Objective
    from tilewright.codesign.specialise.overlay import machine_file
    from tilewright.codesign.specialise.specialise import Question, specialise_machine
    from tilewright.isa.folders.cache import cache_folder

    goals = {
        "cycles": SavedQuantity.CYCLES,
        "ms": SavedQuantity.TIME,
        "energy_mj": SavedQuantity.ENERGY,
        "energy_delay": SavedQuantity.ENERGY_DELAY,
    }
    goal = next((goals[name] for name in space.objectives if name in goals), SavedQuantity.CYCLES)
    weights = {network.name: network.weight for network in space.networks}
    objective = Objective(goal, weights)
    networks = tuple(network.read() for network in space.networks)
    machine = build_machine(space.tree, Path(space.base).stem)
    asked = Question(
        networks, machine, share, (), objective, None, space.effort,
        with_control=False, with_removals=False, with_clock=False,
    )  # fmt: skip
    try:
        found = specialise_machine(asked, tell=tell, keep=cache_folder() / "trials")
    except NoAdvice as error:
        raise StudyError(f"specialise: {error}") from error
    return machine_file(found, str(Path(space.base).absolute()) if Path(space.base).suffix else space.base)

"""The machines of a question: those that are named, and each of them with changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tilewright.codesign.price.sizes import of_other_sizes
from tilewright.isa.errors import IsaError
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.machine import Machine

IsaName = str | Path | Machine


@dataclass(frozen=True, slots=True)
class ComparedMachine:
    """A machine under the name that tables call it; its price may be fitted to that of `like`."""

    machine: Machine
    like: Machine | None = None

    @property
    def name(self) -> str:
        return self.machine.name


def candidates(
    isas: Sequence[IsaName], overrides: Sequence[str] = (), overlays: Sequence[str | Path] = ()
) -> list[ComparedMachine]:
    """Each machine as it is; then with each overlay by itself; then with all overrides together.

    Raises IsaError for a fault in a machine, for changes of a machine that is not given by name or path, and for two
    machines of one name.
    """
    found: list[ComparedMachine] = []
    for isa in isas:
        if isinstance(isa, Machine):
            if overrides or overlays:
                raise IsaError(f"changes are of a machine's file; give {isa.name} by name or path")
            found.append(ComparedMachine(isa))
            continue
        stem = Path(isa).stem
        found.append(_candidate(load_machine(isa), stem))
        for overlay in overlays:
            found.append(_candidate(load_machine(isa, (), (overlay,)), f"{stem}+{Path(overlay).stem}"))
        if overrides:
            name = f"{stem}[{','.join(overrides)}]"
            found.append(_candidate(load_machine(isa, overrides), name, of_other_sizes(str(isa), overrides)))
    _require_distinct(found)
    return found


def _candidate(machine: Machine, name: str, like: Machine | None = None) -> ComparedMachine:
    return ComparedMachine(replace(machine, name=name), like)


def _require_distinct(found: Sequence[ComparedMachine]) -> None:
    names = [each.name for each in found]
    for name in names:
        if names.count(name) > 1:
            raise IsaError(f"two machines are called {name}; name each of them once, files of one name differently")

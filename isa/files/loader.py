"""Finds machine files, merges what they extend and what is set on top, and builds the Machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tilewright.isa.errors import IsaError, did_you_mean, short
from tilewright.isa.files.keys import EXTENDS, MACHINE_KEYS
from tilewright.isa.files.laid_over import laid_over, with_settings
from tilewright.isa.files.machine_file import MachineFileError, build_machine
from tilewright.isa.files.yaml_tree import MAX_FILE_BYTES, PlacedError, Tree, parse_yaml
from tilewright.isa.machine.machine import Machine

__all__ = ["MachineFileError", "build_machine", "load_machine", "load_machine_text", "machine_tree", "shipped_machines"]

SPECS = Path(__file__).parents[1] / "specs"
"""The machines that ship with Tilewright."""


TELLING_KEYS = frozenset({EXTENDS, *MACHINE_KEYS} - {"name", "about", "parameters"})
"""Keys that hardly any file but a machine's has."""


def shipped_machines() -> tuple[str, ...]:
    """Names of the machines in `isa/specs`, sorted."""
    return tuple(sorted(path.stem for path in SPECS.glob("*.yaml")))


def load_machine(
    name_or_path: str | Path, overrides: Sequence[str] = (), overlays: Sequence[str | Path] = ()
) -> Machine:
    """The machine of a shipped name (`base16`) or a YAML file, with `key.path=value` overrides applied.

    Before these, what each of `overlays` says is laid over it: files like the machine's own, that say what differs. If
    such a file extends a machine itself, only its own keys count. Raises IsaError when there is no such machine,
    MachineFileError with every fault when it is not valid.
    """
    path = _find(str(name_or_path), None)
    tree = _read(path, ())
    for overlay in overlays:
        tree = laid_over(tree, read_overlay(overlay))
    name = "+".join([path.stem, *(Path(overlay).stem for overlay in overlays)])
    return build_machine(with_settings(tree, overrides), name + "".join(f"[{setting}]" for setting in overrides))


def read_overlay(name_or_path: str | Path) -> Tree:
    """The own keys of a machine's file, to lay over any machine. Raises IsaError."""
    path = _find(str(name_or_path), None)
    tree = _parse(path)
    if not isinstance(tree.value, Mapping):
        raise PlacedError(tree.where, f"a machine file is a mapping, not {tree.kind}")
    return Tree({key: child for key, child in tree.value.items() if key not in (EXTENDS, "name", "about")}, tree.where)


def extended_tree(name_or_path: str | Path) -> Tree:
    """All that the machine says which a file extends. Raises IsaError, also where it extends none."""
    path = _find(str(name_or_path), None)
    tree = _parse(path)
    if not isinstance(tree.value, Mapping) or EXTENDS not in tree.value:
        raise PlacedError(tree.where, f"expected a machine file that {EXTENDS} another one")
    return _extended(Tree({EXTENDS: tree.value[EXTENDS]}, tree.where), path.parent, (path.resolve(),))


def machine_tree(name_or_path: str | Path, overrides: Sequence[str] = ()) -> Tree:
    """All that a shipped machine or a YAML file says, with what it extends, unchecked. Raises IsaError."""
    return with_settings(_read(_find(str(name_or_path), None), ()), overrides)


def load_machine_text(text: str, name: str, may_extend: bool = True) -> Machine:
    """The machine of a YAML text; messages call the file `name`, and that is the machine's name if it says no other.

    A text that may not extend another machine opens no files.
    """
    tree = parse_yaml(text, name)
    if isinstance(tree.value, Mapping) and EXTENDS in tree.value:
        if not may_extend:
            raise PlacedError(tree.where, f"{EXTENDS} another machine; expected all of it")
        tree = _extended(tree, None, ())
    return build_machine(tree, name)


# -- files -------------------------------------------------------------------------------------------------------------


def _find(name: str, beside: Path | None) -> Path:
    is_path = name.endswith((".yaml", ".yml")) or "/" in name
    path = (beside or Path()) / name if is_path else SPECS / f"{name}.yaml"
    if not _is_file(path):
        shipped = shipped_machines()
        hint = f": there is no file {short(str(path))}" if is_path else did_you_mean(name, shipped)
        raise IsaError(
            f"no machine {short(name)}{hint}; there are {', '.join(shipped)}, or give a path to a .yaml file"
        )
    return path


def _is_file(path: Path) -> bool:
    """As `Path.is_file`, and False for what can be no path at all."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def _read(path: Path, above: tuple[Path, ...]) -> Tree:
    if path.resolve() in above:
        raise IsaError(f"{path}: extends itself, by way of {' → '.join(p.name for p in above)}")
    tree = _parse(path) if not above else _parse_extended(path)
    if not isinstance(tree.value, Mapping):
        raise PlacedError(tree.where, f"a machine file is a mapping, not {tree.kind}")
    return _extended(tree, path.parent, (*above, path.resolve())) if EXTENDS in tree.value else tree


def _parse(path: Path) -> Tree:
    return parse_yaml(read_machine_file(path), str(path) if path.parent != SPECS else path.name)


def read_machine_file(path: Path) -> str:
    """The text of a file; of one that is too large for a machine nothing is read. Raises IsaError."""
    try:
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            raise IsaError(f"{path}: has {size} bytes; expected at most {MAX_FILE_BYTES}, a machine file")
        with open(path, encoding="utf-8") as file:
            return file.read(MAX_FILE_BYTES)
    except UnicodeDecodeError as error:
        raise IsaError(f"{path}: is no machine file, which is YAML: byte {error.start} is not UTF-8") from error
    except OSError as error:
        raise IsaError(f"{path}: cannot be read: {error}") from error


def _parse_extended(path: Path) -> Tree:
    """A file that another one names, which may be any file of the machine that reads it.

    What is wrong with it is told only if it is a machine file: otherwise the message says where, and quotes nothing.
    """
    place = str(path)
    try:
        tree = _parse(path)
        if is_machine_file(tree):
            return tree
        place = str(tree.where)
    except PlacedError as error:
        place = str(error.where)
    raise IsaError(f"{place}: is not a machine file, which is all that can be extended; lint it to see why")


def is_machine_file(tree: Tree) -> bool:
    """Whether a file says anything of a machine."""
    return isinstance(tree.value, Mapping) and not TELLING_KEYS.isdisjoint(tree.value)


def _extended(tree: Tree, beside: Path | None, above: tuple[Path, ...]) -> Tree:
    """What a file says, on top of what it extends."""
    assert isinstance(tree.value, Mapping)
    base = tree.value[EXTENDS]
    if not isinstance(base.value, str):
        raise PlacedError(base.where, f"{EXTENDS}: expected a name, not {base.kind}")
    try:
        path = _find(base.value, beside)
    except IsaError as error:
        raise PlacedError(base.where, f"{EXTENDS}: {error}") from error
    own = {key: child for key, child in tree.value.items() if key != EXTENDS}
    return laid_over(_read(path, above), Tree(own, tree.where))

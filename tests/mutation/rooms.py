"""The rooms of our code: how many faults each gets, and which tests should notice them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from tests.copied_tree import ROOT
from tests.mutation.faults import Fault, fault, places

PACKAGES = ("isa", "compiler", "simulator", "rtl", "tilewright")

TESTED_ELSEWHERE: Mapping[str, tuple[str, ...]] = {
    "rtl/proof": ("tests/rtl/test_proof_*.py",),
    "simulator/kernel": ("tests/simulator/kernel/test_*.py", "tests/simulator/test_cycles.py"),
    "simulator/templates": ("tests/simulator/test_*.py",),
    "rtl/templates": ("tests/rtl/test_*.py",),
    "isa/kernels": ("tests/isa/test_kernels.py",),
    "tilewright/bundle/driver": ("tests/tilewright/bundle/test_python_driver.py",),
    "tilewright/bundle/nodes": ("tests/tilewright/bundle/test_nodes.py",),
    "tilewright/specialised": ("tests/tilewright/commands/test_specialise.py",),
    "tilewright/losses": ("tests/tilewright/profiles/test_*.py",),
    "tilewright/dumps": ("tests/tilewright/commands/test_compile.py",),
    "tilewright/templates": ("tests/tilewright/pictures/test_*.py", "tests/tilewright/profiles/test_*.py"),
    "isa/templates": ("tests/isa/templates/test_*.py", "tests/isa/test_timing.py", "tests/isa/files/test_loader.py"),
}
"""Rooms whose tests stand in other folders, too."""

SHARED: Mapping[str, tuple[str, ...]] = {
    "isa": (
        "tests/isa/test_loader_hostile.py",
        "tests/isa/files/test_loader.py",
        "tests/isa/assembly/test_assembler.py",
        "tests/isa/check/test_checker.py",
        "tests/simulator/test_values.py",
        "tests/test_random_programs.py",
        "tests/compiler/test_pipeline.py",
    ),
    "compiler": (
        "tests/compiler/test_pipeline.py",
        "tests/compiler/importers/test_import_onnx.py",
        "tests/compiler/simplify/test_canonical.py",
        "tests/compiler/lower/test_*.py",
        "tests/compiler/tiling/test_tile.py",
        "tests/test_random_networks.py",
    ),
    "simulator": ("tests/simulator/test_*.py", "tests/test_random_programs.py"),
    "rtl": ("tests/rtl/test_*.py",),
    "tilewright": ("tests/tilewright/test_*.py", "tests/tilewright/commands/test_*.py"),
}
"""A few tests that see much of each package, quickest first."""


def chosen_faults(seed: int, count: int) -> tuple[Fault, ...]:
    """So many faults over all rooms, by path and line; the same for the same seed and sources.

    Each room gets its share by its lines, at least one. A change of the code somewhere leaves most of them as they are.
    """
    rooms = {room: tuple(files_of(room)) for room in all_rooms()}
    shares = shared_out({room: sum(map(line_count, files)) for room, files in rooms.items()}, count)
    chosen = []
    for room, files in rooms.items():
        found = [place for path in files for place in places(path, (ROOT / path).read_text())]
        chosen += sorted(found, key=lambda place: place.rank(seed))[: shares[room]]
    return tuple(sorted(map(fault, chosen), key=lambda found: (PACKAGES.index(package_of(found.path)), *key(found))))


def key(found: Fault) -> tuple[str, int]:
    return room_of(found.path) + found.path, found.line


def shared_out(sizes: Mapping[str, int], count: int) -> dict[str, int]:
    """`count` in proportion to the sizes, at least 1 for each; what rounding leaves goes to the largest remainders.

    >>> shared_out({"a": 70, "b": 28, "c": 2}, 10)
    {'a': 6, 'b': 3, 'c': 1}
    """
    exact = {name: (count - len(sizes)) * size / sum(sizes.values()) for name, size in sizes.items()}
    shares = {name: 1 + int(part) for name, part in exact.items()}
    by_remainder = sorted(sizes, key=lambda name: int(exact[name]) - exact[name])
    for name in by_remainder[: count - sum(shares.values())]:
        shares[name] += 1
    return shares


def all_rooms() -> Iterator[str]:
    """Every folder with Python files in the five packages; a link to a package is no folder of its own."""
    for package in PACKAGES:
        for folder in sorted(path for path in [ROOT / package, *(ROOT / package).rglob("*")] if path.is_dir()):
            room = folder.relative_to(ROOT)
            if any(folder.glob("*.py")) and not any((ROOT / part).is_symlink() for part in (room, *room.parents)):
                yield room.as_posix()


def files_of(room: str) -> Iterator[str]:
    return (f"{room}/{path.name}" for path in sorted((ROOT / room).glob("*.py")))


def line_count(path: str) -> int:
    return len((ROOT / path).read_text().splitlines())


def room_of(path: str) -> str:
    return PurePosixPath(path).parent.as_posix()


def package_of(path: str) -> str:
    return PurePosixPath(path).parts[0]


def near_tests(path: str) -> tuple[str, ...]:
    """The test of this file by its name, then the others of its room."""
    room = room_of(path)
    own = f"tests/{room}/test_{PurePosixPath(path).name}"
    others = found_tests(*TESTED_ELSEWHERE.get(room, (f"tests/{room}/test_*.py",)))
    named = f"test_proof_{PurePosixPath(path).name}" if room == "rtl/proof" else PurePosixPath(own).name
    return tuple(sorted(others, key=lambda test: not test.endswith(f"/{named}")))


def far_tests(path: str) -> tuple[str, ...]:
    """The tests that what is wrong in this file's room may break elsewhere, without those that are near."""
    near = near_tests(path)
    return tuple(test for test in found_tests(*SHARED[package_of(path)]) if test not in near)


def found_tests(*patterns: str) -> tuple[str, ...]:
    """The files of each pattern in turn, each once."""
    found = (path.relative_to(ROOT).as_posix() for pattern in patterns for path in sorted(ROOT.glob(pattern)))
    return tuple(dict.fromkeys(found))

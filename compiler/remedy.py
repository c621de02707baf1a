"""The smallest change of a machine that makes room for a program that did not fit, as options for `--set`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

import yaml

from tilewright.compiler.errors import CompileError, TooSmall
from tilewright.isa.errors import IsaError
from tilewright.isa.files.laid_over import with_settings
from tilewright.isa.files.machine_file import build_machine
from tilewright.isa.files.yaml_tree import parse_yaml
from tilewright.isa.machine.machine import Machine

MOST_STEPS = 24
"""The search gives up after this many enlargements. From a memory's fourth on, each is twice the one before."""

MOST_TRIALS = 24
"""The most compilations that try to make a proposal smaller. What remains is enough, but not always minimal."""

Sizes = Mapping[str, int]
"""By memory, the number under the key by which the machine's file says its size."""


def larger_memory(machine: Machine, name: str, words: int) -> str:
    """The override that gives a memory at least so many words in equal banks: `memories.act.kib=8`.

    The key is the one, `kib` or `depth`, by which the machine's own file says the size: a file may have only one.
    """
    return _override(machine, name, _size(machine, name, words))


def with_tried_remedy(error: TooSmall, machine: Machine, attempt: Callable[[Machine], object]) -> TooSmall:
    """The same error with a remedy that is enough for all layers, or with why there is none.

    `attempt` raises what is too small of a machine.
    """
    try:
        remedy = f"try {enough(machine, error, attempt)}"
    except CompileError as other:
        remedy = f"larger memories alone do not help: {other}"
    return error.with_remedy(remedy)


def enough(machine: Machine, error: TooSmall, attempt: Callable[[Machine], object]) -> str:
    """The overrides with which `attempt` passes, `--set memories.act.kib=8 --set memories.acc.kib=2`.

    `attempt` raises TooSmall for a machine that is too small; `error` is what it raised for this one. No memory is
    larger than necessary: with one KiB (or one word in each bank) less of any, the attempt fails, unless finding that
    would take too many attempts. Raises CompileError if no sizes are enough, because then something else is missing.
    """
    sizes = _shrunken(machine, _sufficient(machine, error, attempt), attempt)
    return _settings(machine, sizes)


def _sufficient(machine: Machine, error: TooSmall | None, attempt: Callable[[Machine], object]) -> dict[str, int]:
    """Sizes with which the attempt succeeds. Each failure enlarges the memories that it names."""
    sizes: dict[str, int] = {}
    times: dict[str, int] = {}
    for _ in range(MOST_STEPS):
        if error is None:
            return sizes
        for name, words in error.words.items():
            times[name] = times.get(name, 0) + 1
            least = sizes.get(name, _present(machine, name)) + (_step(machine, name) << max(0, times[name] - 3))
            sizes[name] = max(least, _size(machine, name, words))
        error = _failure(machine, sizes, attempt)
    assert error is not None
    raise error


def _shrunken(machine: Machine, sizes: dict[str, int], attempt: Callable[[Machine], object]) -> dict[str, int]:
    """The same sizes, with each memory as small as the others allow; makes at most MOST_TRIALS attempts."""
    trials = 0
    for name, size in list(sizes.items()):
        step, low, high = _step(machine, name), _present(machine, name), size
        middle = high - step  # most enlargements are the least that is enough
        while high - low > step and trials < MOST_TRIALS:
            trials += 1
            if _failure(machine, {**sizes, name: middle}, attempt) is None:
                high = middle
            else:
                low = middle
            middle = low + (high - low) // step // 2 * step
        sizes[name] = high
    return sizes


def _failure(machine: Machine, sizes: Sizes, attempt: Callable[[Machine], object]) -> TooSmall | None:
    """The memories that are too small in a machine of these sizes; None if there are none."""
    overrides = [_override(machine, name, size) for name, size in sizes.items()]
    try:
        larger = build_machine(with_settings(parse_yaml(machine.text, machine.name), overrides), machine.name)
    except IsaError as fault:
        raise CompileError(fact=str(fault)) from fault
    try:
        attempt(larger)
    except TooSmall as error:
        return error
    return None


# -- sizes as the file says them ---------------------------------------------------------------------------------------


def _key(machine: Machine, name: str) -> str:
    return "depth" if name in _memories_with_depth(machine.text) else "kib"


@lru_cache(maxsize=1)
def _memories_with_depth(text: str) -> frozenset[str]:
    return frozenset(name for name, keys in yaml.safe_load(text)["memories"].items() if "depth" in keys)


def _step(machine: Machine, name: str) -> int:
    """The smallest step by which a size grows: one word in each bank, or one KiB."""
    return machine.memories[name].banks if _key(machine, name) == "depth" else 1


def _present(machine: Machine, name: str) -> int:
    """The size of the machine's memory, rounded down to whole KiB."""
    memory = machine.memories[name]
    return memory.depth if _key(machine, name) == "depth" else memory.depth * memory.word_bytes // 1024


def _size(machine: Machine, name: str, words: int) -> int:
    """The size that gives a memory at least so many words in equal banks."""
    memory = machine.memories[name]
    whole = -(-words // memory.banks) * memory.banks
    return whole if _key(machine, name) == "depth" else -(-whole * memory.word_bytes // 1024)


def _override(machine: Machine, name: str, size: int) -> str:
    return f"memories.{name}.{_key(machine, name)}={size}"


def _settings(machine: Machine, sizes: Sizes) -> str:
    return " ".join(f"--set {_override(machine, name, size)}" for name, size in sizes.items())

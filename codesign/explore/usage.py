"""What groups of processes take: of the processor since their beginning, and of memory now."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Usage:
    """Seconds of the processor, of ended children too, and GiB of memory."""

    seconds: float = 0.0
    gib: float = 0.0


def usage_of_groups(groups: Collection[int]) -> Mapping[int, Usage]:
    """What each of the groups of processes takes, by its number; a worker is a group with all that it has started."""
    import psutil

    found: dict[int, Usage] = defaultdict(Usage, {group: Usage() for group in groups})
    for number in psutil.pids() if groups else ():
        with suppress(OSError, psutil.Error):
            group = os.getpgid(number)
            if group in groups:
                process = psutil.Process(number)
                times, memory = process.cpu_times(), process.memory_info().rss / 2**30
                seconds = times.user + times.system + times.children_user + times.children_system
                found[group] = Usage(found[group].seconds + seconds, found[group].gib + memory)
    return found

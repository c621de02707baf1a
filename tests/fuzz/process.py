"""Each target in a process of its own: what ends the process, or never comes back, is a finding like any other."""

from __future__ import annotations

import os
import signal
from importlib import import_module
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from time import monotonic

from tests.fuzz.harness import Finding, Report, Target, explore

PATIENCE_SECONDS = 60
"""How much of the processor's time a process may take without a word before it is taken for one that hangs; or twice
what its target allows for an input. Of a busy computer it may get little, which says nothing about the input."""

SILENCE_SECONDS = 1800
"""How long it may say nothing at all: it may wait for what never comes, and before the first input it compiles."""

LISTENING_SECONDS = 1
"""How often the time of a silent process is looked at."""

MOST_DEATHS = 10

TABLE = "tests.fuzz.targets.all:TARGETS"
"""Module and name of the table in which a process finds its target."""


def explore_apart(name: str, tries: int, seed: int, table: str = TABLE) -> Report:
    """What `explore` gives for the target of this name, in another process, which may die of an input."""
    total = Report(name)
    for death in range(MOST_DEATHS):
        left = tries - total.tries
        if left <= 0:
            break
        died = _explore_until_death(total, left, seed + 104_729 * death, table)
        if not died:
            break
    return total


def _explore_until_death(total: Report, tries: int, seed: int, table: str) -> bool:
    context = _context()
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(table, total.target, tries, seed, tuple(total.findings), sender))
    process.start()
    sender.close()
    report, value = Report(total.target), "(before the first input)"
    patience = max(PATIENCE_SECONDS, 2 * (_target(table, total.target).seconds or 0))
    ended = False
    try:
        reason = "" if _speaks(receiver, process, SILENCE_SECONDS) else f"said nothing for {SILENCE_SECONDS} s"
        if not reason:
            receiver.recv()
        while not reason and not ended:
            if _speaks(receiver, process, patience):
                report, value, ended = receiver.recv()
            else:
                reason = f"said nothing for {patience} s"
    except EOFError:
        process.join()
        reason = _reason(process)
    finally:
        process.kill()
        process.join()
    _add(total, report)
    if reason:
        total.faulty += 1
        kind = f"the process {reason}"
        total.findings.setdefault(kind, Finding(kind, "not shrunk", value))
    return bool(reason)


def _speaks(receiver: Connection, process: ForkServerProcess, patience: float) -> bool:
    """Wait for a message; False if none came while the process took so many seconds of the processor."""
    began, heard = _processor_seconds(process), monotonic()
    while not receiver.poll(LISTENING_SECONDS):
        if _processor_seconds(process) - began > patience or monotonic() - heard > SILENCE_SECONDS:
            return False
    return True


def _processor_seconds(process: ForkServerProcess) -> float:
    """What a process has taken so far (proc(5), utime and stime); 0 for one that has ended."""
    try:
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _context() -> ForkServerContext:
    """Processes that begin where all targets are imported, and nothing has run yet."""
    context = get_context("forkserver")
    context.set_forkserver_preload(["tests.fuzz.targets.all"])
    return context


def _work(table: str, name: str, tries: int, seed: int, known: tuple[str, ...], sender: Connection) -> None:
    target = _target(table, name)

    def watch(report: Report, value: str) -> None:
        sender.send((report, value, False))

    target.prepare()
    sender.send("ready")
    sender.send((explore(target, tries, seed, known, watch), "", True))


def _target(table: str, name: str) -> Target:
    module, _, attribute = table.partition(":")
    target: Target = getattr(import_module(module), attribute)[name]
    return target


def _reason(process: ForkServerProcess) -> str:
    code = process.exitcode
    if code is not None and code < 0:
        return f"was ended by {signal.Signals(-code).name}"
    return f"ended with code {code}"


def _add(total: Report, part: Report) -> None:
    total.outcomes += part.outcomes
    total.faulty += part.faulty
    total.findings |= part.findings
    total.seconds = max(total.seconds, part.seconds)
    total.memory_bytes = max(total.memory_bytes, part.memory_bytes)

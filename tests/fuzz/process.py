"""Each target in a process of its own: what ends the process, or never comes back, is a finding like any other."""

from __future__ import annotations

import signal
from importlib import import_module
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, ForkServerProcess

from tests.fuzz.harness import Finding, Report, Target, explore

PATIENCE_SECONDS = 180
"""How long a process may say nothing, whatever else the computer does, before it is taken for one that hangs; or twice
what its target allows for an input."""

PREPARATION_SECONDS = 1800
"""The same before the first input, where a target compiles what all of them need."""

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
        if receiver.poll(PREPARATION_SECONDS):
            receiver.recv()
        while not ended and receiver.poll(patience):
            report, value, ended = receiver.recv()
        reason = "" if ended else f"said nothing for {patience} s"
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

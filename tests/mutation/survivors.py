"""Faults that no test notices because they change nothing that is observed or promised, and why."""

from __future__ import annotations

from collections.abc import Mapping

from tests.mutation.faults import Fault

REASONS: Mapping[tuple[str, str, str], str] = {
    (
        "isa/binary/elf_writer.py",
        "image = bytearray(table + (len(sections) + 1) * SECTION.size)",
        "image = bytearray(table + (len(sections) + 2) * SECTION.size)",
    ): "the table of sections then replaces all that follows, however long",
    (
        "compiler/simplify/qoperators.py",
        "scale, operands = (operator.inputs[:2], operator.inputs[2:])",
        "scale, operands = (operator.inputs[:3], operator.inputs[2:])",
    ): "the quantisation that is made gets one more operand, which no rule reads: the graph stays the same",
    (
        "rtl/simulation/session.py",
        "described.append({'instructions': max(1, len(job.program.instructions)), 'writes…",
        "described.append({'instructions': max(2, len(job.program.instructions)), 'writes…",
    ): "the trace of a program of one instruction gets a second column, which nothing reads",
    (
        "rtl/store.py",
        "super().__init__({'halt': In(1), 'part': In(stream.Signature(StoredPart(self.bus…",
        "super().__init__({'halt': In(2), 'part': In(stream.Signature(StoredPart(self.bus…",
    ): "one wire drives the port, so its second bit is always 0, and every use of it is cut to one bit",
    (
        "tilewright/quantization/ranges.py",
        "HISTOGRAM_BINS = {'percentile': 2048, 'entropy': 512}",
        "HISTOGRAM_BINS = {'percentile': 2048, 'entropy': 513}",
    ): "how fine the histogram is, is a choice: no result is promised to a bin",
    (
        "isa/language/narrowing.py",
        "if of.bits >= node.range.bits or of.interval.contains(node.range):",
        "if of.bits > node.range.bits or of.interval.contains(node.range):",
    ): "values that nothing asks for are clamped also where that makes nothing narrower",
    (
        "tilewright/profiles/lives.py",
        "self._writer: NDArray[np.int64] = np.full(depth, -1, np.int64)",
        "self._writer: NDArray[np.int64] = np.full(depth, -2, np.int64)",
    ): "any negative number says that a word is from no write",
    (
        "tilewright/commands/compile.py",
        "if TYPE_CHECKING:",
        "if not TYPE_CHECKING:",
    ): "the modules that only types need are imported at run time, too: commands start a little later",
    (
        "tilewright/explain/reruns.py",
        "KINDS_RANKED = 12",
        "KINDS_RANKED = 13",
    ): "from how many kinds of cuts the five runners-up are taken is a choice; a thirteenth is seldom needed",
}
"""File, line before and after, and the reason."""


def reason(fault: Fault) -> str:
    """Why no test notices a fault, if that is known."""
    return REASONS.get((fault.path, fault.before, fault.after), "")

"""Which operators a machine can run, and in which form: the compiler's own answers about small models."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import onnx

from tilewright.compiler.errors import CompileError
from tilewright.compiler.options import Options
from tilewright.compiler.partition.parts import whole_network
from tilewright.compiler.partition.probe_model import Probe, probe_model
from tilewright.compiler.partition.probes import PROBES, plain_probes
from tilewright.compiler.partition.programs import Programs
from tilewright.compiler.partition.source import read_source
from tilewright.compiler.session import Session
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.stored_types import BYTES

ACTIVATION_TYPES = BYTES
"""Element types of activations that are asked about: those of every machine."""


@dataclass(frozen=True, slots=True)
class Support:
    """Whether a machine runs an operator in one form: with which types of activations, and why not with others."""

    operator: str
    form: str
    dtypes: tuple[str, ...]
    reason: str

    @property
    def place(self) -> str:
        """NPU, host, or NPU with the types that it is limited to."""
        if not self.dtypes:
            return "host"
        return "NPU" if self.dtypes == ACTIVATION_TYPES else f"NPU ({', '.join(self.dtypes)})"


def support_table(machine: Machine, only: str = "") -> Iterator[Support]:
    """An answer for every form, or for those of one operator, sorted by operator. Deterministic."""
    probes = [probe for probe in (*PROBES, *_that_are_models(plain_probes())) if not only or probe.operator == only]
    for probe in sorted(probes, key=lambda probe: probe.operator):
        reasons = {dtype: why_not(probe, dtype, machine) for dtype in ACTIVATION_TYPES}
        able = tuple(dtype for dtype, reason in reasons.items() if not reason)
        yield Support(probe.operator, probe.form, able, next(filter(None, reasons.values()), ""))


def probe_of(support: Support) -> Probe:
    """The probe that an answer is about."""
    probes = (*PROBES, *plain_probes())
    return next(probe for probe in probes if (probe.operator, probe.form) == (support.operator, support.form))


def why_not(probe: Probe, dtype: str, machine: Machine) -> str:
    """Why a machine cannot run a probe, as the whole compiler says; empty if it can."""
    try:
        source = read_source(probe_model(probe, dtype).SerializeToString())
        programs = Programs(source, machine, Options(effort=0), Session(), keeps_results=False)  # not how fast it runs
        faults = programs.cover(whole_network(source)).faults
        if faults:
            return _reason(next(iter(faults.values())))
        programs.compile(whole_network(source))
    except CompileError as error:
        return _reason(error)
    return ""


def _reason(error: CompileError) -> str:
    """An error's text for the row of an operator, whose node needs no name."""
    return error.reason_beside(error.node)


def unasked_operators() -> list[str]:
    """Operators of ONNX's newest release that no probe tries; they run on the host."""
    asked = {probe.operator for probe in (*PROBES, *_that_are_models(plain_probes()))}
    return sorted({s.name for s in onnx.defs.get_all_schemas() if s.domain == "" and not s.deprecated} - asked)


def _that_are_models(probes: Iterable[Probe]) -> Iterator[Probe]:
    """Those whose operands the operator takes: ONNX's own type and shape inference decides."""
    for probe in probes:
        try:
            probe_model(probe, ACTIVATION_TYPES[0])
        except onnx.shape_inference.InferenceError:
            continue
        yield probe

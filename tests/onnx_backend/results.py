"""Runs the onnx package's backend tests (`onnx.backend.test.BackendTest`) and notes of each where it ran."""

from __future__ import annotations

import os
import tempfile
import unittest
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import Any

import onnx
from onnx.backend.test import BackendTest

from tilewright.host.model import HostModel
from tilewright.onnx_backend import DEFAULT_ISA, NetworkRep, TilewrightBackend
from tilewright.program import Program


class Place(Enum):
    """Where a test's network ran."""

    NPU = "NPU"
    BOTH = "NPU and host"
    HOST = "host"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a test ended; `reason` says why it failed, or why nodes were on the host."""

    kind: str  # Node, Simple, Real, PyTorchConverted, PyTorchOperator
    name: str
    place: Place
    reason: str
    operators: tuple[str, ...]


class _Recording(TilewrightBackend):
    """Keeps the last network that was prepared, for a machine by its name."""

    last: NetworkRep | None = None
    isa: str = DEFAULT_ISA

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **options: Any) -> NetworkRep:
        cls.last = super().prepare(model, device, **{"isa": cls.isa, **options})
        return cls.last


def run_backend_tests(include: str = "", isa: str = DEFAULT_ISA) -> tuple[Outcome, ...]:
    """Every test whose name matches the pattern, in the order of kinds and names, on a shipped machine."""
    _Recording.isa = isa
    with _own_model_folder(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tests = BackendTest(_Recording, __name__)
        if include:
            tests.include(include)
        return tuple(outcome for case, of in sorted(tests.test_cases.items()) for outcome in _outcomes(case, of))


def _outcomes(case: str, of: type[unittest.TestCase]) -> Iterator[Outcome]:
    kind = case.removeprefix("OnnxBackend").removesuffix("ModelTest")
    for name in sorted(name for name in dir(of) if name.startswith("test_") and name.endswith("_cpu")):
        _Recording.last = None
        try:
            getattr(of(name), name)()
        except unittest.SkipTest:
            continue
        except Exception as error:  # of the test, of the backend, of what it calls
            yield Outcome(kind, name.removesuffix("_cpu"), Place.FAILED, _first_line(error), _operators())
            continue
        yield Outcome(kind, name.removesuffix("_cpu"), *_place(), _operators())


def _operators() -> tuple[str, ...]:
    model = None if _Recording.last is None else _Recording.last.model
    return () if model is None else tuple(dict.fromkeys(node.op_type for node in model.graph.node))


def _place() -> tuple[Place, str]:
    assert _Recording.last is not None
    networks = _Recording.last.networks
    if any(isinstance(network, HostModel) for network in networks):
        return Place.HOST, "its inputs or sizes are none that a program has"
    programs = [network for network in networks if isinstance(network, Program)]
    nodes = [node for program in programs for node in program.host_nodes]
    reason = nodes[0].reason if nodes else ""
    if not all(program.programs for program in programs):
        return Place.HOST, reason
    return (Place.BOTH, reason) if nodes else (Place.NPU, "")


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"


@contextmanager
def _own_model_folder() -> Iterator[None]:
    """The tests write the data of the light models where ONNX_MODELS says."""
    before = os.environ.get("ONNX_MODELS")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["ONNX_MODELS"] = folder
        try:
            yield
        finally:
            if before is None:
                del os.environ["ONNX_MODELS"]
            else:
                os.environ["ONNX_MODELS"] = before


def by_name(outcomes: tuple[Outcome, ...]) -> Mapping[str, Outcome]:
    """Names are unique within a kind."""
    return {f"{of.kind} {of.name}": of for of in outcomes}

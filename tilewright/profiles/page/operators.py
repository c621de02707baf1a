"""What each layer computes, in a line for the page: operators and the shape of the result, from the model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tilewright.compiler.partition.source import Source, read_source
from tilewright.errors import InputError
from tilewright.simulator.run_profile import LayerProfile


def operators_of(model: Path, layers: Sequence[LayerProfile]) -> tuple[str, ...]:
    """For each layer `Conv, Add → 64×56×56`; empty for what the compiler added.

    Raises CompileError for a faulty model, InputError for one that lacks a node of the program.
    """
    source = read_source(model)
    missing = [node for layer in layers for node in layer.nodes if node not in source.nodes]
    if missing:
        raise InputError(f"{model}: has no node {missing[0]!r}; expected the model of this program")
    return tuple(_line(source, layer.nodes) for layer in layers)


def _line(source: Source, nodes: Sequence[str]) -> str:
    if not nodes:
        return ""
    shown = ", ".join(source.nodes[node].op_type for node in nodes)
    known = source.tensor_type(source.nodes[nodes[-1]].output[0])
    return shown if known is None else f"{shown} → {'×'.join(map(str, known.shape)) or 'a number'}"

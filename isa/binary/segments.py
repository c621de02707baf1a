"""What a file of a partitioned network says of its segments, as JSON: kind, section, inputs, outputs, host nodes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, assert_never

from tilewright.isa.binary import elf
from tilewright.isa.binary.description import (
    IMAGES,
    images_content,
    images_of,
    list_of,
    mapping,
    natural,
    text,
    texts,
    with_images,
)
from tilewright.isa.errors import IsaError
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.images import require_images
from tilewright.isa.program.partitioned import (
    VALUE_DTYPES,
    HostNode,
    HostSegment,
    NetworkValue,
    NpuSegment,
    Partitioned,
    Segment,
)


def described(network: Partitioned) -> bytes:
    """The description of a network; that of its programs is in their own files."""
    content = {
        "inputs": [asdict(value) for value in network.inputs],
        "outputs": [asdict(value) for value in network.outputs],
        "metadata": dict(network.metadata),
        **images_content(network.images),
        "segments": [
            {
                "kind": _kind(segment),
                "section": name,
                "inputs": list(segment.inputs),
                "outputs": list(segment.outputs),
                "host_nodes": [asdict(node) for node in segment.nodes] if isinstance(segment, HostSegment) else [],
            }
            for name, segment in zip(section_names(network.segments), network.segments, strict=True)
        ],
    }
    return json.dumps(content, sort_keys=True, ensure_ascii=False, indent=1).encode()


def _kind(segment: Segment) -> str:
    """The word for a segment in its section's name and in the description."""
    match segment:
        case NpuSegment():
            return "npu"
        case HostSegment():
            return "host"
        case _:
            assert_never(segment)


def section_names(segments: Sequence[Segment]) -> list[str]:
    """The section of each segment: `.npu.0`, `.host.1` …"""
    return [f".{_kind(segment)}.{number}" for number, segment in enumerate(segments)]


def network_described(description: bytes, contents: Mapping[str, bytes], machine: Machine) -> Partitioned:
    """The network of a description and of its sections' `contents`, by name. Raises IsaError for one that is wrong."""
    try:
        found = json.loads(description)
    except (ValueError, RecursionError) as error:
        raise IsaError(f"the description of the segments is not JSON: {error}") from error
    top = mapping(with_images(found), "segments", ("inputs", "outputs", "metadata", "segments", IMAGES))

    def segment(value: Any, path: str) -> Segment:
        return _segment(value, path, contents, machine)

    network = Partitioned(
        machine,
        list_of(top["segments"], "segments", segment),
        list_of(top["inputs"], "inputs", _input),
        list_of(top["outputs"], "outputs", _value),
        texts(top["metadata"], "metadata"),
        images_of(top[IMAGES]),
    )
    require_images(network.images, network.inputs, network.outputs)
    return network


def _segment(value: Any, path: str, contents: Mapping[str, bytes], machine: Machine) -> Segment:
    keys = mapping(value, path, ("kind", "section", "inputs", "outputs", "host_nodes"))
    section = text(keys["section"], f"{path}.section")
    if section not in contents:
        raise IsaError(f"{path}.section: section {section} is missing")
    kind = text(keys["kind"], f"{path}.kind")
    if kind not in ("npu", "host"):
        raise IsaError(f"{path}.kind: expected npu or host, not {kind!r}")
    if kind == "npu":
        with elf.naming(f"section {section}"):
            return NpuSegment(elf.read_program(contents[section], machine))
    return HostSegment(
        contents[section],
        list_of(keys["inputs"], f"{path}.inputs", text),
        list_of(keys["outputs"], f"{path}.outputs", text),
        list_of(keys["host_nodes"], f"{path}.host_nodes", _host_node),
    )


def _host_node(value: Any, path: str) -> HostNode:
    keys = mapping(value, path, ("name", "op_type", "reason", "transfer_bytes"))
    return HostNode(
        text(keys["name"], f"{path}.name"),
        text(keys["op_type"], f"{path}.op_type"),
        text(keys["reason"], f"{path}.reason"),
        natural(keys["transfer_bytes"], f"{path}.transfer_bytes"),
    )


def _input(value: Any, path: str) -> NetworkValue:
    found = _value(value, path)
    if None in found.shape:
        raise IsaError(f"{path}.shape: expected sizes, not {list(found.shape)}: those of an input depend on no data")
    return found


def _value(value: Any, path: str) -> NetworkValue:
    keys = mapping(value, path, ("name", "dtype", "shape"))
    dtype = text(keys["dtype"], f"{path}.dtype")
    if dtype not in VALUE_DTYPES:
        raise IsaError(f"{path}.dtype: {dtype!r} is no element type; expected one of: {', '.join(VALUE_DTYPES)}")
    return NetworkValue(
        text(keys["name"], f"{path}.name"),
        dtype,
        list_of(keys["shape"], f"{path}.shape", _size),
    )


def _size(value: Any, path: str) -> int | None:
    return None if value is None else natural(value, path)

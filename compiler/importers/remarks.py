"""What the reading of a file has to say, carried in the metadata of the model that it becomes.

Remarks are for whoever compiles the file. Reasons say why nodes are the host's, where the file knows more than a node.
"""

from __future__ import annotations

from collections.abc import Mapping

import onnx

REMARK = "tilewright.remark "
"""What the keys of a model's metadata begin with that hold remarks; what they are about comes after it."""


REASON = "tilewright.reason "
"""The same of keys that hold the reasons of nodes; the nodes' names come after it."""


def add_remarks(model: onnx.ModelProto, remarks: Mapping[str, str]) -> None:
    """Each by what it is about."""
    _add(model, REMARK, remarks)


def remarks_of(model: onnx.ModelProto) -> dict[str, str]:
    """What `add_remarks` added."""
    return _found(model, REMARK)


def add_reasons(model: onnx.ModelProto, reasons: Mapping[str, str]) -> None:
    """Each by the node that it keeps off the machine."""
    _add(model, REASON, reasons)


def reasons_of(model: onnx.ModelProto) -> dict[str, str]:
    """What `add_reasons` added."""
    return _found(model, REASON)


def _add(model: onnx.ModelProto, prefix: str, texts: Mapping[str, str]) -> None:
    for about, text in texts.items():
        model.metadata_props.add(key=f"{prefix}{about}", value=text)


def _found(model: onnx.ModelProto, prefix: str) -> dict[str, str]:
    props = {prop.key: prop.value for prop in model.metadata_props}
    return {key.removeprefix(prefix): text for key, text in props.items() if key.startswith(prefix)}

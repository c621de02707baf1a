"""What the reading of a file has to say, carried in the metadata of the model that it becomes."""

from __future__ import annotations

from collections.abc import Mapping

import onnx

REMARK = "tilewright.remark "
"""What the keys of a model's metadata begin with that hold remarks; what they are about comes after it."""


def add_remarks(model: onnx.ModelProto, remarks: Mapping[str, str]) -> None:
    """Each by what it is about."""
    for about, text in remarks.items():
        model.metadata_props.add(key=f"{REMARK}{about}", value=text)


def remarks_of(model: onnx.ModelProto) -> dict[str, str]:
    """What `add_remarks` added."""
    props = {prop.key: prop.value for prop in model.metadata_props}
    return {key.removeprefix(REMARK): text for key, text in props.items() if key.startswith(REMARK)}

"""The kept inputs by their targets' names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.fuzz.kept import assembly, exported_files, onnx_graphs, onnx_nodes, partitioned, stripes, tflite_files

KEPT: Mapping[str, Sequence[Any]] = {
    "assembly": assembly.EXAMPLES,
    "exported files": exported_files.EXAMPLES,
    "networks in parts": partitioned.EXAMPLES,
    "ONNX networks": onnx_graphs.EXAMPLES,
    "ONNX nodes": onnx_nodes.EXAMPLES,
    "stripes": stripes.EXAMPLES,
    "TFLite files": tflite_files.EXAMPLES,
}

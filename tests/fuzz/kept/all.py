"""The kept inputs by their targets' names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.fuzz.kept import tflite_files

KEPT: Mapping[str, Sequence[Any]] = {
    "TFLite files": tflite_files.EXAMPLES,
}

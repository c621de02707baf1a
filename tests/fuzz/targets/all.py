"""Every target by its name."""

from __future__ import annotations

from collections.abc import Mapping

from tests.fuzz.harness import Target
from tests.fuzz.targets import (
    assembly,
    binaries,
    calibration,
    exported_files,
    instructions,
    liberty_files,
    machine_files,
    machines_in_hardware,
    npz_files,
    onnx_graphs,
    onnx_nodes,
    partitioned,
    process_folders,
    spaces,
    stripes,
    studies,
    texts_of_passes,
    tflite_files,
    tunings,
)

TARGETS: Mapping[str, Target] = {
    module.TARGET.name: module.TARGET
    for module in (
        machine_files,
        machines_in_hardware,
        instructions,
        assembly,
        binaries,
        partitioned,
        onnx_nodes,
        onnx_graphs,
        tflite_files,
        exported_files,
        npz_files,
        calibration,
        stripes,
        texts_of_passes,
        studies,
        spaces,
        tunings,
        process_folders,
        liberty_files,
    )
}

"""The digits network and what unoptimised ONNX Runtime says of it: the specification that tests compare with."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray

FOLDER = Path(__file__).parent.parent / "programs" / "digits"
MODEL = FOLDER / "digits_int8.onnx"


@cache
def images() -> NDArray[np.float32]:
    """The 360 held-back images, [360, 1, 8, 8]."""
    return np.asarray(np.load(FOLDER / "images.npz")["images"])


@cache
def labels() -> NDArray[np.int64]:
    return np.asarray(np.load(FOLDER / "images.npz")["labels"])


def plain_session(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    """ONNX Runtime with every graph optimisation off, on one thread."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options)


@cache
def reference_logits() -> NDArray[np.float32]:
    """Logits of all images, [360, 10]."""
    session = plain_session(onnx.load(MODEL))
    return np.concatenate([session.run(None, {"image": image[None]})[0] for image in images()])


def reference_tensors(count: int) -> list[dict[str, NDArray[Any]]]:
    """Every quantised tensor of the model for the first `count` images, by ONNX name."""
    model = onnx.load(MODEL)
    for node in model.graph.node:
        if node.op_type == "QuantizeLinear":
            model.graph.output.append(onnx.helper.make_tensor_value_info(node.output[0], onnx.TensorProto.INT8, None))
    session = plain_session(model)
    names = [output.name for output in session.get_outputs()]
    return [dict(zip(names, session.run(None, {"image": image[None]}), strict=True)) for image in images()[:count]]

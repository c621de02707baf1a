"""What activations of sixteen bits are worth: the tables of docs/types.md about base16-a16, beside base16 with int8.

python -m tests.states                 # all tables
python -m tests.states cycles          # one of them: states, cycles, digits
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from tests import digits
from tests.schedules.never_slower import model
from tests.types import CALIBRATION, TOP1, Variant, right, taken

PAGE = Path(__file__).parents[1] / "docs/types.md"

TYPES = {"int8": "base16", "int16": "base16-a16"}
"""Types of activations, each with a machine that computes with them."""

NETWORKS = ("autoencoder", "digits", "ds-cnn", "resnet8", "lstm-denoiser", "gru-keywords")

LSTM = "lstm-denoiser"

STATES = tuple(f"{layer}.{state}" for layer in ("lstm1", "lstm2") for state in "hc")

FRAMES, CALIBRATION_FRAMES = 32, 64

Arrays = Mapping[str, NDArray[Any]]
Run = Callable[[Arrays], Arrays]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.states", description=__doc__)
    parser.add_argument("table", nargs="?", choices=TABLES)
    asked = parser.parse_args().table
    for number, name in enumerate([asked] if asked else TABLES):
        if number:
            print()
        for line in TABLES[name]():
            print(line, flush=True)


# -- states of an LSTM -------------------------------------------------------------------------------------------------


def state_rows() -> Iterator[str]:
    """Each state's ratio of signal to noise over a stream: against the float network, and against its int8 weights."""
    noise = {activations: state_noise(activations) for activations in TYPES}
    for state in STATES:
        numbers = [noise[activations][reference][state] for reference in range(2) for activations in TYPES]
        yield STATE.format(*numbers, numbers[1] - numbers[0], numbers[3] - numbers[2], state=state)


STATE = "| `{state}` | {0:.1f} | {1:.1f} | {4:+.1f} | {2:.1f} | {3:.1f} | {5:+.1f} |"


@cache
def state_noise(activations: str) -> tuple[dict[str, float], dict[str, float]]:
    """In dB, by state: the machine's states against those of the float network, and of one with the same weights."""
    import tilewright
    from programs.networks.registry import float_network
    from tilewright.quantization.quantize import quantize

    network = float_network(LSTM)
    given = [each for each, _ in stream(in_floats(network), CALIBRATION_FRAMES, seed=1)]
    calibration = {name: np.concatenate([each[name] for each in given]) for name in given[0]}
    quantized = quantize(network, calibration, activations=activations)
    program = tilewright.compile(quantized.content, TYPES[activations])
    found = results(lambda inputs: program.run(dict(inputs)).outputs)
    references = network, without_rounding(quantized.model)
    first, second = (results(in_floats(each)) for each in references)
    return ratios(first, found), ratios(second, found)


def stream(run: Run, frames: int, seed: int) -> Iterator[tuple[Arrays, Arrays]]:
    """The inputs and outputs of one frame after the other; a frame keeps four fifths of the one before."""
    rng, frame = np.random.default_rng(seed), np.zeros(128)
    states: Arrays = {name: np.zeros((1, 1, 256), np.float32) for name in STATES}
    for _ in range(frames):
        frame = 0.8 * frame + 0.6 * rng.normal(size=frame.size)
        inputs = {"frame": frame.astype(np.float32)[None, None], **states}
        outputs = run(inputs)
        states = {name: outputs[name.replace(".", ".next_")] for name in STATES}
        yield inputs, outputs


def results(run: Run) -> dict[str, NDArray[np.float64]]:
    """The states after each frame of a stream that no network was calibrated on."""
    outputs = [made for _, made in stream(run, FRAMES, seed=2)]
    return {name: np.stack([each[name.replace(".", ".next_")] for each in outputs]).astype(float) for name in STATES}


def ratios(exact: Arrays, found: Arrays) -> dict[str, float]:
    return {name: 10 * np.log10(np.square(of).sum() / np.square(of - found[name]).sum()) for name, of in exact.items()}


def in_floats(network: onnx.ModelProto) -> Run:
    from tilewright.host.model import HostModel

    host, names = HostModel(network.SerializeToString()), [output.name for output in network.graph.output]
    return lambda inputs: host.run(names, dict(inputs))


def without_rounding(quantized: onnx.ModelProto) -> onnx.ModelProto:
    """A QDQ network whose activations are not quantised: its weights are those that the machine has."""
    made = onnx.ModelProto.FromString(quantized.SerializeToString())
    rounded = {node.output[0]: node.input[0] for node in made.graph.node if node.op_type == "QuantizeLinear"}
    for node in made.graph.node:
        if node.op_type == "DequantizeLinear" and node.input[0] in rounded:
            source, result = rounded[node.input[0]], node.output[0]
            node.CopyFrom(onnx.helper.make_node("Identity", [source], [result], node.name))
    kept = [node for node in made.graph.node if node.op_type != "QuantizeLinear"]
    del made.graph.node[:], made.graph.value_info[:]
    made.graph.node.extend(kept)
    return made


# -- cycles and images -------------------------------------------------------------------------------------------------


def cycle_rows(networks: Sequence[str] = NETWORKS) -> Iterator[str]:
    """Cycles, and bytes of all constants, with both types."""
    for network in networks:
        (narrow, narrow_bytes), (wide, wide_bytes) = (
            taken(of_type(network, activations), Variant(machine)) for activations, machine in TYPES.items()
        )
        yield CYCLES.format(
            narrow, wide, wide / narrow, narrow_bytes, wide_bytes, wide_bytes / narrow_bytes, network=network
        )


CYCLES = "| {network} | {0:,} | {1:,} | {2:.2f} | {3:,} | {4:,} | {5:.2f} |"


@cache
def of_type(network: str, activations: str) -> onnx.ModelProto:
    """A network with activations of a type and int8 weights."""
    from programs.networks.registry import float_network
    from tilewright.quantization.quantize import quantize

    if network == "digits":
        if activations == "int8":
            return model(network)
        images = {"image": digits.images()[:CALIBRATION]}
        return quantize(onnx.load(digits.FOLDER / "digits.onnx"), images, activations=activations).model
    return quantize(float_network(network), "random", activations=activations).model


def digit_rows() -> Iterator[str]:
    """How many of the digits' held-back images are right: in float32, and with both types."""
    count = len(digits.labels())
    hits = {"float32": right_in_floats()}
    for activations, machine in TYPES.items():
        hits[f"`{machine}`, {activations} activations"] = right(of_type("digits", activations), Variant(machine))
    for name, number in hits.items():
        yield TOP1.format(name=name, right=number, count=count, part=number / count)


def right_in_floats() -> int:
    run = in_floats(onnx.load(digits.FOLDER / "digits.onnx"))
    found = [next(iter(run({"image": image[None]}).values())).argmax() for image in digits.images()]
    return int((np.array(found) == digits.labels()).sum())


TABLES: Mapping[str, Callable[[], Iterator[str]]] = {
    "states": state_rows,
    "cycles": cycle_rows,
    "digits": digit_rows,
}
"""By the name that the command takes."""


if __name__ == "__main__":
    main()

"""Measures what the logic of the array and of the vector lanes takes in energy, for `logic_energy` of a process.

python -m tilewright.codesign.price.measure_activity tiny8 programs/digits
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray

from tilewright.codesign.errors import PriceError
from tilewright.codesign.price.activity import ALL, RUNS, ActivityOf, CycleEnergy
from tilewright.codesign.price.netlist import converted, netlist, with_all_inside
from tilewright.codesign.price.parts import ProcessingElement
from tilewright.codesign.price.parts import lanes as lanes_of
from tilewright.codesign.price.process import Process, load_process
from tilewright.codesign.price.synthesis import Synthesis
from tilewright.codesign.price.timing_synthesis import TimingSynthesis
from tilewright.compiler.arithmetic import arithmetic_of
from tilewright.isa.errors import IsaError
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.engine import Template
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.stored_types import DEFAULT_TYPE
from tilewright.rtl.arrays import systolic_arrays
from tilewright.rtl.datapath import VectorDatapath

CYCLES = 200

SEED = 1

Integers = NDArray[np.int64]


def words(values: Integers, bits: int) -> list[int]:
    """The values of all runs, as a word for each bit."""
    return [sum(int(value >> bit & 1) << run for run, value in enumerate(values)) for bit in range(bits)]


def random_words(generator: np.random.Generator, bits: int) -> list[int]:
    return [int(word) for word in generator.integers(0, ALL, bits, dtype=np.uint64, endpoint=True)]


def array_activity(element: ActivityOf, rows: int, activations: Integers, weights: Integers) -> CycleEnergy:
    """A processing element of the last row, whose weight stays while a vector comes in every cycle."""
    generator = np.random.default_rng(SEED)
    bits = {name: len(port["bits"]) for name, port in element.module.ports.items()}
    own = generator.choice(weights, RUNS)

    def stimulus(cycle: int) -> Mapping[str, Sequence[int]]:
        pairs = [generator.choice(operands, (rows - 1, RUNS)) for operands in (activations, weights)]
        is_first = np.full(RUNS, int(cycle == 0))
        return {
            "activation": words(generator.choice(activations, RUNS), bits["activation"]),
            "weight": words(own, bits["weight"]),
            "above": words((pairs[0] * pairs[1]).sum(axis=0), bits["above"]),
            "load": words(is_first, 1),
            "swap": words(np.full(RUNS, int(cycle == 1)), 1),
        }

    return element.run(stimulus, CYCLES)


def lane_activity(lane: ActivityOf, position: int, sources: int) -> CycleEnergy:
    """A lane that computes one instruction's statement in every cycle; the sources that it reads are random."""
    read = {f"source_{slot}" for slot in range(sources)}
    generator = np.random.default_rng(SEED)
    ports = {name: len(port["bits"]) for name, port in lane.module.ports.items() if port["direction"] == "input"}
    fixed = {"valid": np.ones(RUNS, np.int64), "format": np.full(RUNS, position), "is_first": np.ones(RUNS, np.int64)}
    immediates = random_words(generator, ports["immediates"])

    def stimulus(cycle: int) -> Mapping[str, Sequence[int]]:
        random = {name: random_words(generator, bits) for name, bits in ports.items() if name in read}
        given = {name: words(values, ports[name]) for name, values in fixed.items()}
        return {**random, **given, "immediates": immediates}

    return lane.run(stimulus, CYCLES // 2)


def real_operands(folder: Path, images: int = 16) -> tuple[Integers, Integers]:
    """All activations of the network in a folder like programs/digits, for some images, and its weights."""
    model = onnx.load(folder / "digits_int8.onnx")
    names = [node.output[0] for node in model.graph.node if node.op_type == "QuantizeLinear"]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    found: list[NDArray[Any]] = []
    for image in np.load(folder / "images.npz")["images"][:images]:
        found += [values.ravel() for values in session.run(names, {"image": image[None]})]
    tensors = [onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer]
    weights = [tensor.ravel() for tensor in tensors if tensor.dtype == DEFAULT_TYPE.dtype and tensor.ndim > 1]
    return np.concatenate(found).astype(np.int64), np.concatenate(weights).astype(np.int64)


def measure(machine: Machine, folder: Path, process: Process, volts: float) -> dict[str, object]:
    """The figures, with the seed and the number of cycles that they come from."""
    synthesis = TimingSynthesis(process)
    (grid, *_), (vector, *_) = machine.of(Template.SYSTOLIC), machine.of(Template.VECTOR)
    array = systolic_arrays(machine, grid)[0]
    parts = {
        "element": ProcessingElement(array, array.rows - 1, False),
        "lane": VectorDatapath(machine.with_lanes(1), vector),
    }
    texts = {name: ("top", with_all_inside("top", *converted(part))) for name, part in parts.items()}
    mapped = synthesis.mapped(texts)
    element, lane = (ActivityOf(mapped[name], process, synthesis.timing, volts) for name in parts)
    generator = np.random.default_rng(SEED)
    arithmetic = arithmetic_of(machine)
    operands = arithmetic.activation.interval, arithmetic.weight.interval
    random = [generator.integers(values.low, values.high + 1, 4096) for values in operands]
    by_instruction = {
        format.mnemonic: lane_activity(lane, position, len(format.streams))
        for position, format in enumerate(machine.formats_of(vector))
    }
    flip_flops = len(lane.registers)
    area_um2 = Synthesis(process).cost(lanes_of(netlist, machine, vector)).area_um2  # as a price states it
    area = area_um2 / vector.vector.lanes
    mean = sum(activity.switching_pj for activity in by_instruction.values()) / len(by_instruction)
    return {
        "clock_pj_per_flip_flop": round(lane.clock_pj / flip_flops, 5),
        "array_pj_per_mac_random": round(array_activity(element, array.rows, *random).switching_pj, 4),
        "array_pj_per_mac_real": round(array_activity(element, array.rows, *real_operands(folder)).switching_pj, 4),
        "lane_pj_per_iteration_per_um2": round(mean / area, 8),
        "lane_pj_per_iteration": {name: round(activity.switching_pj, 3) for name, activity in by_instruction.items()},
    }


def main(arguments: list[str]) -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(prog="python -m tilewright.codesign.price.measure_activity", description=__doc__)
    parser.add_argument("machine", help="the machine whose processing element and lane are measured")
    parser.add_argument("network", type=Path, help="programs/digits, for real operands")
    parser.add_argument("--volts", type=float, default=1.2, help="the supply of the library's corner")
    options = parser.parse_args(arguments)
    try:
        machine = load_machine(options.machine)
        print(json.dumps(measure(machine, options.network, load_process(), options.volts), indent=2))
    except (IsaError, PriceError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""What weights of four bits in blocks are worth: the decoders of docs/types.md, beside sequence16 with int8.

python -m tests.block_weights                     # the rows of the page's tables
python -m tests.block_weights stories260k-step    # one network
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from math import log

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

import tilewright
from programs.decoder.evaluate import bits, held_back, in_onnx_runtime, on_machine
from programs.decoder.model import calibration, float_prefill, int8_prefill, load_weights
from programs.decoder.network import TABLE
from programs.networks.registry import float_network
from tests.schedules.never_slower import model

WIDE, NARROW = "sequence16", "llm16"

BLOCK_MACHINES = {"int8": NARROW, "int16": "llm16-a16"}
"""By the activations beside weights in blocks."""

NETWORKS = ("stories15m-step", "stories260k-step")

BLOCK = 32

BITS = {TensorProto.INT4: 4, TensorProto.INT8: 8, TensorProto.FLOAT: 16}
"""Of a number in the machine's memory: scales of blocks, floats in the file, have sixteen there."""

ROW = "| {network} | {activations} | {0:,} | {1:,} | {cycles:.2f} | {2:,} | {3:,} | {bytes:.3f} |"

LOSS = "| {name} | {nats:.3f} | {more:+.3f} |"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.block_weights", description=__doc__)
    parser.add_argument("networks", nargs="*", default=(*NETWORKS, "decoder"), metavar="NETWORK")
    asked = parser.parse_args().networks
    for network in asked:
        for line in losses() if network == "decoder" else map(row, [network] * len(BLOCK_MACHINES), BLOCK_MACHINES):
            print(line, flush=True)


def row(network: str, activations: str) -> str:
    """Cycles, and bytes of the matrices with the scales of their blocks: with int8 throughout, with int4 in blocks."""
    blocks = in_blocks(network, activations)
    machines = WIDE, BLOCK_MACHINES[activations]
    found = model(network), blocks
    numbers = *map(cycles, found, machines), *map(matrix_bytes, found)
    part = {"cycles": numbers[1] / numbers[0], "bytes": numbers[3] / numbers[2]}
    return ROW.format(*numbers, network=network, activations=activations, **part)


def cycles(network: onnx.ModelProto, machine: str) -> int:
    return int(tilewright.compile(network, machine).profile()["cycles"])


def in_blocks(network: str, activations: str = "int8") -> onnx.ModelProto:
    """A network with int4 weights in blocks, and activations of a type."""
    made = float_network(network)
    return tilewright.quantize(made, "random", weights="int4", block=BLOCK, activations=activations).model


def matrix_bytes(network: onnx.ModelProto) -> int:
    """The bytes of the matrices of MatMul and Gemm; with blocks, those of their scales, too."""
    constants = {tensor.name: tensor for tensor in network.graph.initializer}
    makers = {node.output[0]: node for node in network.graph.node if node.op_type == "DequantizeLinear"}
    total = 0
    for node in network.graph.node:
        reader = makers.get(node.input[1]) if node.op_type in ("MatMul", "Gemm") else None
        if reader is None or reader.input[0] not in constants:
            continue
        held = [constants[reader.input[0]]]
        if any(attribute.name == "block_size" for attribute in reader.attribute):
            held.append(constants[reader.input[1]])
        total += sum(numpy_helper.to_array(each).size * BITS[each.data_type] // 8 for each in held)
    return total


def losses() -> Iterator[str]:
    """What a character of the trained decoder's held-back text costs, in nats, and how much more than in float."""
    texts = held_back()
    usual = nats(bits(texts, in_onnx_runtime(float_prefill())))
    yield LOSS.format(name="float32", nats=usual, more=0)
    found = nats(bits(texts, in_onnx_runtime(int8_prefill())))
    yield LOSS.format(name="int8, in ONNX Runtime", nats=found, more=found - usual)
    for activations, machine in BLOCK_MACHINES.items():
        blocks = blocks_of_decoder(activations)
        name = f"int4 in blocks of {BLOCK}, activations of {activations}"
        for place, run in (
            ("in ONNX Runtime", in_onnx_runtime(blocks)),
            (f"on `{machine}`", on_machine(tilewright.compile(blocks, machine))),
        ):
            found = nats(bits(texts, run))
            yield LOSS.format(name=f"{name}, {place}", nats=found, more=found - usual)


def blocks_of_decoder(activations: str = "int8") -> onnx.ModelProto:
    """The trained decoder for a whole text, with int4 weights in blocks."""
    samples = {"embeddings": load_weights()[TABLE][calibration()]}
    return tilewright.quantize(float_prefill(), samples, weights="int4", block=BLOCK, activations=activations).model


def nats(bits_of_a_character: float) -> float:
    return float(np.float64(bits_of_a_character) * log(2))


if __name__ == "__main__":
    main()

"""`make demo`: a trained network from ONNX to hardware, with every figure measured here and now.

Compiles programs/digits for base16, runs all held-back images in the simulator beside ONNX Runtime, then runs the same
binary on the RTL and compares every byte of memory.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isa.program import place_regions
from isa.state import MachineState
from rtl.run import run_rtl, run_rtl_many
from simulator.cycles import simulate_cycles
from simulator.values import PreparedProgram
from tilewright.api import Program, compile
from tilewright.errors import USER_ERRORS, InputError, describe
from tilewright.host import dram_image, read_outputs
from tilewright.tables import print_engines, print_layers

DIGITS = Path(__file__).resolve().parent.parent / "programs" / "digits"
MODEL = DIGITS / "digits_int8.onnx"
MACHINE = "base16"

RTL_IMAGES = 100
"""Images that are run on the RTL in one go, to see its speed."""


@dataclass(frozen=True)
class Digits:
    """The held-back images, their labels, and what ONNX Runtime makes of them."""

    images: NDArray[np.float32]
    labels: NDArray[np.int64]
    expected: NDArray[np.float32]


def main() -> int:
    """Print the demonstration; 0 if simulator, ONNX Runtime and hardware agree."""
    try:
        digits = load_digits()
        program = compile_digits()
        agrees = compare_with_onnx_runtime(program, digits)
        show_cycles(program)
        return 0 if compare_with_rtl(program, digits) and agrees else 1
    except USER_ERRORS as error:
        print(f"error: {describe(error)}", file=sys.stderr)
        return 1


@contextmanager
def timed(seconds: list[float]) -> Iterator[None]:
    """Appends how long the body took."""
    start = perf_counter()
    yield
    seconds.append(perf_counter() - start)


# -- compile -----------------------------------------------------------------------------------------------------------


def compile_digits() -> Program:
    """Compile twice: the second time shows the compiler without the imports of the first, and that its bytes repeat."""
    seconds: list[float] = []
    for _ in range(2):
        with timed(seconds):
            program = compile(MODEL, MACHINE)
    first, second = (compile(MODEL, MACHINE).binary for _ in range(2))
    same = "identical" if (first.text, first.weights) == (second.text, second.weights) else "DIFFERENT"
    count, size = len(program.binary.instructions), len(program.binary.text) + len(program.binary.weights)
    print(
        f"compiled {MODEL.name} for {MACHINE} in {seconds[-1]:.2f} s: {count} instructions, {size:,} bytes, no findings"
    )
    print(f"a second compilation gives {same} bytes")
    return program


# -- values ------------------------------------------------------------------------------------------------------------


def load_digits() -> Digits:
    """The images of programs/digits, and ONNX Runtime's answers with optimisations off, on one thread."""
    import onnxruntime

    if not MODEL.exists():
        raise InputError(f"{MODEL}: not there; the demonstration runs in a checkout of the project")
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(MODEL), options, providers=["CPUExecutionProvider"])
    with np.load(DIGITS / "images.npz") as stored:
        images, labels = stored["images"], stored["labels"]
    expected = np.concatenate([session.run(None, {"image": image[None]})[0] for image in images])
    return Digits(images, labels, expected)


def compare_with_onnx_runtime(program: Program, digits: Digits) -> bool:
    """All images through the simulator, values and cycles; True if every top-1 is ONNX Runtime's."""
    bases = place_regions(program.binary.limits)
    prepared = PreparedProgram(program.binary, bases)
    simulate_cycles(program.binary, bases)  # compiles the event loop, once for all
    outputs, seconds = [], list[float]()
    with timed(seconds):
        for image in digits.images:
            state = prepared.run(dram_image(program.binary, {"image": image[None]}))
            simulate_cycles(program.binary, bases)
            outputs.append(read_outputs(program.binary, state.dram)["logits"])
    logits = np.concatenate(outputs)
    top1, reference = logits.argmax(axis=1), digits.expected.argmax(axis=1)
    agreement = int((top1 == reference).sum())
    print(
        f"{accuracy('simulator', top1, digits)}, {1000 * seconds[0] / len(logits):.1f} ms an image, values and cycles"
    )
    print(accuracy("ONNX Runtime", reference, digits))
    equal = share_equal(logits, digits.expected)
    print(f"top-1 agree on {agreement} of {len(logits)} images; {equal} of the logits are equal")
    return agreement == len(logits)


def accuracy(who: str, top1: NDArray[Any], digits: Digits) -> str:
    right = int((top1 == digits.labels).sum())
    return f"{who:12} {right} of {len(top1)} held-back images right ({100 * right / len(top1):.2f} %)"


def share_equal(a: NDArray[Any], b: NDArray[Any]) -> str:
    return f"{100 * float(np.isclose(a, b, atol=1e-6).mean()):.2f} %"


# -- cycles ------------------------------------------------------------------------------------------------------------


def show_cycles(program: Program) -> None:
    print()
    print_layers(program.profile())
    print()
    print_engines(program.profile())
    print()


# -- hardware ----------------------------------------------------------------------------------------------------------


def compare_with_rtl(program: Program, digits: Digits) -> bool:
    """One image, then a hundred, on the hardware; True if every byte of every memory is the simulator's."""
    binary, bases = program.binary, place_regions(program.binary.limits)
    prepared = PreparedProgram(binary, bases)
    images = [dram_image(binary, {"image": image[None]}) for image in digits.images[:RTL_IMAGES]]
    seconds: list[float] = []
    with timed(seconds):
        state, counters = run_rtl(binary, images[0], bases)
    is_equal = equal_states(prepared.run(images[0]), state)
    simulated = simulate_cycles(binary, bases).cycles
    difference = 100 * (simulated - counters.cycles) / counters.cycles
    print(f"RTL of {MACHINE} under Verilator, built or found and run in {seconds[0]:.1f} s, from the same binary:")
    print(f"  every byte of DRAM and of {len(state.memories)} memories {'equal' if is_equal else 'NOT EQUAL'}")
    print(f"  {counters.cycles:,} cycles on the RTL, {simulated:,} in the simulator ({difference:+.2f} %)")
    with timed(seconds):
        results = run_rtl_many(program.machine, [(binary, image, bases) for image in images])
    equal = sum(equal_states(prepared.run(image), state) for image, (state, _) in zip(images, results, strict=True))
    cycles = sum(counters.cycles for _, counters in results)
    rate = cycles / seconds[1] / 1000
    print(f"  {equal} of {len(images)} images equal in every byte; {rate:,.0f} kcycles/s, start-up included")
    return is_equal and equal == len(images)


def equal_states(a: MachineState, b: MachineState) -> bool:
    """True if all memories are equal byte for byte."""
    return np.array_equal(a.dram, b.dram) and all(np.array_equal(a.memories[m], b.memories[m]) for m in a.memories)


if __name__ == "__main__":
    sys.exit(main())

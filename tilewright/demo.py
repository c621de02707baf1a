"""`make demo`: a trained network from ONNX to hardware, with every figure measured here and now.

Compiles programs/digits for base16, runs all held-back images in the simulator beside ONNX Runtime, then runs the same
binary on the RTL and compares every byte of memory.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.api import compile  # noqa: A004
from tilewright.errors import USER_ERRORS, InputError, describe
from tilewright.host.tensors import dram_image, read_outputs
from tilewright.isa.program.program import Program as Binary
from tilewright.isa.program.program import place_regions
from tilewright.isa.program.state import MachineState
from tilewright.profiles.report import print_profile
from tilewright.program import Program
from tilewright.rtl.run import run_rtl
from tilewright.simulator.cycles import simulate_cycles
from tilewright.simulator.values import PreparedProgram

DIGITS = Path(__file__).resolve().parent.parent / "programs" / "digits"
MODEL = DIGITS / "digits_int8.onnx"
MACHINE = "base16"

REPEATS = 200
"""How often the network runs in one program, to see the RTL's speed."""


@dataclass(frozen=True)
class HeldBackDigits:
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


def load_digits() -> HeldBackDigits:
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
    return HeldBackDigits(images, labels, expected)


def compare_with_onnx_runtime(program: Program, digits: HeldBackDigits) -> bool:
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


def accuracy(who: str, top1: NDArray[Any], digits: HeldBackDigits) -> str:
    right = int((top1 == digits.labels).sum())
    return f"{who:12} {right} of {len(top1)} held-back images right ({100 * right / len(top1):.2f} %)"


def share_equal(a: NDArray[Any], b: NDArray[Any]) -> str:
    return f"{100 * float(np.isclose(a, b, atol=1e-6).mean()):.2f} %"


# -- cycles ------------------------------------------------------------------------------------------------------------


def show_cycles(program: Program) -> None:
    print()
    print_profile(program.run_profile())
    print()


# -- hardware ----------------------------------------------------------------------------------------------------------


def compare_with_rtl(program: Program, digits: HeldBackDigits) -> bool:
    """One image on the hardware, then again many times over; True if every byte of every memory is the simulator's."""
    binary = program.binary
    image = dram_image(binary, {"image": digits.images[:1]})
    is_equal, cycles, simulated, seconds = run_both(binary, image)
    print(f"RTL of {MACHINE} under Verilator, built or found, and run in {seconds:.1f} s, from the same binary:")
    print(
        f"  every byte of DRAM and of {len(program.machine.memories)} memories {'equal' if is_equal else 'NOT EQUAL'}"
    )
    print(f"  {cycles:,} cycles on the RTL, {simulated:,} in the simulator")
    long = repeated(binary, REPEATS)
    many_equal, cycles, simulated, seconds = run_both(long, dram_image(long, {"image": digits.images[:1]}))
    print(f"  {REPEATS} times over: {cycles:,} cycles on the RTL, {simulated:,} in the simulator", end="")
    print(f"; {cycles / seconds / 1000:,.0f} kcycles/s, start-up included")
    return is_equal and many_equal


def run_both(binary: Binary, image: NDArray[np.uint8]) -> tuple[bool, int, int, float]:
    """Whether all memory is equal, the cycles on the RTL and in the simulator, and the seconds on the RTL."""
    bases = place_regions(binary.limits)
    seconds: list[float] = []
    with timed(seconds):
        state, counters = run_rtl(binary, image, bases)
    is_equal = equal_states(PreparedProgram(binary, bases).run(image), state)
    return is_equal, counters.cycles, simulate_cycles(binary, bases).cycles, seconds[0]


def repeated(binary: Binary, times: int) -> Binary:
    """The program several times over, each time after the time before has completed."""
    count = Counter(instruction.engine.name for instruction in binary.instructions)
    instructions = [
        instruction.replace({f"wait.{e}": wait + turn * count[e] for e, wait in instruction.waits.items()})
        for turn in range(times)
        for instruction in binary.instructions
    ]
    provenance = binary.provenance * times
    return replace(binary, instructions=tuple(instructions), provenance=provenance)


def equal_states(a: MachineState, b: MachineState) -> bool:
    """True if all memories are equal byte for byte."""
    return np.array_equal(a.dram, b.dram) and all(np.array_equal(a.memories[m], b.memories[m]) for m in a.memories)


if __name__ == "__main__":
    sys.exit(main())

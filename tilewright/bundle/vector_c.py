"""test_vector.h and .c: inputs of a run with the outputs that the simulator gives, so that a board can be tried."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.bundle.c_text import array, integer, real, string
from tilewright.bundle.ends import End
from tilewright.errors import InputError
from tilewright.isa.program.partitioned import Partitioned
from tilewright.isa.program.program import Program
from tilewright.isa.program.stored_types import REALS

Arrays = Mapping[str, NDArray[Any]]


def random_inputs(network: Program | Partitioned, seed: int) -> dict[str, NDArray[Any]]:
    """For each input, values over all that it can hold; reals that only the host reads, from -1 to 1."""
    rng, found = np.random.default_rng(seed), {}
    programs = network.programs if isinstance(network, Partitioned) else (network,)
    known = {tensor.name: tensor for program in programs for tensor in program.inputs}
    for value in network.inputs:
        tensor = known.get(value.name)
        if tensor is None:
            found[value.name] = _anything(rng, value.dtype, value.shape)
        elif tensor.dtype in REALS:
            limits = tensor.element.interval
            stored = rng.integers(limits.low, limits.high, tensor.shape, endpoint=True)
            real = np.float32(tensor.scale) * (stored - tensor.zero_point).astype(np.float32)
            found[tensor.name] = real.astype(tensor.dtype)
        else:
            kind = tensor.kind
            found[tensor.name] = rng.integers(*kind.limits, tensor.shape, endpoint=True).astype(kind.dtype)
    return found


def _anything(rng: np.random.Generator, dtype: str, shape: tuple[int | None, ...]) -> NDArray[Any]:
    """Reals from -1 to 1, or integers over all of a type. Raises InputError where a size is not known."""
    sizes = [size for size in shape if size is not None]
    if len(sizes) < len(shape):
        raise InputError("an input has a size that is not fixed, which a bundle cannot have: fix it in the model")
    if dtype == "bool" or np.issubdtype(dtype, np.floating):
        return rng.uniform(-1, 1, sizes).astype(dtype) if dtype != "bool" else rng.integers(0, 2, sizes).astype(dtype)
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, sizes, dtype, endpoint=True)


TOLERANCE = """\

/* How far a real value may be off, as a share of its output's largest one: the processor's functions, such as exp,
 * round otherwise than those of the computer that made the vector. Integers must be equal. */
#ifndef TEST_VECTOR_TOLERANCE
#define TEST_VECTOR_TOLERANCE 1e-5F
#endif
"""


def vector_header(ends: Sequence[End], is_exact: bool = True) -> str:
    """test_vector.h; values must be equal if they are exact, or else about equal."""
    values = sum(end.elements for end in ends if not end.is_input)
    return f"""\
#ifndef TEST_VECTOR_H
#define TEST_VECTOR_H
{"" if is_exact else TOLERANCE}
/* Values of all outputs together. */
#define TEST_VECTOR_VALUES {values}U

/* Writes the inputs into an arena. */
void test_vector_set(void *arena);

/* How many of the outputs in an arena are not those of the simulator. */
unsigned long test_vector_different(const void *arena);

/* Prints which value of each output in an arena is the largest, the first one of several: the class of a classifier. */
void test_vector_say(const void *arena);

#endif
"""


def vector_source(name: str, ends: Sequence[End], inputs: Arrays, outputs: Arrays, is_exact: bool = True) -> str:
    """test_vector.c, as vector_header says."""
    parts = [f'#include <stdio.h>\n\n#include "{name}.h"\n#include "test_vector.h"\n']
    sets, gets, says = [], [], []
    for end in ends:
        values = (inputs if end.is_input else outputs)[end.title]
        own = f"{'input' if end.is_input else 'output'}_{end.name}"
        parts.append(
            array(
                end.kind,
                own,
                [real(float(value)) if end.is_real else integer(int(value)) for value in values.reshape(-1)],
            )
        )
        if end.is_input:
            sets.append(f"    {name}_set_{end.name}(arena, {own});")
        else:
            parts.append(f"static {end.kind} got_{end.name}[{max(1, end.elements)}];\n")
            gets.append(f"    {name}_get_{end.name}(arena, got_{end.name});")
            gets.append(f"    for (place = 0; place < {end.elements}U; place++) {{")
            gets.append(f"        different += {_differs(end, own, values, is_exact)};\n    }}")
            says.append(_says(end, name))
    parts.append("void test_vector_set(void *arena)\n{\n" + "\n".join(sets or ["    (void)arena;"]) + "\n}\n")
    parts.append(
        "unsigned long test_vector_different(const void *arena)\n{\n    unsigned long different = 0, place;\n"
        + "\n".join(gets)
        + "\n    return different;\n}\n"
    )
    parts.append(
        "void test_vector_say(const void *arena)\n{\n    unsigned long largest, place;\n" + "\n".join(says) + "\n}\n"
    )
    return "\n".join(parts)


def _differs(end: End, wanted: str, values: NDArray[Any], is_exact: bool) -> str:
    """Whether a value is not the one that is wanted; NaN never is."""
    got, want = f"got_{end.name}[place]", f"{wanted}[place]"
    if is_exact or not end.is_real:
        return f"{got} != {want}"
    most = f"TEST_VECTOR_TOLERANCE * {real(float(np.abs(values).max(initial=0)))}"
    return f"!({got} >= {want} - {most} && {got} <= {want} + {most})"


def _says(end: End, name: str) -> str:
    """Statements that print which value of an output is the largest."""
    got = f"got_{end.name}"
    return f"""\
    {name}_get_{end.name}(arena, {got});
    largest = 0;
    for (place = 1; place < {end.elements}U; place++) {{
        largest = {got}[place] > {got}[largest] ? place : largest;
    }}
    printf("output %s: the largest of %lu values is number %lu\\n", {string(end.title)},
           (unsigned long){end.elements}U, largest);"""

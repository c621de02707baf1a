"""test_vector.h and .c: inputs of a run with the outputs that the simulator gives, so that a board can be tried."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.bundle.c_text import array, integer, real, string
from tilewright.bundle.network_c import Port
from tilewright.isa.program.program import Program
from tilewright.isa.program.stored_types import REALS

Arrays = Mapping[str, NDArray[Any]]


def random_inputs(program: Program, seed: int) -> dict[str, NDArray[Any]]:
    """For each input, values over all that it can hold."""
    rng, found = np.random.default_rng(seed), {}
    for tensor in program.inputs:
        if tensor.dtype in REALS:
            limits = tensor.element.interval
            stored = rng.integers(limits.low, limits.high, tensor.shape, endpoint=True)
            real = np.float32(tensor.scale) * (stored - tensor.zero_point).astype(np.float32)
            found[tensor.name] = real.astype(tensor.dtype)
        else:
            kind = tensor.kind
            found[tensor.name] = rng.integers(*kind.limits, tensor.shape, endpoint=True).astype(kind.dtype)
    return found


def vector_header(ports: Sequence[Port]) -> str:
    """test_vector.h."""
    values = sum(port.elements for port in ports if not port.is_input)
    return f"""\
#ifndef TEST_VECTOR_H
#define TEST_VECTOR_H

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


def vector_source(name: str, ports: Sequence[Port], inputs: Arrays, outputs: Arrays) -> str:
    """test_vector.c."""
    parts = [f'#include <stdio.h>\n\n#include "{name}.h"\n#include "test_vector.h"\n']
    sets, gets, says = [], [], []
    for port in ports:
        values = (inputs if port.is_input else outputs)[port.tensor.name]
        own = f"{'input' if port.is_input else 'output'}_{port.name}"
        parts.append(
            array(
                port.kind,
                own,
                [real(float(value)) if port.is_real else integer(int(value)) for value in values.reshape(-1)],
            )
        )
        if port.is_input:
            sets.append(f"    {name}_set_{port.name}(arena, {own});")
        else:
            parts.append(f"static {port.kind} got_{port.name}[{max(1, port.elements)}];\n")
            gets.append(f"    {name}_get_{port.name}(arena, got_{port.name});")
            gets.append(f"    for (place = 0; place < {port.elements}U; place++) {{")
            gets.append(f"        different += got_{port.name}[place] != {own}[place];\n    }}")
            says.append(_says(port, name))
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


def _says(port: Port, name: str) -> str:
    """Statements that print which value of an output is the largest."""
    got = f"got_{port.name}"
    return f"""\
    {name}_get_{port.name}(arena, {got});
    largest = 0;
    for (place = 1; place < {port.elements}U; place++) {{
        largest = {got}[place] > {got}[largest] ? place : largest;
    }}
    printf("output %s: the largest of %lu values is number %lu\\n", {string(port.tensor.name)},
           (unsigned long){port.elements}U, largest);"""

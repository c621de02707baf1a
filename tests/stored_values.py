"""Reference tensors in the form in which nests read them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.nest.nest import Buffer, NestProgram


def stored_values(quantised: NDArray[Any], program: NestProgram, buffer: Buffer) -> NDArray[np.int64]:
    """A quantised tensor [N, C, …] as a buffer of the program holds it; an input may lie as windows of its rows."""
    of = next((t for t in program.inputs if t.name == buffer.name and t.windows is not None), None)
    if of is None or of.windows is None:
        return quantised.reshape(buffer.shape).astype(np.int64)
    images = quantised.reshape(of.stored[0], *of.windows.image)
    return of.windows.gather(images, of.zero_point, of.stored).astype(np.int64)

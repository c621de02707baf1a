"""The host's side of a run: arrays as the ONNX model names them into the DRAM image, and outputs back out of it.

Example: an input [1, 3, 8, 8] for 16 lanes is stored as [1, 1, 8, 8, 16]: three channels, then thirteen lanes that hold
the zero point. A float 0.37 with scale 0.1 and zero point -3 is stored as round(3.7) - 3 = 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.errors import InputError
from tilewright.files.arrays import ArrayForm
from tilewright.isa.language.numeric import FloatType, IntegerType
from tilewright.isa.program.blocks import from_blocks, in_blocks
from tilewright.isa.program.partitioned import SHORT_DTYPES
from tilewright.isa.program.program import (
    Program,
    Tensor,
    dram_bytes,
    element_scales,
    in_host_order,
    in_stored_order,
    place_regions,
)
from tilewright.isa.program.small_floats import SmallFloat, small_float_of
from tilewright.isa.program.stored_types import BYTES, DEFAULT_TYPE, FLOATS, REALS, SHORT


def dram_image(program: Program, inputs: Mapping[str, NDArray[Any]]) -> NDArray[np.uint8]:
    """All of DRAM before the run: program, weights and inputs at the bases of `place_regions`, zeros elsewhere.

    Raises InputError when an array is missing, unknown, or of another shape or dtype than the model's, and for a tensor
    that is not inside its region, which the checker finds too.
    """
    _require_names(program.inputs, list(inputs))
    _require_inside(program, "inputs", program.inputs)
    _require_inside(program, "outputs", program.outputs)
    bases = place_regions(program.limits)
    image = np.zeros(dram_bytes(program.limits), np.uint8)
    for region, content in (("program", program.text), ("weights", program.weights)):
        image[bases[region] : bases[region] + len(content)] = np.frombuffer(content, np.uint8)
    for tensor in program.inputs:
        stored = pack(tensor, inputs[tensor.name]).reshape(-1).view(np.uint8)
        start = bases["inputs"] + tensor.offset
        image[start : start + stored.size] = stored
    return image


def read_outputs(program: Program, dram: NDArray[np.uint8]) -> dict[str, NDArray[Any]]:
    """The outputs by name, in the model's shapes and dtypes, from DRAM after the run; for what `dram_image` takes."""
    base = place_regions(program.limits)["outputs"]
    return {tensor.name: unpack(tensor, dram[base + tensor.offset :]) for tensor in program.outputs}


def _require_inside(program: Program, region: str, tensors: Sequence[Tensor]) -> None:
    """An unchecked program may have tensors anywhere; there is no image with one outside its region."""
    limit = program.limits[region]
    for tensor in tensors:
        end = tensor.offset + tensor.bytes
        if end > limit:
            raise InputError(
                f"{tensor.name!r} takes bytes {tensor.offset:#x} to {end:#x} of the region {region}, which holds "
                f"{limit:#x}: such a program cannot run, not even unchecked"
            )
        if region == "outputs" and tensor.windows is not None:
            raise InputError(f"output {tensor.name!r} is stored as windows, which only inputs are")


def blocked_shape(tensor: Tensor) -> tuple[int, int, int, int, int]:
    """[N, ceil(C / lanes), H, W, lanes]"""
    batch, channels, height, width = tensor.stored
    return batch, -(-channels // tensor.lanes), height, width, tensor.lanes


# -- one tensor --------------------------------------------------------------------------------------------------------


def pack(tensor: Tensor, array: NDArray[Any]) -> NDArray[Any]:
    """The array as it lies in DRAM: [N, ceil(C / lanes), H, W, lanes] of the tensor's elements."""
    _require_like(tensor, array)
    stored = in_stored_order(_to_stored(tensor, array), tensor)
    if tensor.windows is not None:
        images = stored.reshape(tensor.stored[0], *tensor.windows.image)
        stored = tensor.windows.gather(images, tensor.zero_point, tensor.stored)
    return in_blocks(stored.reshape(tensor.stored).astype(_stored_dtype(tensor)), tensor.lanes, tensor.zero_point)


def unpack(tensor: Tensor, content: NDArray[np.uint8]) -> NDArray[Any]:
    """The array that lies in DRAM as `pack` stores one; `content` are the bytes from its first on."""
    stored = np.frombuffer(content[: tensor.bytes].tobytes(), _stored_dtype(tensor)).reshape(blocked_shape(tensor))
    return _from_stored(tensor, in_host_order(from_blocks(stored, tensor.stored[1]), tensor))


def host_dtype(name: str) -> np.dtype[Any]:
    """numpy's type of an array of the host's; short ones are those of ml_dtypes."""
    if name in SHORT_DTYPES:
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, name))
    return np.dtype(name)


def _stored_dtype(tensor: Tensor) -> np.dtype[Any]:
    return np.dtype(f"<{'i' if tensor.kind.element.is_signed else 'u'}{tensor.element_bytes}")


def _to_stored(tensor: Tensor, array: NDArray[Any]) -> NDArray[Any]:
    small = _small_float(tensor)
    if small is not None:
        is_real, held = tensor.dtype in REALS, tensor.kind.element
        steps = small.nearest(_real_steps(array, tensor) * small.least) if is_real else small.steps(array)
        return small_float_of(held).codes(steps) if isinstance(held, FloatType) else steps.astype(_stored_dtype(tensor))
    if tensor.dtype in REALS:
        integers = quantize(array.astype(np.float32), *element_scales(tensor), tensor.element)
        return integers.astype(_stored_dtype(tensor))
    offset = tensor.kind.offset
    return (array.astype(np.int32) - offset if offset else array).astype(_stored_dtype(tensor))


def _small_float(tensor: Tensor) -> SmallFloat | None:
    """The type of its elements, if that is one of few bits."""
    return small_float_of(tensor.element) if isinstance(tensor.element, FloatType) else None


def _real_steps(array: NDArray[Any], tensor: Tensor) -> NDArray[np.float32]:
    with np.errstate(over="ignore", divide="ignore"):  # what overflows is infinite, and saturates
        return np.asarray(array.astype(np.float32) / element_scales(tensor)[0])


def _from_stored(tensor: Tensor, stored: NDArray[Any]) -> NDArray[Any]:
    small = _small_float(tensor)
    if small is not None:
        held = tensor.kind.element
        stored = small_float_of(held).steps_of_codes(stored) if isinstance(held, FloatType) else stored
        if tensor.dtype not in REALS:
            return small.values(stored)
    if tensor.dtype in REALS:
        scales, zeros = element_scales(tensor)
        reals = (stored.astype(np.float32) - zeros.astype(np.float32)) * scales
        with np.errstate(over="ignore"):  # float16 holds less than float32: what it does not hold is infinite
            return reals.astype(host_dtype(tensor.dtype), copy=False)
    offset = tensor.kind.offset
    return (stored.astype(np.int32) + offset if offset else stored).astype(host_dtype(tensor.dtype))


def quantize(
    array: NDArray[np.float32],
    scales: NDArray[np.float32],
    zeros: NDArray[np.int64] | int,
    to: IntegerType = DEFAULT_TYPE.values,
) -> NDArray[np.int64]:
    """ONNX's QuantizeLinear: x / scale in float32, ties to even, plus the zero point, saturated to the type."""
    with np.errstate(over="ignore", divide="ignore"):  # what overflows is infinite, and saturates
        scaled = np.rint(array / scales)
    # Clipped before the zero point is added, so that infinity and large values stay exact.
    return np.clip(scaled, to.interval.low - zeros, to.interval.high - zeros).astype(np.int64) + zeros


# -- what a user may give ----------------------------------------------------------------------------------------------


def require_forms(tensors: Sequence[Tensor], forms: Mapping[str, ArrayForm]) -> None:
    """Raise InputError unless there is a form for each tensor and no other, of its element type and shape."""
    _require_names(tensors, list(forms))
    for tensor in tensors:
        _require_form(tensor, forms[tensor.name])


def _require_names(tensors: Sequence[Tensor], names: Sequence[str]) -> None:
    wanted = [tensor.name for tensor in tensors]
    takes = f"the model takes: {', '.join(wanted) or 'no inputs'}"
    for name in wanted:
        if name not in names:
            raise InputError(f"missing input {name!r}; {takes}; got: {', '.join(names) or 'nothing'}")
    for name in names:
        if name not in wanted:
            raise InputError(f"unknown input {name!r}; {takes}")


def _require_like(tensor: Tensor, array: NDArray[Any]) -> None:
    _require_form(tensor, ArrayForm(array.dtype, array.shape))
    if array.dtype.name != tensor.dtype and not _holds(tensor, array):
        raise _other_type(tensor, array.dtype)
    if tensor.dtype in (*REALS, *FLOATS) and np.isnan(array).any():
        raise InputError(f"input {tensor.name!r} holds NaN, which has no quantised value")


def _require_form(tensor: Tensor, form: ArrayForm) -> None:
    is_narrow = tensor.dtype in SHORT and form.dtype.name in BYTES
    if form.dtype.name != tensor.dtype and not is_narrow:
        raise _other_type(tensor, form.dtype)
    if form.shape != tensor.shape:
        raise InputError(
            f"input {tensor.name!r} has shape {list(form.shape)}; the model takes {list(tensor.shape)}: reshape it"
        )


def _other_type(tensor: Tensor, dtype: np.dtype[Any]) -> InputError:
    return InputError(f"input {tensor.name!r} is {dtype.name}; the model takes {tensor.dtype}: convert it")


def _holds(tensor: Tensor, array: NDArray[Any]) -> bool:
    """Whether an array of bytes has only values of a tensor's two or four bits, for which numpy has no type."""
    limits = tensor.element.interval
    return array.size == 0 or bool(limits.low <= array.min() and array.max() <= limits.high)

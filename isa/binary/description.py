"""What a host must know of a program, as JSON: inputs, outputs, layers and metadata; reading checks every value."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, TypeVar

from tilewright.isa.errors import IsaError
from tilewright.isa.program.images import require_images
from tilewright.isa.program.program import (
    Layer,
    Program,
    Scales,
    Tensor,
    require_elements,
    require_scales,
)
from tilewright.isa.program.stored_types import DTYPES, INTEGERS, stored_type
from tilewright.isa.program.windows import Windows

T = TypeVar("T")

TENSOR_KEYS = tuple(field.name for field in fields(Tensor))

VIEW, HELD = "view", "held"
"""Keys that are left out where they are empty, as they are in nearly every program."""

IMAGES = "images"
"""A key that is left out where nothing is known of images, as in every program that is not compiled for a batch."""


@dataclass(frozen=True, slots=True)
class Description:
    """The part of a program that JSON holds."""

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    layers: tuple[Layer, ...]
    metadata: Mapping[str, str]
    images: int | None


def describe(program: Program) -> bytes:
    """Canonical JSON: the same program gives the same bytes. Raises IsaError for a scale that is not finite."""
    content = {
        "inputs": [_tensor_content(tensor) for tensor in program.inputs],
        "outputs": [_tensor_content(tensor) for tensor in program.outputs],
        "layers": [asdict(layer) for layer in program.layers],
        "metadata": dict(program.metadata),
        **images_content(program.images),
    }
    try:
        return json.dumps(content, sort_keys=True, ensure_ascii=False, allow_nan=False, indent=1).encode()
    except (ValueError, TypeError) as error:
        raise IsaError(f"the program's description cannot be written as JSON: {error}") from error


def read_description(text: bytes) -> Description:
    """The description that `describe` wrote; raises IsaError that names the key and what is wrong with it."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise IsaError(f"the description is not JSON: {error}") from error
    top = mapping(with_images(content), "description", ("inputs", "outputs", "layers", "metadata", IMAGES))
    found = Description(
        inputs=list_of(top["inputs"], "inputs", _tensor),
        outputs=list_of(top["outputs"], "outputs", _tensor),
        layers=list_of(top["layers"], "layers", _layer),
        metadata=texts(top["metadata"], "metadata"),
        images=images_of(top[IMAGES]),
    )
    require_images(found.images, found.inputs, found.outputs)
    return found


def images_content(images: int | None) -> dict[str, int]:
    """The key that says how many images a run takes, if that is known."""
    return {} if images is None else {IMAGES: images}


def with_images(content: Any) -> Any:
    """The content with the key of images, as null where it is left out."""
    return {IMAGES: None, **content} if isinstance(content, dict) else content


def images_of(value: Any) -> int | None:
    """How many images a run takes; raises IsaError for what is no such number."""
    return None if value is None else _positive(value, IMAGES)


def _tensor_content(tensor: Tensor) -> dict[str, Any]:
    content = {**asdict(tensor), "windows": tensor.windows and tensor.windows.numbers}
    return {key: value for key, value in content.items() if value or key not in (VIEW, HELD)}


def _tensor(value: Any, path: str) -> Tensor:
    keys = mapping({VIEW: [], HELD: "", **value} if isinstance(value, dict) else value, path, TENSOR_KEYS)
    shape = list_of(keys["shape"], f"{path}.shape", _positive)
    stored = list_of(keys["stored"], f"{path}.stored", _positive)
    if len(stored) != 4:
        raise IsaError(f"{path}.stored: expected 4 sizes [N, C, H, W], not {len(stored)}")
    dtype = _one_of(DTYPES, keys["dtype"], f"{path}.dtype")
    integers = _one_of(INTEGERS, keys["integers"], f"{path}.integers")
    held = text(keys[HELD], f"{path}.{HELD}")
    try:
        zeros = stored_type(dtype, integers, held).stored.interval
    except IsaError as error:
        raise IsaError(f"{path}: {error}") from None
    windows = None if keys["windows"] is None else _windows(keys["windows"], f"{path}.windows")
    tensor = Tensor(
        name=text(keys["name"], f"{path}.name"),
        shape=shape,
        stored=(stored[0], stored[1], stored[2], stored[3]),
        dtype=dtype,
        scale=_scale(keys["scale"], f"{path}.scale"),
        zero_point=_integer(keys["zero_point"], f"{path}.zero_point", zeros.low, zeros.high),
        offset=natural(keys["offset"], f"{path}.offset"),
        lanes=_positive(keys["lanes"], f"{path}.lanes"),
        axes=list_of(keys["axes"], f"{path}.axes", natural),
        windows=windows,
        integers=integers,
        scales=None if keys["scales"] is None else _scales(keys["scales"], f"{path}.scales"),
        view=list_of(keys[VIEW], f"{path}.{VIEW}", _positive),
        held=held,
    )
    try:
        require_elements(tensor)
        require_scales(tensor)
    except IsaError as error:
        raise IsaError(f"{path}: {error}") from None
    return tensor


def _one_of(known: Sequence[str], value: Any, path: str) -> str:
    word = text(value, path)
    if word not in known:
        raise IsaError(f"{path}: expected {', '.join(known)}, not {word!r}")
    return word


def _scale(value: Any, path: str) -> float:
    if not isinstance(value, float | int) or isinstance(value, bool) or not 0 < value < float("inf"):
        raise IsaError(f"{path}: expected a positive number, not {value!r}")
    return value


def _scales(value: Any, path: str) -> Scales:
    keys = mapping(value, path, ("box", "values", "zero_points"))
    return Scales(
        list_of(keys["box"], f"{path}.box", _positive),
        list_of(keys["values"], f"{path}.values", _scale),
        list_of(keys["zero_points"], f"{path}.zero_points", _any_integer),
    )


def _windows(value: Any, path: str) -> Windows:
    try:
        return Windows.from_numbers(list_of(value, path, natural))
    except IsaError as error:
        raise IsaError(f"{path}: {error}") from None


def _layer(value: Any, path: str) -> Layer:
    keys = mapping(value, path, ("name", "first_instruction", "nodes", "macs"))
    return Layer(
        name=text(keys["name"], f"{path}.name"),
        first_instruction=natural(keys["first_instruction"], f"{path}.first_instruction"),
        nodes=list_of(keys["nodes"], f"{path}.nodes", text),
        macs=natural(keys["macs"], f"{path}.macs"),
    )


# -- values ------------------------------------------------------------------------------------------------------------


def mapping(value: Any, path: str, keys: tuple[str, ...]) -> Mapping[str, Any]:
    """A mapping with just these keys; raises IsaError that names `path`."""
    if not isinstance(value, dict) or sorted(value) != sorted(keys):
        came = ", ".join(value) if isinstance(value, dict) else repr(value)
        raise IsaError(f"{path}: expected the keys {', '.join(keys)}, not {came}")
    return value


def list_of(value: Any, path: str, read: Callable[[Any, str], T]) -> tuple[T, ...]:
    """A list, each item read by `read`; raises IsaError that names `path`."""
    if not isinstance(value, list):
        raise IsaError(f"{path}: expected a list, not {value!r}")
    return tuple(read(item, f"{path}[{number}]") for number, item in enumerate(value))


def texts(value: Any, path: str) -> Mapping[str, str]:
    """Texts by name; raises IsaError that names `path`."""
    if not isinstance(value, dict):
        raise IsaError(f"{path}: expected texts by name, not {value!r}")
    return {text(key, path): text(item, f"{path}.{key}") for key, item in value.items()}


def text(value: Any, path: str) -> str:
    """A text; raises IsaError that names `path`."""
    if not isinstance(value, str):
        raise IsaError(f"{path}: expected a text, not {value!r}")
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise IsaError(f"{path}: {value!r} has half of a surrogate pair, which is no character")
    return value


def _integer(value: Any, path: str, low: int, high: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise IsaError(f"{path}: expected an integer from {low} to {high}, not {value!r}")
    return value


def _any_integer(value: Any, path: str) -> int:
    return _integer(value, path, -(1 << 63), (1 << 63) - 1)


def natural(value: Any, path: str) -> int:
    """An integer from 0 on; raises IsaError that names `path`."""
    return _integer(value, path, 0, (1 << 63) - 1)


def _positive(value: Any, path: str) -> int:
    return _integer(value, path, 1, (1 << 40) - 1)

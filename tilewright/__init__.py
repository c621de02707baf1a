"""Tilewright: compile a network for an NPU that one YAML file describes, and run it.

program = tilewright.compile("model.onnx", "base16")
result = program.run({"image": image})
result.outputs["logits"], result.profile["cycles"]
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilewright.api import compare, compile, evaluate, price  # noqa: A004
    from tilewright.better_machines import advise, require, specialise
    from tilewright.codesign.advise.advice import Advice
    from tilewright.codesign.compare.comparison import Comparison
    from tilewright.codesign.explore.study import Study
    from tilewright.codesign.price.price import Price
    from tilewright.codesign.require.requirement import Requirement
    from tilewright.codesign.specialise.answer import Specialised
    from tilewright.errors import InputError
    from tilewright.evaluation.evaluate import Evaluation
    from tilewright.generation import Generated, generate
    from tilewright.host.states import State, states
    from tilewright.program import Program, Result
    from tilewright.quantization.quantize import QuantizedModel, quantize

__all__ = [
    "Advice",
    "Comparison",
    "Evaluation",
    "Generated",
    "InputError",
    "Price",
    "Program",
    "QuantizedModel",
    "Requirement",
    "Result",
    "Specialised",
    "State",
    "Study",
    "advise",
    "compare",
    "compile",
    "evaluate",
    "generate",
    "price",
    "quantize",
    "require",
    "specialise",
    "states",
]

_HOMES = {
    "advise": "tilewright.better_machines",
    "Advice": "tilewright.codesign.advise.advice",
    "compare": "tilewright.api",
    "Comparison": "tilewright.codesign.compare.comparison",
    "compile": "tilewright.api",
    "evaluate": "tilewright.api",
    "Evaluation": "tilewright.evaluation.evaluate",
    "Program": "tilewright.program",
    "Result": "tilewright.program",
    "Generated": "tilewright.generation",
    "generate": "tilewright.generation",
    "price": "tilewright.api",
    "require": "tilewright.better_machines",
    "Requirement": "tilewright.codesign.require.requirement",
    "Study": "tilewright.codesign.explore.study",
    "specialise": "tilewright.better_machines",
    "Specialised": "tilewright.codesign.specialise.answer",
    "Price": "tilewright.codesign.price.price",
    "QuantizedModel": "tilewright.quantization.quantize",
    "quantize": "tilewright.quantization.quantize",
    "InputError": "tilewright.errors",
    "State": "tilewright.host.states",
    "states": "tilewright.host.states",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for only now, so that `tilewright --help` does not load a compiler."""
    if name not in _HOMES:
        raise AttributeError(f"module 'tilewright' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """The public names, whether or not they are imported yet."""
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])

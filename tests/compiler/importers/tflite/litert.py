"""What LiteRT's reference kernels compute: the oracle of TFLite files, which nobody here wrote."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ai_edge_litert.interpreter import Interpreter, OpResolverType
from numpy.typing import NDArray


class Litert:
    """A file in LiteRT; its state lasts from run to run."""

    def __init__(self, content: bytes) -> None:
        """Raises ValueError or RuntimeError for what LiteRT does not take."""
        self._interpreter = Interpreter(
            model_content=content, experimental_op_resolver_type=OpResolverType.BUILTIN_REF, num_threads=1
        )
        self._interpreter.allocate_tensors()
        self.inputs = {detail["name"]: detail for detail in self._interpreter.get_input_details()}

    def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """The outputs by name; inputs that the file does not have are left out."""
        for name, detail in self.inputs.items():
            self._interpreter.set_tensor(detail["index"], inputs[name])
        self._interpreter.invoke()
        outputs = self._interpreter.get_output_details()
        return {detail["name"]: self._interpreter.get_tensor(detail["index"]) for detail in outputs}

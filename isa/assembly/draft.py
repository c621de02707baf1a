"""A program while its text is being read, line by line."""

from __future__ import annotations

from dataclasses import dataclass, field

from tilewright.isa.machine.encoding import Instruction
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.program import Layer, Program, Tensor


@dataclass(slots=True)
class Reference:
    """`layer(…)` of an instruction: a name, or an index among the layers."""

    layer: str | int
    line: int
    column: int


@dataclass(slots=True)
class Draft:
    """What has been read so far."""

    machine: Machine
    instructions: list[Instruction] = field(default_factory=list)
    references: list[Reference | int | None] = field(default_factory=list)  # an int: the label above
    layers: list[Layer] = field(default_factory=list)
    weights: bytearray = field(default_factory=bytearray)
    sizes: dict[str, int] = field(default_factory=dict)
    inputs: list[Tensor] = field(default_factory=list)
    outputs: list[Tensor] = field(default_factory=list)
    metadata: dict[str, str] = field(default_factory=dict)
    images: int | None = None
    has_provenance: bool = True

    def resolve(self, reference: Reference | int | None) -> int | None:
        """The index of the layer that an instruction serves, or None."""
        if not isinstance(reference, Reference):
            return reference
        if isinstance(reference.layer, int):
            return reference.layer if reference.layer < len(self.layers) else None
        names = [layer.name for layer in self.layers]
        return names.index(reference.layer) if reference.layer in names else None

    def open_references(self) -> list[tuple[int, int, str | int]]:
        """(line, column, layer) of each reference to a layer that there is not."""
        return [
            (reference.line, reference.column, reference.layer)
            for reference in self.references
            if isinstance(reference, Reference) and self.resolve(reference) is None
        ]

    def program(self) -> Program:
        served = [self.resolve(reference) for reference in self.references]
        provenance = tuple(layer for layer in served if layer is not None)
        is_complete = self.has_provenance and len(provenance) == len(served)
        return Program(
            machine=self.machine,
            instructions=tuple(self.instructions),
            weights=bytes(self.weights),
            workspace_bytes=self.sizes.get("workspace", 0),
            inputs=tuple(self.inputs),
            outputs=tuple(self.outputs),
            layers=tuple(self.layers),
            provenance=provenance if is_complete else (),
            input_bytes=self.sizes.get("inputs", 0),
            output_bytes=self.sizes.get("outputs", 0),
            metadata=self.metadata,
            images=self.images,
        )

"""Gives tensors their places in DRAM: in the host's regions, among the constants, or in the workspace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tilewright.compiler.nest.nest import BufferPart, NestProgram
from tilewright.compiler.select.transfer import home_of
from tilewright.compiler.tiling.builder import TileBuilder
from tilewright.compiler.tiling.constants import pack_tensor
from tilewright.compiler.tiling.layout import DramLayout
from tilewright.compiler.tiling.place import InDram
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import BYTE_BITS, Element
from tilewright.isa.program.program import Tensor
from tilewright.isa.timing import BURST_BEATS

WORKSPACE, INPUTS, OUTPUTS = "workspace", "inputs", "outputs"


class DramTensors:
    """Places in DRAM: the host's tensors have theirs from the start, others get one when they are first asked for."""

    def __init__(self, machine: Machine, nests: NestProgram, builder: TileBuilder) -> None:
        self._machine = machine
        self._nests = nests
        self._builder = builder
        self._places: dict[str, InDram] = {}
        self.inputs, self.input_bytes = self._in_region(nests.inputs)
        self.outputs, self.output_bytes = self._in_region(nests.outputs)
        self._hosted = {host.name: (OUTPUTS, host) for host in self.outputs}
        self._hosted |= {host.name: (INPUTS, host) for host in self.inputs}

    def place(self, tensor: str) -> InDram:
        """A tensor's place in DRAM."""
        if tensor not in self._places:
            self._places[tensor] = self._new_place(tensor)
        return self._places[tensor]

    def parts(self, tensor: str) -> tuple[InDram, ...]:
        """The places of the inputs that are parts of a buffer."""
        return tuple(map(self._part_place, self._nests.buffers[tensor].parts))

    def _part_place(self, part: BufferPart) -> InDram:
        place, (batch, channel, row, column) = self.place(part.tensor), part.first
        assert channel % self._machine.lanes == 0, f"{part.tensor} begins within a word, at channel {channel}"
        first = (batch, channel // self._machine.lanes, row, column)
        return replace(place, layout=replace(place.layout, first=first))

    def _new_place(self, tensor: str) -> InDram:
        values = self._nests.constants.get(tensor)
        shape = self._nests.buffers[tensor].shape if values is None else values.shape
        memory = home_of(self._builder.transfers, self._nests, tensor)
        layout = self._layout(shape, self._machine.memories[memory].element)
        if values is None:
            return InDram(self._buffer(tensor, layout), layout, memory, self.parts(tensor))
        return InDram(
            self._builder.constant(f"{tensor}.data", pack_tensor(values, self._nests.constant_types[tensor], layout)),
            layout,
            memory,
        )

    def _buffer(self, tensor: str, layout: DramLayout) -> str:
        region, host = self._hosted.get(tensor, (WORKSPACE, None))
        if host is None:
            return self._builder.buffer(f"{tensor}.{region}", region, layout.bytes, self._burst_bytes)
        return self._builder.buffer(f"{tensor}.{region}", region, layout.bytes, offset=host.offset)

    def _in_region(self, tensors: Sequence[Tensor]) -> tuple[tuple[Tensor, ...], int]:
        """Offsets of the host's tensors in their region, each on a burst; and the region's size."""
        placed, end = [], 0
        for tensor in tensors:
            offset = -(-end // self._burst_bytes) * self._burst_bytes
            memory = self._machine.memories[home_of(self._builder.transfers, self._nests, tensor.name)]
            end = offset + self._layout(tensor.stored, memory.element).bytes
            placed.append(replace(tensor, offset=offset, lanes=self._machine.lanes))
        return tuple(placed), end

    def _layout(self, shape: Sequence[int], element: Element) -> DramLayout:
        lanes = self._machine.lanes
        return DramLayout(tuple(shape), lanes, lanes * element.bits // BYTE_BITS)

    @property
    def _burst_bytes(self) -> int:
        return BURST_BEATS * self._machine.dram.bus_bytes

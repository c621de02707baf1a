"""The tensors that stay on chip: their buffers, and what their padding holds as the program goes on."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from tilewright.compiler.graph.graph import COLUMN, ROW
from tilewright.compiler.nest.nest import Nest, NestProgram
from tilewright.compiler.select.selector import Selector
from tilewright.compiler.tiling.builder import Fill, TileBuilder
from tilewright.compiler.tiling.constants import pack_elements
from tilewright.compiler.tiling.job import WholeTensor
from tilewright.compiler.tiling.layout import outside_runs
from tilewright.compiler.tiling.place import InDram
from tilewright.compiler.tiling.residency import Residency, wanted_border
from tilewright.isa.language.expressions import const


class Fills:
    """How words get a value: by an instruction that computes it from nothing, or by loads of a constant word."""

    def __init__(self, selector: Selector, builder: TileBuilder) -> None:
        self._selector = selector
        self._builder = builder
        self._known: dict[tuple[str, int], Fill] = {}  # by memory and value

    def fill(self, nest: Nest, value: int, memory: str) -> Fill:
        """How words of a memory get a value; the instruction is sought as one for `nest`."""
        key = (memory, value)
        if key not in self._known:
            step = self._selector.cover_value(nest, const(value), memory)
            self._known[key] = Fill(step, self._constant(value, memory) if step is None else "")
        return self._known[key]

    def _constant(self, value: int, name: str) -> str:
        memory = self._builder.machine.memories[name]
        assert memory.element.type is not None
        word = pack_elements(np.full(memory.width, value), memory.element.type)
        return self._builder.constant(f"fill{value}", word)


class Residents:
    """The tensors on chip at this point of the program.

    All of them live in `memory`, but for sums, which live in `sum_memory`; those of `in_banks` each within one bank.
    """

    def __init__(
        self,
        nests: NestProgram,
        residency: Residency,
        memory: str,
        sum_memory: str,
        in_banks: Collection[str],
        fills: Fills,
        builder: TileBuilder,
    ) -> None:
        self.tensors: dict[str, WholeTensor] = {}
        self._nests = nests
        self._residency = residency
        self._memory = memory
        self._sum_memory = sum_memory
        self._in_banks = in_banks
        self._fills = fills
        self._builder = builder
        self._border_value: dict[str, int] = {}  # what a tensor's padding holds now
        self._assumed: set[str] = set()
        self._readers = nests.positions_of_readers

    def may_hold(self, tensor: str) -> bool:
        """Whether a tensor stays on chip."""
        return tensor in self._residency.layouts

    def add(self, tensor: str) -> WholeTensor:
        """A buffer for a tensor that is not there yet."""
        layout = self._residency.layouts[tensor]
        is_in_bank = tensor in self._in_banks
        memory = self._sum_memory if tensor in self._residency.sums else self._memory
        buffer = self._builder.buffer(tensor, memory, layout.words, layout.group, is_in_bank=is_in_bank)
        held = WholeTensor(buffer, layout)
        self.tensors[tensor] = held
        return held

    def assume(self, tensor: str) -> None:
        """A buffer for a tensor that nests which are not lowered have brought, with whatever padding is wanted."""
        self.add(tensor)
        self._assumed.add(tensor)

    def set_border(self, tensor: str, position: int) -> None:
        """Fill a tensor's padding with the value that its next reader at or after a nest expects there."""
        if tensor in self._residency.sums:
            return  # no reader reaches beyond them, and the array writes whole words
        readers = self._readers.get(tensor, [])
        for nest in (self._nests.nests[reader] for reader in readers if reader >= position):
            for access in nest.reads.values():
                if access.tensor == tensor and access.outside is not None and self._reaches_out(nest, tensor):
                    self._fill_border(nest, tensor, access.outside)
                    return
        self._fill_border(self._nests.nests[position], tensor, 0)

    def prepare_borders(self, nest: Nest, homes: Mapping[str, WholeTensor | InDram]) -> None:
        """Refill the padding of tensors where it still holds the value for another reader."""
        for access in nest.reads.values():
            if not isinstance(homes.get(access.tensor), WholeTensor) or access.outside is None:
                continue
            if access.tensor in self._assumed:
                continue
            if self._reaches_out(nest, access.tensor) and self._border_value[access.tensor] != access.outside:
                self._fill_border(nest, access.tensor, access.outside)

    def _reaches_out(self, nest: Nest, tensor: str) -> bool:
        shape = self._nests.buffers[tensor].shape
        borders = [wanted_border(a, nest, shape) for a in nest.reads.values() if a.tensor == tensor]
        return any(b.top or b.bottom or b.left or b.right for b in borders)

    def _fill_border(self, nest: Nest, tensor: str, value: int) -> None:
        held, shape = self.tensors[tensor], self._nests.buffers[tensor].shape
        rows, columns = range(shape[ROW]), range(shape[COLUMN])
        runs = outside_runs(held.layout, rows, columns)
        if runs:
            self._builder.fill_runs(self._fills.fill(nest, value, self._memory), held.buffer, held.layout, runs)
        if held.layout.groups * held.layout.group > held.layout.blocks and tensor not in self._border_value:
            fill = self._fills.fill(nest, value, self._memory)
            self._builder.fill_missing_blocks(fill, held.buffer, held.layout, rows, columns)
        self._border_value[tensor] = value

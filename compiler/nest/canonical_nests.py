"""The canonical form of nests: tensors are numbers, in the order in which nests read and write them.

Whoever asks says what else matters of a nest, such as its expression or its instructions, and of a tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from tilewright.compiler.canonical_form import CanonicalForm, NameNumbers
from tilewright.compiler.nest.nest import Nest, NestProgram


def canonical_nests(
    nests: Sequence[Nest], of_nest: Callable[[Nest], Hashable], of_tensor: Callable[[str], Hashable]
) -> CanonicalForm:
    """Loops and accesses of nests, with what `of_nest` and `of_tensor` say of each nest and of each tensor.

    Of the elements beyond a tensor's bounds it tells whether there are any: their value is for `of_nest` to say.
    """

    def tell(numbers: NameNumbers) -> Hashable:
        told = tuple([(nest.loops, _accesses(nest, numbers), of_nest(nest)) for nest in nests])
        return told, tuple([of_tensor(name) for name in numbers])

    return CanonicalForm.of(tell)


def _accesses(nest: Nest, numbers: NameNumbers) -> Hashable:
    accesses = (*nest.reads.items(), ("", nest.result))
    return tuple([(name, numbers[of.tensor], of.index, of.outside is None) for name, of in accesses])


def stored_facts(program: NestProgram, tensor: str) -> Hashable:
    """How a tensor of a program is stored: its shape, whether it is a constant, and which inputs it has as parts."""
    constant = program.constants.get(tensor)
    if constant is not None:
        return constant.shape, True, ()
    buffer = program.buffers[tensor]
    return buffer.shape, False, tuple([(part.first, program.buffers[part.tensor].shape) for part in buffer.parts])

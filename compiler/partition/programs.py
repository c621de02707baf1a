"""The programs of a network's parts for one machine: each part is simplified, covered and tiled once."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.compiler.errors import CompileError, TooSmall
from tilewright.compiler.fitting import Covered
from tilewright.compiler.levels import Form
from tilewright.compiler.options import Options
from tilewright.compiler.partition.faults import Answer, cover_part
from tilewright.compiler.partition.front import simplified_part
from tilewright.compiler.partition.parts import Part, part_graph
from tilewright.compiler.partition.source import Source
from tilewright.compiler.pipeline import compile_covered, with_enough_room, without_room
from tilewright.compiler.running import Keep
from tilewright.compiler.session import MemoStage, Session
from tilewright.compiler.simplify.steps import simplify_graph
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.program import Program

_COVERED = MemoStage[Answer[Covered]](4_096)
_COMPILED = MemoStage[Program](4_096)


class Programs:
    """What the compiler makes of parts of one network. With `keeps_results`, what each pass made is held back."""

    def __init__(
        self, source: Source, machine: Machine, options: Options, session: Session, keeps_results: bool
    ) -> None:
        self.source = source
        self.machine = machine
        self._options = options
        self._session = session
        self._keeps_results = keeps_results
        self._results: dict[Part, list[tuple[str, Form | Options]]] = {}

    def cover(self, part: Part) -> Answer[Covered]:
        """The machine's instructions for a part, or why there are none. Raises DamagedModel."""
        return self._session.memo(_COVERED, part, lambda: self._ask(part))

    def compile(self, part: Part) -> Program:
        """A part's program. Raises CompileError, the same again if it is asked again, and IsaError."""
        return self._session.memo(_COMPILED, part, lambda: self._compile(part))

    def without_room(self, part: Part) -> Mapping[str, CompileError]:
        """By node, the errors of all layers of a part that no tile fits."""
        covered = self.cover(part).made
        errors = () if covered is None else without_room(covered, self._session)
        return {node: error.with_traceback(None) for error in errors for node in error.nodes}

    def with_remedy(self, part: Part, error: CompileError) -> CompileError:
        """The error that compiling a part gave; with memories that are enough, where they are too small."""
        covered = self.cover(part).made
        if covered is None or not isinstance(error, TooSmall):
            return error
        return with_enough_room(error, covered, self._options, self._session)

    def shown(self, part: Part, keep: Keep | None) -> Program:
        """The program of a part that compiles, once its passes' results are handed on."""
        program = self.compile(part)
        for name, value in self._results.get(part, ()):
            if keep is not None:
                keep(name, value)
        return program

    def _compile(self, part: Part) -> Program:
        covered = self.cover(part)
        if covered.made is None:
            assert covered.error is not None
            raise covered.error.with_traceback(None)
        return compile_covered(covered.made, self._options, self._keep_for(part), self._session)

    def _ask(self, part: Part) -> Answer[Covered]:
        simplified = simplified_part(self.source, part, self._session)
        if simplified.made is None:
            return Answer(None, simplified.error, simplified.faults)
        keep = self._keep_for(part)
        if keep is not None:
            graph = part_graph(self.source, part)
            keep("import", graph)
            simplify_graph(graph, session=self._session, keep=keep)
        return cover_part(self.source, part, simplified.made, self.machine, self._options, keep, self._session)

    def _keep_for(self, part: Part) -> Keep | None:
        if not self._keeps_results:
            return None
        results = self._results.setdefault(part, [])
        return lambda name, value: results.append((name, value))

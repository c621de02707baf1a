"""Pictures of a run over time: who waits for whom, the way of one tile, and what lies in a memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilewright.host.segments import ProgramRun
from tilewright.html.svg import COLOURS, arrow, box, picture, text
from tilewright.isa.machine.engine import Engine, Template
from tilewright.profiles.lives import lives
from tilewright.profiles.one_layer import TimedInstruction, timed_instructions
from tilewright.simulator.profile import instructions_of_layers, layers_of
from tilewright.templates.table import facet_of

WIDTH, LEFT, RIGHT = 960, 80, 930
TOP, ROW, GAP = 48, 28, 14
STEP_ROW, STEPS_LEFT = 22, 150


def waits_picture(run: ProgramRun, layer: str) -> str:
    """The instructions of a layer by engine, and an arrow to each from the one that it waited for."""
    timed = _of_layer(run, layer)
    title = f"{layer} on {run.program.machine.name}: who waits for whom"
    return _time_picture(title, timed, {one.index: one.instruction.mnemonic for one in timed})


def tile_picture(run: ProgramRun, layer: str) -> str:
    """The last result of a layer that goes on: what it was made of, back to the loads, in the order of time."""
    timed = {one.index: one for one in _of_layer(run, layer)}
    last = max(index for index, one in timed.items() if one.instruction.engine.template is Template.VECTOR)
    chain = _chain(run, timed, last)
    words = {one.index: f"{number}. {one.instruction.mnemonic}" for number, one in enumerate(chain, 1)}
    return _time_picture(f"The way of one tile of {layer} on {run.program.machine.name}", chain, words)


def memory_picture(run: ProgramRun, memory: str) -> str:
    """Which words of a memory hold what is still to be read, by the layer that wrote them."""
    machine, layers, end = run.program.machine, layers_of(run.program), run.counters.cycles
    own = lives(run)[memory]
    used = max(life.end for life in own)
    height, bottom = 260, TOP + 260

    def parts() -> Iterator[str]:
        yield text(24, 28, f"{memory} of {machine.name} over time, by the layer that wrote", "title")
        for life in own:
            x, width = _x(life.born, 0, end), _x(life.dead, 0, end) - _x(life.born, 0, end)
            y, tall = bottom - height * life.end / used, height * (life.end - life.first) / used
            words, cycles = f"words {life.first:,} to {life.end:,}", f"cycles {life.born:,} to {life.dead:,}"
            hint = f"{layers[life.layer].name}: {words}, {cycles}"
            yield box(x, y, max(1, width), max(1, tall), fill=COLOURS[life.layer % len(COLOURS)], hint=hint)
        yield from _axis(0, end, bottom + 4)
        yield text(LEFT - 8, TOP + 12, f"word {used:,}", "small quiet end")
        yield text(LEFT - 8, bottom, "word 0", "small quiet end")
        for number, position in enumerate(dict.fromkeys(life.layer for life in own)):
            x, y = LEFT + 210 * (number % 4), bottom + 48 + 20 * (number // 4)
            yield box(x, y - 10, 12, 12, fill=COLOURS[position % len(COLOURS)])
            yield text(x + 18, y, "inputs and constants" if position < 0 else layers[position].name, "small")

    count = len({life.layer for life in own})
    return picture(WIDTH, bottom + 60 + 20 * ((count - 1) // 4), f"{memory} over time", parts())


def steps_picture(run: ProgramRun, part: str, title: str) -> str:
    """The layers of a part of a network, a row for each step of it: which engine works for it when.

    `part.step.detail` is a layer of a step whose name is `step`, or `step.detail` if a part has parts of its own:
    `layer1.attention.q.swapped` belongs to the row `attention.q` of `layer1`.
    """
    layers = layers_of(run.program)
    by_layer = instructions_of_layers(run.program, layers)
    rows: dict[str, list[TimedInstruction]] = {}
    for layer, indices in zip(layers, by_layer, strict=True):
        if layer.name.startswith(f"{part}."):
            step = ".".join(layer.name.removeprefix(f"{part}.").split(".")[:2])
            rows.setdefault(step, []).extend(timed_instructions(run, indices))
    timed = [one for row in rows.values() for one in row]
    first, end = min(one.started for one in timed), max(one.retired for one in timed)
    bottom = TOP + STEP_ROW * len(rows)

    def parts() -> Iterator[str]:
        yield text(24, 28, title, "title")
        for number, (step, row) in enumerate(rows.items()):
            y = TOP + STEP_ROW * number
            yield text(24, y + 15, step)
            yield f'<path class="line" d="M{STEPS_LEFT} {y + STEP_ROW - 1}H{RIGHT}"/>'
            for one in row:
                x, right = (_x(cycle, first, end, STEPS_LEFT) for cycle in (one.started, one.retired))
                hint = f"{one.instruction.mnemonic}, cycles {one.started:,} to {one.retired:,}"
                at = y + 1 + 4.5 * one.instruction.engine.number
                yield box(x, at, max(1, right - x), 4, fill=_colour(one.instruction.engine), hint=hint)
        yield from _axis(first, end, bottom + 4, STEPS_LEFT)
        for engine in run.program.machine.engines.values():
            yield box(STEPS_LEFT + 90 * engine.number, bottom + 38, 12, 12, fill=_colour(engine))
            yield text(STEPS_LEFT + 18 + 90 * engine.number, bottom + 48, engine.name, "small")

    return picture(WIDTH, bottom + 60, title, parts())


def _of_layer(run: ProgramRun, layer: str) -> list[TimedInstruction]:
    names = [one.name for one in layers_of(run.program)]
    indices = instructions_of_layers(run.program, layers_of(run.program))[names.index(layer)]
    return list(timed_instructions(run, indices))


def _chain(run: ProgramRun, timed: dict[int, TimedInstruction], last: int) -> list[TimedInstruction]:
    """The instruction, those of other engines that it waits for, those that these wait for, and so on."""
    engines = run.program.machine.engines
    by_engine = {e: [i for i, one in enumerate(run.program.instructions) if one.engine.name == e] for e in engines}
    found, open_ = {last}, [last]
    while open_:
        index = open_.pop()
        for engine, count in timed[index].instruction.waits.items():
            before = by_engine[engine][count - 1] if count else -1
            if before in timed and before not in found and engine != timed[index].instruction.engine.name:
                found.add(before)
                open_.append(before)
    return [timed[index] for index in sorted(found, key=lambda index: timed[index].started)]


def _time_picture(title: str, timed: Sequence[TimedInstruction], words: dict[int, str]) -> str:
    """Boxes by engine from start to end, with `words` on them or below, and arrows from `held_by`."""
    first, end = min(one.started for one in timed), max(one.retired for one in timed)
    shown = {one.index: one for one in timed}
    tops, bottom = _lanes(timed)
    spans = {one.index: (_x(one.started, first, end), _x(one.retired, first, end)) for one in timed}

    def parts() -> Iterator[str]:
        yield text(24, 28, title, "title")
        for engine in dict.fromkeys(one.instruction.engine for one in sorted(timed, key=lambda one: tops[one.index])):
            top = min(tops[one.index] for one in timed if one.instruction.engine == engine)
            yield text(24, top + 17, engine.name)
        for one in timed:
            (x, right), y = spans[one.index], tops[one.index]
            hint = f"{one.index} {one.instruction.mnemonic}, cycles {one.started:,} to {one.retired:,}"
            yield box(x, y, max(2, right - x - 1), 24, fill=_colour(one.instruction.engine), hint=hint)
            room = 6.5 * len(words[one.index])
            if right - x > room:
                yield text((x + right) / 2, y + 16, words[one.index], "small middle on")
            elif not any(x - room < spans[at][1] <= x and tops[at] == y for at in shown):
                yield text(x - 4, y + 16, words[one.index], "small end")
        for one in timed:
            if one.held_by in shown:
                above, below = tops[one.held_by] + 24, tops[one.index]
                start = (spans[one.held_by][1] - 2, above if below > above else above - 24)
                yield arrow([start, (spans[one.index][0] + 1, below if below > above else below + 24)])
        yield from _axis(first, end, bottom + 8)

    return picture(WIDTH, bottom + 50, title, parts())


def _lanes(timed: Sequence[TimedInstruction]) -> tuple[dict[int, int], int]:
    """Where each box begins from the top, so that none lies on another, and where the last one ends."""
    tops: dict[int, int] = {}
    top = TOP
    for engine in sorted({one.instruction.engine for one in timed}, key=lambda engine: engine.number):
        ends: list[int] = []
        for one in (one for one in timed if one.instruction.engine is engine):
            lane = next((at for at, end in enumerate(ends) if end <= one.started), len(ends))
            ends[lane : lane + 1] = [one.retired]
            tops[one.index] = top + ROW * lane
        top += ROW * len(ends) + GAP * bool(ends)
    return tops, top - GAP


def _x(cycle: int, first: int, end: int, left: int = LEFT) -> float:
    return round(left + (RIGHT - left) * (cycle - first) / max(1, end - first), 1)


def _axis(first: int, end: int, y: float, left: int = LEFT) -> Iterator[str]:
    """A line with five cycles on it."""
    yield f'<path class="line" d="M{left} {y:g}H{RIGHT}"/>'
    for part in range(5):
        cycle = first + (end - first) * part // 4
        kind = "small quiet end" if part == 4 else "small quiet middle" if part else "small quiet"
        yield text(_x(cycle, first, end, left), y + 16, f"{'cycle ' * (not part)}{cycle:,}", kind)


def _colour(engine: Engine) -> str:
    return facet_of(engine.template).colour(engine)

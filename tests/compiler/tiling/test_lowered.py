"""Nests that are alike: what is made again is what lowering makes, whatever differs between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from tests.compiler.machines import machine, without
from tests.compiler.models import conv_model
from tests.compiler.nests import NetworkByHand, network_for
from tests.compiler.pipelines import lowered as of_model
from tests.compiler.tiling.test_tile import OPTIONS, random_network
from tests.rings import slow_beyond
from tilewright.compiler.canonical_form import CanonicalForm
from tilewright.compiler.nest.nest import NestProgram
from tilewright.compiler.nest.space import Correction
from tilewright.compiler.select.cover import Selection
from tilewright.compiler.select.diagonals import diagonals
from tilewright.compiler.select.select import select
from tilewright.compiler.session import Session
from tilewright.compiler.tile.program import TileProgram
from tilewright.compiler.tiling import lowered
from tilewright.compiler.tiling import tile as tile_module
from tilewright.compiler.tiling.builder import Fill, TileBuilder
from tilewright.compiler.tiling.job import Content, NestJob
from tilewright.compiler.tiling.layout import InDram
from tilewright.compiler.tiling.lowered import lowered_stages
from tilewright.compiler.tiling.nest_stages import NestLowering
from tilewright.compiler.tiling.options import TilingOptions
from tilewright.compiler.tiling.stage import Stage
from tilewright.compiler.tiling.tile import tile
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.machine import Machine

A_LOOK = CanonicalForm("a look", ())


@pytest.fixture
def lowerings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of nests that are lowered, and not made again."""
    names: list[str] = []

    class Noted(NestLowering):
        def __init__(self, job, program, builder) -> None:  # type: ignore[no-untyped-def]
            super().__init__(job, program, builder)
            names.append(job.cover.nest.name)

    monkeypatch.setattr(lowered, "NestLowering", Noted)
    return names


def of_lowerings_alone(selection: Selection, options: TilingOptions | None = None) -> TileProgram:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Session, "known", lambda *given: None)
        return tile(selection, options)


def assert_the_same(selection: Selection, session: Session, options: TilingOptions | None = None) -> None:
    """What was made before changes nothing."""
    assert tile(selection, options, session) == of_lowerings_alone(selection, options)


def convolutions(seed: int, **differences: object) -> NetworkByHand:
    """Four convolutions of other weights and scales; the third differs from the second if wanted."""
    network = network_for(machine("tiny8"), seed)
    alike: dict[str, object] = {"kernel": (3, 3), "pad": 1}
    at = network.input(1, 16, 6, 6)
    for arguments in (alike, alike, {**alike, **differences}, alike):
        at = network.conv(at, 16, **arguments)  # type: ignore[arg-type]
    return network


def selection_of(nests: NestProgram) -> Selection:
    return select(nests, machine("tiny8"))


def whole(network: NetworkByHand) -> NestProgram:
    return network.program(network.nests[-1].result.tensor)


@pytest.mark.parametrize("name", ["tiny8", "base16", "rect", "small memories"])
@pytest.mark.parametrize("seed", slow_beyond(3, range(8)))
def test_is_what_lowering_makes(name: str, seed: int) -> None:
    """The same network in three plans, and then another one, with what was made for all before."""
    session = Session()
    for each in (seed, seed + 1):
        network, outputs = random_network(each, machine(name))
        selection = select(network.program(*outputs), machine(name))
        for options in (*OPTIONS, *OPTIONS):
            assert_the_same(selection, session, options)


def test_a_nest_that_is_like_another_is_not_lowered(lowerings: list[str]) -> None:
    """Weights, biases, scales, zero points and limits differ."""
    selection = selection_of(whole(convolutions(0, zero=-9, low=-9)))
    made = tile(selection, OPTIONS[1])
    assert lowerings == ["conv0", "conv1", "conv3"]
    assert made == of_lowerings_alone(selection, OPTIONS[1])


def test_nor_is_one_of_another_program(lowerings: list[str]) -> None:
    session = Session()
    tile(selection_of(whole(convolutions(0))), None, session)
    lowerings.clear()
    other = selection_of(whole(convolutions(1, zero=5)))
    made = tile(other, None, session)
    assert lowerings == []
    assert made == of_lowerings_alone(other) and made.weights != tile(selection_of(whole(convolutions(0)))).weights


def test_blocks_of_words_stay_within_a_bank(lowerings: list[str]) -> None:
    of, session = load_machine("dw16"), Session()
    for seed in range(2):
        model = conv_model(np.random.default_rng(seed), 20, 20, group=20, kernel=3, size=9, pads=[1, 1, 1, 1])
        selection = select(diagonals(of_model(model), of), of)
        lowerings.clear()
        made = tile(selection, OPTIONS[1], session)
        assert lowerings == ["conv"][seed:]
        assert any(buffer.is_in_bank for buffer in made.buffers.values())
        assert made == of_lowerings_alone(selection, OPTIONS[1])


def with_outside(nests: NestProgram, values: Mapping[str, int]) -> NestProgram:
    """Nests that find other elements beyond the bounds of what they read."""

    def changed(nest):  # type: ignore[no-untyped-def]
        outside = values.get(nest.name)
        reads = {
            name: access if access.outside is None or outside is None else replace(access, outside=outside)
            for name, access in nest.reads.items()
        }
        return replace(nest, reads=reads)

    return replace(nests, nests=tuple(map(changed, nests.nests)))


@pytest.mark.parametrize("of", [machine("tiny8"), without(machine("tiny8"), "fill")], ids=["filled", "loaded"])
@pytest.mark.parametrize("values", [{"conv2": 7}, {"conv1": 0}, {"conv1": 0, "conv2": 7}], ids=str)
def test_elements_outside_may_differ(of: Machine, values: Mapping[str, int]) -> None:
    for options in OPTIONS:
        assert_the_same(select(with_outside(whole(convolutions(0)), values), of), Session(), options)


def a_job() -> tuple[NestJob, TileBuilder, NestProgram]:
    """That of a convolution which reads and writes DRAM."""
    asked: list[tuple[NestJob, TileBuilder, NestProgram]] = []
    with pytest.MonkeyPatch.context() as patch:

        def noted(job: NestJob, _: object, program: NestProgram, builder: TileBuilder, session: Session) -> object:
            asked.append((job, builder, program))
            return list(NestLowering(job, program, builder).stages())

        patch.setattr(tile_module, "lowered_stages", noted)
        tile(selection_of(whole(convolutions(0))), OPTIONS[1])
    return asked[1]


def with_shape(**changes: object) -> Callable[[NestJob], NestJob]:
    return lambda job: replace(job, shape=replace(job.shape, **changes))  # type: ignore[arg-type]


def with_step(**changes: object) -> Callable[[NestJob], NestJob]:
    """A change of the nest's last instruction."""

    def changed(job: NestJob) -> NestJob:
        *others, last = job.cover.steps
        steps = (*others, replace(last, **changes))  # type: ignore[arg-type]
        return replace(job, shape=replace(job.shape, cover=replace(job.cover, steps=steps)))

    return changed


def with_home(change: Callable[[InDram], InDram]) -> Callable[[NestJob], NestJob]:
    """A change of the place of what the nest reads first."""

    def changed(job: NestJob) -> NestJob:
        tensor = job.cover.nest.reads["x"].tensor
        home = job.homes[tensor]
        assert isinstance(home, InDram)
        return replace(job, homes={**job.homes, tensor: change(home)})

    return changed


def with_part_in(memory: str) -> Callable[[NestJob], NestJob]:
    return with_home(lambda home: replace(home, parts=(replace(home, memory=memory),)))


def with_instruction_twice(job: NestJob) -> NestJob:
    """Its last instruction comes twice."""
    return replace(
        job, shape=replace(job.shape, cover=replace(job.cover, steps=(*job.cover.steps, job.cover.steps[-1])))
    )


def with_two_outside(at: int) -> Callable[[NestJob], NestJob]:
    """There are two values of elements outside; the nest reads the first or the second one."""

    def changed(job: NestJob) -> NestJob:
        ((value, fill),) = job.fills.items()
        return replace(job, fills={value: fill, 100: fill} if at == 0 else {-100: fill, value: fill})

    return changed


OTHERS: dict[str, Callable[[NestJob], NestJob]] = {
    "sizes": lambda job: replace(job, choice=replace(job.choice, sizes={**job.choice.sizes, "y": 1})),
    "order of loops": lambda job: replace(job, choice=replace(job.choice, points_outer=not job.choice.points_outer)),
    "layout": with_home(lambda home: replace(home, layout=replace(home.layout, first=(0, 0, 1, 0)))),
    "memory": with_home(lambda home: replace(home, memory="acc")),
    "parts": with_home(lambda home: replace(home, parts=(home,))),
    "result elsewhere": lambda job: replace(job, result=None, result_in_dram=None),
    "result where it reads": lambda job: replace(
        job, result_in_dram=replace(job.result_in_dram, buffer=job.homes[job.cover.nest.reads["x"].tensor].buffer)
    ),
    "loaded words outside": lambda job: replace(job, fills={value: Fill(None) for value in job.fills}),
    "reduces": with_step(reduces=True),
    "is uniform": with_step(is_uniform=True),
    "corrections": with_step(corrections=(Correction(1, True),)),
    "names of immediates": with_step(immediates={"zero": 1}),
    "an instruction twice": with_instruction_twice,
}


def counted(changes: Sequence[Callable[[NestJob], NestJob]], monkeypatch: pytest.MonkeyPatch) -> int:
    """How many jobs are lowered of one and of what changes make of it."""
    count = 0

    class Counted:
        contents: Mapping[str, Content] = {}

        def __init__(self, *_: object) -> None:
            nonlocal count
            count += 1

        def stages(self) -> Iterator[Stage]:
            yield Stage()

    job, builder, program = a_job()
    monkeypatch.setattr(lowered, "NestLowering", Counted)
    session = Session()
    for each in (job, *(change(job) for change in changes)):
        lowered_stages(each, A_LOOK, program, builder, session)
    return count


@pytest.mark.parametrize("change", OTHERS.values(), ids=OTHERS)
def test_what_differs_is_lowered(change: Callable[[NestJob], NestJob], monkeypatch: pytest.MonkeyPatch) -> None:
    assert counted([change, change], monkeypatch) == 2, "and the second time it is known"


@pytest.mark.parametrize(
    "changes",
    [
        [with_two_outside(0), with_two_outside(1)],
        [with_part_in(memory) for memory in ("act", "acc")],
    ],
    ids=["which value is outside", "memories of parts"],
)
def test_what_differs_from_each_other_is_lowered(
    changes: Sequence[Callable[[NestJob], NestJob]], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert counted([*changes, *changes], monkeypatch) == 3


def test_immediates_of_an_instruction_that_comes_twice_must_be_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    def others(job: NestJob) -> NestJob:
        return with_step(immediates={**job.cover.steps[-1].immediates, "zero": 99})(job)

    def others_twice(job: NestJob) -> NestJob:
        return others(with_instruction_twice(job))

    assert counted([others], monkeypatch) == 1
    assert counted([with_instruction_twice, others_twice], monkeypatch) == 3


@pytest.mark.parametrize(
    "change",
    [
        lambda job: replace(job, within=((None, job),)),
        with_shape(pixel_blocks={(0, "p"): 1}),
        with_step(adding=machine("tiny8").format("add")),
    ],
    ids=["another nest in its tiles", "parameters of pixels", "products summed apart"],
)
def test_some_are_always_lowered(change: Callable[[NestJob], NestJob], monkeypatch: pytest.MonkeyPatch) -> None:
    """Their lowering follows from more than is compared."""
    assert counted([change, change], monkeypatch) == 3


def test_nests_that_look_otherwise_are_lowered(monkeypatch: pytest.MonkeyPatch, lowerings: list[str]) -> None:
    job, builder, program = a_job()
    session, lowerings[:] = Session(), []
    for look in ("one", "other", "one"):
        lowered_stages(job, CanonicalForm(look, ()), program, builder, session)
    assert lowerings == ["conv1", "conv1"]


def test_a_nest_that_reads_a_tensor_twice_is_not_like_one_that_reads_two() -> None:
    network = network_for(machine("tiny8"), 0)
    first = network.input(1, 16, 6, 6)
    second = network.rescale(first)
    output = network.add(network.add(second, second), network.add(first, second))
    for options in OPTIONS:
        assert_the_same(selection_of(network.program(output)), Session(), options)


def test_only_so_much_is_remembered(monkeypatch: pytest.MonkeyPatch, lowerings: list[str]) -> None:
    monkeypatch.setattr(lowered, "_LOWERED", replace(lowered._LOWERED, most=1))
    tile(selection_of(whole(convolutions(0))), OPTIONS[1])
    assert lowerings == ["conv0", "conv1", "conv2", "conv3"]

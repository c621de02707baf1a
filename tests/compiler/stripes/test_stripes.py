"""Which chains are cut: those that take fewer exact cycles in stripes, and no other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.compiler.models import random_inputs
from tests.compiler.nest.test_canonical_nests import renamed
from tests.compiler.pipelines import simulated
from tests.compiler.stripes.networks import before_stripes, block_model, joined_model
from tilewright.compiler.errors import FatalError
from tilewright.compiler.levels import NESTS
from tilewright.compiler.nest.nest import NestProgram
from tilewright.compiler.options import Options
from tilewright.compiler.pipeline import compile_model
from tilewright.compiler.search.finisher import exact_cycles
from tilewright.compiler.search.known_chains import KnownChains
from tilewright.compiler.session import Session
from tilewright.compiler.stripes.chain import chains
from tilewright.compiler.stripes.cut import Stripes, in_stripes
from tilewright.compiler.stripes.proposal import proposals
from tilewright.compiler.stripes.stripes import WORTH, MeasuredStripes, measured, stripes
from tilewright.isa.files.loader import load_machine
from tilewright.isa.language.operations import Op

SMALL = load_machine("dw16", ["memories.act.kib=32"])
MODEL = block_model(height=24, width=24, channels=96, stride=2)


def test_a_chain_whose_tensors_do_not_fit_takes_fewer_cycles_in_stripes() -> None:
    whole, cut = (compile_model(MODEL, SMALL, Options(effort=0, cuts_chains=cuts)) for cuts in (False, True))
    assert exact_cycles(cut) < exact_cycles(whole) * (1 - WORTH)
    inputs = random_inputs(MODEL, np.random.default_rng(2))
    expected = simulated(whole, inputs)
    assert all(np.array_equal(values, expected[name]) for name, values in simulated(cut, inputs).items())


def test_layers_are_those_of_the_network() -> None:
    whole, cut = (compile_model(MODEL, SMALL, Options(effort=0, cuts_chains=cuts)) for cuts in (False, True))
    assert [layer.name for layer in cut.layers] == [layer.name for layer in whole.layers]
    assert [layer.macs for layer in cut.layers] == [layer.macs for layer in whole.layers]
    assert "rows" in cut.metadata["stripes"] and "first, expand, depthwise, project" in cut.metadata["stripes"]


def test_what_fits_stays_as_it_is() -> None:
    machine = load_machine("dw16", ["memories.act.kib=512"])
    program = before_stripes(MODEL, machine)
    assert not any(proposals(chain, machine) for chain in chains(program, machine.lanes))
    assert stripes(program, machine, lambda nests: pytest.fail("nothing is measured")) is program


def test_the_fastest_that_is_measured_is_taken() -> None:
    program = before_stripes(MODEL, SMALL)
    (chain,) = chains(program, SMALL.lanes)
    tried: list[int] = []

    def measure(nests: object) -> int:
        tried.append(len(tried))
        return {0: 20_000, 2: 18_000}.get(tried[-1], 19_800)

    ((_, found),) = measured(program, SMALL, measure)
    assert (found.before, found.after, found.stripes) == (20_000, 18_000, proposals(chain, SMALL)[1].stripes)


def test_edges_are_copied_where_that_takes_fewest_cycles() -> None:
    program = before_stripes(MODEL, SMALL)

    def measure(nests: NestProgram) -> int:
        NESTS.require(nests)
        return 15_000 if any(nest.name.endswith(".edge") for nest in nests.nests) else 20_000

    ((_, found),) = measured(program, SMALL, measure)
    assert found.stripes is not None and found.stripes.copies_edges
    cut = stripes(program, SMALL, measure)
    assert "at a time with copied edges" in cut.remarks["stripes"] or "beside the next with" in cut.remarks["stripes"]


@pytest.mark.parametrize(("copied", "is_taken"), [(17_500, False), (17_400, True)])
def test_copies_of_edges_must_save_as_much_again(copied: int, is_taken: bool) -> None:
    """18,000 cycles with edges computed twice; 3 % of them are 540."""
    program = before_stripes(MODEL, SMALL)

    def measure(nests: NestProgram) -> int:
        if any(nest.name.endswith(".edge") for nest in nests.nests):
            return copied
        return 18_000 if any(nest.layer for nest in nests.nests) else 20_000

    ((_, found),) = measured(program, SMALL, measure)
    assert found.stripes is not None and found.stripes.copies_edges is is_taken


def test_edges_are_computed_again_where_no_instruction_copies() -> None:
    """Several instructions copy, such as a sum with nothing: all are left out that the chain does not need."""
    needed = "requantize", "depthwise", "fill"
    others = [name for name, of in SMALL.formats.items() if of.engine.name == "vec" and name not in needed]
    machine = load_machine("dw16", ["memories.act.kib=32", *(f"instructions.{name}=null" for name in others)])
    (chain,) = chains(before_stripes(MODEL, machine), machine.lanes)
    found = proposals(chain, machine)
    assert found and not any(proposal.stripes.copies_edges for proposal in found)


def test_what_was_measured_in_one_way_is_measured_again_in_another() -> None:
    program, session = before_stripes(MODEL, SMALL), Session()
    for cycles in (20_000, 30_000):
        ((_, found),) = measured(program, SMALL, lambda nests, cycles=cycles: cycles, session=session)  # type: ignore[misc]
        assert found == MeasuredStripes(cycles)


def beside_its_like(program: NestProgram, change: Callable[[NestProgram], NestProgram]) -> NestProgram:
    """A program, and behind it another one, which is the same under other names but for a change."""
    other = change(renamed(program))
    return replace(
        program,
        nests=program.nests + other.nests,
        buffers={**program.buffers, **other.buffers},
        constants={**program.constants, **other.constants},
        constant_types={**program.constant_types, **other.constant_types},
        inputs=program.inputs + other.inputs,
        outputs=program.outputs + other.outputs,
    )


def with_larger_numbers(program: NestProgram) -> NestProgram:
    return replace(program, constants={name: values + 1 for name, values in program.constants.items()})


def with_operands_exchanged(program: NestProgram) -> NestProgram:
    """The limit of the first nest is its first operand: it computes the same values, by another expression."""
    first, *others = program.nests
    assert first.expr.op is Op.MIN
    return replace(program, nests=(replace(first, expr=replace(first.expr, args=first.expr.args[::-1])), *others))


@pytest.mark.parametrize(("change", "count"), [(with_larger_numbers, 1), (with_operands_exchanged, 2)])
def test_chains_that_are_alike_are_measured_once(change: Callable[[NestProgram], NestProgram], count: int) -> None:
    program, asked = beside_its_like(before_stripes(MODEL, SMALL), change), list[str]()

    def recall(chain: NestProgram, find: Callable[[], MeasuredStripes]) -> MeasuredStripes:
        asked.append(chain.nests[0].name)
        return MeasuredStripes(20_000)

    found = list(measured(program, SMALL, lambda nests: 20_000, recall))
    assert len(found) == len(list(chains(program, SMALL.lanes))) == 2
    assert len(asked) == count


def test_stripes_that_save_little_are_not_worth_it() -> None:
    program = before_stripes(MODEL, SMALL)
    cycles = iter([20_000, *[19_700] * 10])
    assert stripes(program, SMALL, lambda nests: next(cycles)) is program


def test_proposals_leave_room_for_a_second_stripe() -> None:
    program = before_stripes(MODEL, SMALL)
    (chain,) = chains(program, SMALL.lanes)
    found = proposals(chain, SMALL)
    assert found == sorted(found, key=lambda each: each.cycles)
    for proposal in found:
        cut = in_stripes(chain, proposal.stripes)
        of_one = [buffer.shape for name, buffer in cut.buffers.items() if ".rows0" in name]
        words = [-(-shape[1] // SMALL.lanes) * shape[2] * shape[3] for shape in of_one]
        assert max(words) <= SMALL.memories["act"].depth // 2
    assert Stripes(chain.rows) not in {proposal.stripes for proposal in found}


def test_nothing_is_measured_whose_busiest_engine_takes_as_long() -> None:
    program = before_stripes(MODEL, SMALL)
    cycles = iter([1000])
    assert stripes(program, SMALL, lambda nests: next(cycles)) is program


def test_a_chain_that_reads_what_inputs_are_parts_of_is_measured_without_these() -> None:
    """Alone, it reads the joined tensor from one place."""
    program = before_stripes(joined_model(), SMALL)
    assert any(buffer.parts for buffer in program.buffers.values())
    seen: list[NestProgram] = []

    def measure(nests: NestProgram) -> int:
        NESTS.require(nests)
        seen.append(nests)
        return 10_000

    assert stripes(program, SMALL, measure) is program
    assert len(seen) > 1 and not any(buffer.parts for nests in seen for buffer in nests.buffers.values())


def test_what_was_found_is_not_measured_again(tmp_path: Path) -> None:
    options = Options(tuning=tmp_path / "mine.json")
    program = before_stripes(MODEL, SMALL)
    cycles = iter([20_000, 19_000, 18_000, *[19_500] * 10])
    first = stripes(program, SMALL, lambda nests: next(cycles), KnownChains(SMALL, options).recall)
    again = stripes(program, SMALL, lambda nests: pytest.fail("it is known"), KnownChains(SMALL, options).recall)
    assert first.nests == again.nests != program.nests
    other = load_machine("dw16", ["memories.act.kib=33"])
    with pytest.raises(FatalError, match="does not say whether first, expand, depthwise, project are better"):
        stripes(program, other, lambda nests: 0, KnownChains(other, replace(options, fails_on_miss=True)).recall)


def test_what_was_found_holds_for_a_network_that_is_trained_again(tmp_path: Path) -> None:
    options = Options(tuning=tmp_path / "mine.json")
    other = block_model(height=24, width=24, channels=96, stride=2, seed=1)
    programs = [before_stripes(model, SMALL) for model in (MODEL, other)]
    cycles = iter([20_000, 19_000, 18_000, *[19_500] * 10])
    first = stripes(programs[0], SMALL, lambda nests: next(cycles), KnownChains(SMALL, options).recall)
    again = stripes(programs[1], SMALL, lambda nests: pytest.fail("it is known"), KnownChains(SMALL, options).recall)
    assert first.remarks == again.remarks != programs[0].remarks


def test_what_is_kept_of_a_chain_names_its_tensors_in_order() -> None:
    """What is kept is found by this order, so that another process has to have the same."""
    kept: list[NestProgram] = []

    def recall(chain: NestProgram, find: Callable[[], MeasuredStripes]) -> MeasuredStripes:
        kept.append(chain)
        return MeasuredStripes(1)

    stripes(before_stripes(MODEL, SMALL), SMALL, lambda nests: 1, recall)

    (chain,) = kept
    results = [nest.result.tensor for nest in chain.nests]
    assert len(results) == 4 and list(chain.buffers)[-4:] == results

"""Engines in machine files: names of their own, templates said or usual, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.renamed import renamed_text
from tilewright.isa.errors import IsaError
from tilewright.isa.files.loader import load_machine, load_machine_text
from tilewright.isa.machine.engine import Direction, Template


def test_engines_are_in_the_order_of_the_file_and_know_their_numbers() -> None:
    engines = load_machine("base16").engines

    assert [(engine.name, engine.number) for engine in engines.values()] == [
        ("load", 0),
        ("mma", 1),
        ("vec", 2),
        ("store", 3),
    ]
    assert [engine.template for engine in engines.values()] == [
        Template.DMA,
        Template.SYSTOLIC,
        Template.VECTOR,
        Template.DMA,
    ]


def test_finds_engines_by_what_they_are() -> None:
    machine = load_machine("tiny8")

    assert [engine.name for engine in machine.of(Template.DMA)] == ["load", "store"]
    assert [engine.name for direction in Direction for engine in machine.dma(direction)] == ["load", "store"]
    assert (machine.array.rows, machine.lanes) == (8, 8)


def test_an_engine_of_any_name_says_its_template() -> None:
    machine = load_machine_text(renamed_text("tiny8"), "other")

    assert [(engine.name, engine.template.value) for engine in machine.engines.values()] == [
        ("fill", "dma"),
        ("grid", "systolic"),
        ("lanes_of_it", "vector"),
        ("drain", "dma"),
    ]
    assert machine.format("requantize").engine is machine.engines["lanes_of_it"]


@pytest.mark.parametrize(
    ("overlay", "complaint"),
    [
        (
            "engines: {tpu: {queue: 1, reads: [act], writes: [act]}}",
            "engines.tpu: the key 'template' is missing; expected dma, systolic, vector",
        ),
        (
            "engines: {vek: {queue: 1, reads: [act], writes: [act]}}",
            "engines.vek: the key 'template' is missing (did you mean 'vec'?); expected dma, systolic, vector",
        ),
        (
            "engines: {vec: {template: vectr}}",
            "engines.vec.template: unknown template 'vectr' (did you mean 'vector'?); expected dma, systolic, vector",
        ),
        (
            "engines: {out: {template: dma, queue: 1, reads: [act], writes: [dram]}}",
            "engines: expected one dma engine that writes dram on port 0, not 2: store, out; beats of one port cannot "
            "be mixed: give each a `port` of its own, and the machine as many dram.ports",
        ),
        ("engines: {store: null}", "engines: the key 'store' is missing: a dma engine that writes dram"),
        ("engines: {load: {reads: [act]}}", "engines.load.reads: the load engine reads exactly [dram]"),
        (
            "engines: {store: {reads: [act, dram]}}",
            "engines.store.reads: the store engine's reads are on chip, not dram",
        ),
        (
            "engines: {mma: {contexts: 3}}",
            "engines.mma: unknown key 'contexts'; expected template, queue, rows, cols, reads, writes",
        ),
    ],
)
def test_refuses(tmp_path: Path, overlay: str, complaint: str) -> None:
    file = tmp_path / "m.yaml"
    file.write_text("extends: base16\n" + overlay)

    with pytest.raises(IsaError) as error:
        load_machine(str(file))

    assert any(line.partition(": ")[2] == complaint for line in str(error.value).splitlines()), str(error.value)

"""Sections of the page: another program beside this one, and what changes of the machine would do."""

from __future__ import annotations

from pathlib import Path

import tilewright as tw
from tests.digits import MODEL
from tests.tilewright.command_line import Command
from tilewright.profiles.page.sections import compared, what_if_section
from tilewright.profiles.what_if import Bound, Changed, WhatIf


def test_two_programs_stand_beside_each_other_with_a_bar_for_each_difference() -> None:
    one, two = (tw.compile(str(MODEL), isa, effort=0).run_profile() for isa in ("base16", "tiny8"))
    found = compared(one, two, "<one>", "two")
    assert (found.name, found.title) == ("against", "Against two")
    assert "&lt;one&gt; on base16" in found.html and "<one>" not in found.html
    total = f'<td class="number">{one.cycles:,}</td><td class="number">{two.cycles:,}</td>'
    assert total in found.html and f"{one.cycles - two.cycles:+,}" in found.html
    assert all(f"<td>{layer.name}</td>" in found.html for layer in one.layers)
    assert 'class="bar fewer"' in found.html


def test_what_if_has_bounds_and_what_compiling_again_gives() -> None:
    bounds = WhatIf(1000, 990, (Bound("bus=inf", 800, 0.2),))
    changes = [Changed("dram.bus_bytes=32", 1100, ""), Changed("memories.act.kib=1", None, "does <not> fit")]
    html = what_if_section(bounds, changes, 1000).html
    assert "-200 (20.0 % fewer)" in html and "+100 (10.0 % more)" in html and "takes 990 cycles" in html
    assert "<td></td><td>does &lt;not&gt; fit</td>" in html  # no cycles, thus no difference
    assert "Compiled again" not in what_if_section(bounds, (), 1000).html


def test_profile_puts_both_on_the_page(tilewright: Command, tmp_path: Path) -> None:
    net, page = tmp_path / "net.npu", tmp_path / "net.html"
    assert tilewright("compile", MODEL, "--isa", "tiny8", "--effort", "0", "-o", net).code == 0
    assert tilewright("profile", net, "--against", net, "--html", page).code == 0
    assert '<h2 id="against">' in page.read_text() and "--model" in page.read_text()
    asked = ("--what-if", "latency=0", "--what-if", "dram.bus_bytes=16")
    ended = tilewright("profile", MODEL, "--isa", "tiny8", *asked, "--html", page)
    assert ended.code == 0 and "Compiled again, with" in ended.out
    assert '<h2 id="what-if">' in page.read_text() and "Flatten, Gemm → 1×10" in page.read_text()


def test_a_setting_takes_the_model(tilewright: Command, tmp_path: Path) -> None:
    net = tmp_path / "net.npu"
    assert tilewright("compile", MODEL, "--isa", "tiny8", "--effort", "0", "-o", net).code == 0
    ended = tilewright("profile", net, "--what-if", "memories.act.kib=64")
    assert (ended.code, ended.err) == (
        1,
        "error: --what-if memories.act.kib=64 compiles again: give the model in place of the program, "
        "tilewright profile NET.onnx --isa MACHINE\n",
    )
    ended = tilewright("profile", MODEL, "--isa", "tiny8", "--model", MODEL)
    assert ended.code == 2 and "--model" in ended.err

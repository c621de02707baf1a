"""The page: one file without a network, the same bytes each time, and right in a real browser."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tests.tilewright.command_line import Command
from tilewright.api import compile  # noqa: A004
from tilewright.isa.program.partitioned import HostNode, HostSegment, NpuSegment, Partitioned
from tilewright.profiles.lives import lives
from tilewright.profiles.page.hosts import HostPart, host_parts
from tilewright.profiles.page.page import page
from tilewright.program import Program

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")

QUESTIONS = """
<script>
const faults = [];
window.addEventListener("error", (event) => faults.push(String(event.message)));
const complain = console.error;
console.error = (...words) => { faults.push(words.join(" ")); complain(...words); };
function answer() {
  const time = Bokeh.documents.map((page) => page.get_model_by_name("time")).find((figure) => figure);
  const link = document.querySelector("a[data-first]:not([data-first='0'])");
  const before = [time.x_range.start, time.x_range.end];
  link.click();
  const table = document.querySelector("table.sortable");
  const cycles = () => Array.from(table.tBodies[0].rows, (row) => Number(row.cells[1].dataset.value));
  const unsorted = cycles();
  table.querySelectorAll("th button")[1].click();
  const answers = {
    faults, before, after: [time.x_range.start, time.x_range.end],
    link: [Number(link.dataset.first), Number(link.dataset.last)],
    unsorted, sorted: cycles(),
    charts: document.querySelectorAll("[data-root-id]").length,
    drawn: time.renderers[0].data_source.get_length(),
    fits: document.documentElement.scrollWidth <= window.innerWidth,
  };
  const place = document.createElement("pre");
  place.id = "answers";
  place.textContent = JSON.stringify(answers);
  document.body.append(place);
}
window.addEventListener("load", () => setTimeout(answer, 3000));
</script>
"""


@pytest.fixture(scope="module")
def program() -> Program:
    return compile("programs/digits/digits_int8.onnx", "base16")


@pytest.fixture(scope="module")
def text(program: Program) -> str:
    return page("digits", program.run_profile(), program.runs())


def test_needs_no_network(text: str) -> None:
    own = re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)  # Bokeh's script names its own home page
    assert re.findall(r'https?://|<link|\bsrc=(?!"data:)|@import|url\(', own) == []
    assert len(text) < 5_000_000


def test_the_same_profile_gives_the_same_bytes(program: Program, text: str) -> None:
    assert page("digits", program.run_profile(), program.runs()) == text


def test_figures_are_those_of_the_profile(program: Program, text: str) -> None:
    profile = program.run_profile()
    body = text[text.index('<table class="sortable">') :]
    rows = re.findall(r"<tr><td><a [^>]*>(.*?)</a></td>(.*?)</tr>", body)
    assert [html.unescape(name) for name, _ in rows] == [layer.name for layer in profile.layers]
    for (_, cells), layer in zip(rows, profile.layers, strict=True):
        values = [float(value) for value in re.findall(r'data-value="([^"]*)"', cells)]
        dram = layer.dram_bytes.moved
        assert values[:4] == [layer.cycles, layer.utilisation, layer.macs, dram]
        assert values[4:] == [round(lost) for lost in layer.loss.values()]


def test_names_are_text_and_never_part_of_the_page(program: Program) -> None:
    profile = program.run_profile()
    first, *others = profile.layers
    profile = replace(profile, layers=(replace(first, name="<script>alert(1)</script>"), *others))
    made = page("<b>title</b>", profile, program.runs())
    assert "<b>title" not in made and "<script>alert" not in made


def test_every_life_is_inside_its_memory_and_the_run(program: Program) -> None:
    (run,) = program.runs()
    found = lives(run)
    assert set(found) == set(run.program.machine.memories)
    for name, own in found.items():
        depth = run.program.machine.memories[name].depth
        assert all(0 <= life.first < life.end <= depth for life in own)
        assert all(0 <= life.born < life.dead <= run.counters.cycles for life in own)
    assert sum(map(len, found.values())) > 0


def test_a_network_on_the_host_alone_has_a_page(program: Program) -> None:
    profile = replace(program.run_profile(), cycles=0, layers=())
    assert "nothing runs on the machine" in page("nothing", profile, ())


def test_what_the_host_computes_stands_with_its_reason(program: Program) -> None:
    nodes = (HostNode("soft<max", "Softmax", "no instruction computes it", 128), HostNode("cast", "Cast", "so", 0))
    found = host_parts(
        Partitioned(
            program.machine, (HostSegment(b"", (), (), nodes), *(NpuSegment(of) for of in program.programs)), (), ()
        )
    )
    assert found == (HostPart(0, nodes),)
    made = page("digits", program.run_profile(), program.runs(), hosts=found)
    card = made[made.index('<h2 id="host">') :]
    assert "2 nodes run on the host" in card
    assert "<td>soft&lt;max</td><td>Softmax</td><td>no instruction computes it</td>" in card
    graph = made[made.index('<svg class="graph"') :]
    boxes = re.findall(r'<rect (?:class="(\w+)" )?x="\d+" y="(\d+)"', graph[: graph.index("</svg>")])
    assert [kind for kind, _ in boxes].count("host") == 1
    assert min(boxes, key=lambda box: int(box[1]))[0] == "host"  # it is above all that the machine computes
    assert "host: Softmax, Cast (2 nodes)" in graph
    assert '<a href="#host">' not in page("digits", program.run_profile(), program.runs())


def test_notes_stand_below_the_headline(program: Program) -> None:
    made = page("digits", program.run_profile(), program.runs(), notes=("5 < 6 mW",))
    assert "<p>5 &lt; 6 mW</p>" in made


def test_what_the_compiler_remarks_is_shown(program: Program) -> None:
    (run,) = program.runs()
    said = replace(run.program, metadata={**run.program.metadata, "stripes": "4 rows < all"})
    made = page("digits", program.run_profile(), [replace(run, program=said)])
    assert '<h2 id="remarks">' in made and "<td>stripes</td><td>4 rows &lt; all</td>" in made
    assert '<h2 id="remarks">' not in page("digits", program.run_profile(), program.runs())


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="chromium is not installed")
def test_works_in_a_browser(program: Program, text: str, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(text.replace("<head>", f"<head>{QUESTIONS}", 1))
    flags = (
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--virtual-time-budget=15000",
        f"--user-data-dir={tmp_path}/c",
    )
    ended = subprocess.run(
        [str(BROWSER), *flags, "--dump-dom", file.as_uri()], capture_output=True, text=True, timeout=240, check=True
    )
    found = re.search(r'<pre id="answers">(.*?)</pre>', ended.stdout, re.DOTALL)
    assert found is not None, ended.stderr[-2000:]
    answers = json.loads(html.unescape(found[1]))
    assert answers["faults"] == []
    assert answers["before"] == [0, program.run_profile().cycles]
    first, last = answers["link"]
    assert answers["after"][0] <= first < last <= answers["after"][1] < 1.1 * last + 10
    assert answers["sorted"] == sorted(answers["unsorted"], reverse=True) != answers["unsorted"]
    assert answers["drawn"] == len(program.binary.instructions)
    assert answers["charts"] >= 4 and answers["fits"]


def test_the_command_writes_it(tilewright: Command, program: Program, tmp_path: Path) -> None:
    program.save(tmp_path / "net.npu")
    ended = tilewright("profile", tmp_path / "net.npu", "--html", tmp_path / "net.html")
    assert ended.code == 0 and "Layers on" in ended.out
    assert (tmp_path / "net.html").read_text() == page("net.npu on base16", program.run_profile(), program.runs())

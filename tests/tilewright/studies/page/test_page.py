"""The page and the table of a study: one file without a network, the same bytes each time, right in a real browser."""

from __future__ import annotations

import csv
import html
import io
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.codesign.explore.fake_worker import FakePool
from tilewright.codesign.errors import StudyError
from tilewright.codesign.explore.run import run
from tilewright.codesign.explore.space_file import read_space
from tilewright.codesign.explore.study import Study
from tilewright.codesign.explore.table import study_csv
from tilewright.studies.page.page import study_page

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")

QUESTIONS = """
<script>
const faults = [];
window.addEventListener("error", (event) => faults.push(String(event.message)));
function answer() {
  const model = (name) => Bokeh.documents.map((page) => page.get_model_by_name(name)).find((found) => found);
  const best = () => model("points").data.colour.flatMap((colour, at) => (colour === "#c8553d" ? [at] : []));
  const before = best();
  const y = document.getElementById("y");
  y.value = "flip_flops";
  y.dispatchEvent(new Event("change"));
  const link = document.querySelector("a[data-point='2']");
  link.focus();
  const isFocused = document.activeElement === link;
  link.click();
  const copy = document.querySelector(".command button");
  copy.focus();
  copy.click();
  const copied = [document.activeElement === copy, copy.textContent, String(getSelection())];
  document.querySelector("a[data-point='3']").click();
  const links = Array.from(document.querySelectorAll("#chosen a"), (each) => each.getAttribute("href"));
  link.click();
  const table = document.querySelector("table.sortable");
  table.querySelectorAll("th button")[2].click();
  const cells = Array.from(table.tBodies[0].rows, (row) => Number(row.cells[2].dataset.value));
  const answers = {
    faults, before, after: best(), label: model("front").left[0].axis_label, cells,
    field: model("front").renderers[0].glyph.y.field, selected: Array.from(model("points").selected.indices),
    chosen: document.getElementById("chosen").innerText, isFocused, copied, links,
    charts: document.querySelectorAll("[data-root-id]").length,
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
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    folder = tmp_path_factory.mktemp("study")
    (folder / "one.onnx").write_bytes(b"")
    (folder / "space.yaml").write_text(
        "base: tiny8\nkeys: {memories.act.kib: [8, 16, 32, 64], engines.vec.queue: [2, 4]}\n"
        "networks: {<b>one: one.onnx}\nconstraints: [memories.act.kib < 64 or area_mm2 < 9.03]\n"
        "objectives: [cycles, area_mm2]\n"
    )
    run(read_space(folder / "space.yaml"), folder / "s", make_pool=FakePool)
    return Study(folder / "s")


def test_needs_no_network(study: Study) -> None:
    own = re.sub(r"<script>.*?</script>", "", study_page(study), flags=re.DOTALL)  # Bokeh's names its own home page
    assert re.findall(r"https?://|<link|\bsrc=|@import|url\(", own) == []


def test_the_same_study_gives_the_same_bytes(study: Study) -> None:
    assert study_page(study) == study_page(Study(study.folder))


def test_names_are_text_and_never_part_of_the_page(study: Study) -> None:
    assert "<b>one" not in study_page(study)


def test_what_is_not_measured_is_told(study: Study) -> None:
    assert study.counts() == {"measured": 7, "excluded": 1}
    assert "<td>engines.vec.queue 4 → 2</td>" not in study_page(study)
    assert "<td>the base machine</td><td>outside the constraints</td>" in study_page(study)


def test_the_table_has_every_point(study: Study) -> None:
    rows = list(csv.DictReader(io.StringIO(study_csv(study))))
    assert len(rows) == 8 and rows[-1]["state"] == "excluded"
    first = rows[0]
    assert (first["memories.act.kib"], first["engines.vec.queue"], first["cycles"]) == ("8", "2", "12498")
    assert first["<b>one cycles"] == "12498" and first["clock_mhz"] == ""


def test_the_best_is_within_its_limits(study: Study) -> None:
    assert study.best("area_mm2", cycles=6000).values == (32, 2)
    with pytest.raises(StudyError, match=r"no measured point is within area_mm2=1$"):
        study.best("cycles", area_mm2=1)
    with pytest.raises(StudyError, match=r"no figure 'cicles' \(did you mean 'cycles'\?\)"):
        study.best("cicles")


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="chromium is not installed")
def test_works_in_a_browser(study: Study, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    profiles = {(study.measured[3].label, "<b>one"): "page-profiles/<3>.html"}
    file.write_text(study_page(study, profiles).replace("<head>", f"<head>{QUESTIONS}", 1))
    flags = ("--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=15000", "--dump-dom")
    command = [str(BROWSER), *flags, f"--user-data-dir={tmp_path}/c", file.as_uri()]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
    found = re.search(r'<pre id="answers">(.*?)</pre>', ended.stdout, re.DOTALL)
    assert found is not None, ended.stderr[-2000:]
    answers = json.loads(html.unescape(found[1]))
    assert answers["faults"] == [] and answers["charts"] == 2 and answers["fits"]
    measured = study.measured
    assert answers["before"] == [at for at, entry in enumerate(measured) if entry in study.front]
    in_others = study.front_in(["cycles", "flip_flops"])
    assert answers["after"] == [at for at, entry in enumerate(measured) if entry in in_others] != answers["before"]
    assert answers["label"] == answers["field"] == "flip_flops"
    assert answers["selected"] == [2] and answers["isFocused"]
    assert study.difference(measured[2]) in answers["chosen"] and "<b>one" in answers["chosen"]
    command = f"tilewright explore profile {study.folder} '{study.measured[2].label}' --html profile.html"
    assert answers["copied"] in ([True, "Copied", command], [True, "Marked", command])
    assert answers["links"] == ["page-profiles/<3>.html"]
    assert answers["cells"] == sorted(answers["cells"])

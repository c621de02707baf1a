"""The network's graph in the page: its edges are those of the network, and no box lies on another."""

from __future__ import annotations

import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest

import tilewright as tw
from tests.digits import MODEL
from tilewright.errors import InputError
from tilewright.profiles.flows import INPUT, Flow, flows
from tilewright.profiles.page.graph import _repeats, network_graph, places
from tilewright.profiles.page.layout import HEIGHT
from tilewright.profiles.page.operators import operators_of
from tilewright.profiles.page.repeats import Repeat, repeats


def test_a_chain_goes_straight_down() -> None:
    assert places(3, [(0, 1), (1, 2)]) == [(0, 0), (1, 0), (2, 0)]


def test_branches_stand_beside_each_other_and_meet_below() -> None:
    assert places(4, [(0, 1), (0, 2), (1, 3), (2, 3)]) == [(0, 0), (1, 0), (1, 1), (2, 1)]


def test_no_two_layers_have_one_place() -> None:
    found = places(9, [(0, reader) for reader in range(1, 8)])
    assert len(set(found)) == 9


def test_a_layer_is_below_all_that_it_reads() -> None:
    edges = [(0, 1), (1, 2), (0, 2), (2, 3), (1, 3)]
    found = places(4, edges)
    assert all(found[writer][0] < found[reader][0] for writer, reader in edges)


@pytest.mark.parametrize("settings", [[], ["memories.act.kib=1"]])
def test_flows_of_digits_are_its_edges_wherever_the_tensors_lie(settings: list[str]) -> None:
    program = tw.compile(str(MODEL), "tiny8", settings, effort=0).binary
    names = [layer.name for layer in program.layers]
    found = {("input" if one.writer == INPUT else names[one.writer], names[one.reader]) for one in flows(program)}
    assert found == {
        ("input", "conv1"),
        ("conv1", "conv2"),
        ("conv2", "block.conv1"),
        ("conv2", "block.conv2"),
        ("block.conv1", "block.conv2"),
        ("block.conv2", "maxpool"),
        ("maxpool", "average"),
        ("average", "dense"),
    }
    assert any(one.is_dram and one.writer != INPUT for one in flows(program)) == bool(settings)


def test_says_what_a_flow_is() -> None:
    assert Flow(0, 1, "act", 1024, False).text == "act, 1,024 words"
    assert Flow(0, 1, "workspace", 1024, True).text == "DRAM, 1,024 bytes"


def test_draws_a_box_a_layer_and_an_edge_a_pair() -> None:
    program = tw.compile(str(MODEL), "tiny8", effort=0)
    profile = program.run_profile()
    profile = replace(profile, layers=tuple(replace(one, name=f"<{one.name}>") for one in profile.layers))
    spans = [(number, number + 1) for number in range(7)]
    text = network_graph(profile, program.runs(), spans)
    root = ElementTree.fromstring(text)
    assert len(root.findall(".//a")) == 7 and len(root.findall(".//path")) == 7
    assert "&lt;conv1&gt;" in text and "<conv1>" not in text
    assert re.findall(r'data-first="(\d+)"', text) == [str(number) for number in range(7)]


def boxes_of(text: str) -> tuple[list[tuple[float, float, float]], list[list[float]]]:
    """Each box by its left, its top and its width; and the numbers of each edge's path."""
    root = ElementTree.fromstring(text)
    frames = [box for box in root.findall(".//rect") if box.get("class") is None]
    boxes = [(float(box.attrib["x"]), float(box.attrib["y"]), float(box.attrib["width"])) for box in frames]
    ways = [path.attrib["d"] for path in root.findall(".//path")]
    return boxes, [[float(each) for each in re.findall(r"-?[\d.]+", way)] for way in ways]


def test_an_edge_goes_from_a_box_to_a_box() -> None:
    """Digits has seven rows in strips of three: four edges go straight down, two across, one beside a box."""
    program = tw.compile(str(MODEL), "tiny8", effort=0)
    boxes, ways = boxes_of(network_graph(program.run_profile(), program.runs(), [(0, 1)] * 7))
    assert len({x for x, _, _ in boxes}) == 3
    below = {(x + width / 2, y + HEIGHT) for x, y, width in boxes}
    above = {(x + width / 2, y) for x, y, width in boxes}
    right = {(x + width, y + HEIGHT / 2) for x, y, width in boxes}
    left = {(x, y + HEIGHT / 2) for x, y, _ in boxes}
    ends = [((way[0], way[1]), (way[-2], way[-1])) for way in ways]
    assert [(one in below and two in above) for one, two in ends].count(True) == 4
    assert all((one in below and two in above) or (one in right and two in left | right) for one, two in ends)


def test_says_operators_and_shapes_where_the_model_is_known() -> None:
    program = tw.compile(str(MODEL), "tiny8", effort=0)
    profile = program.run_profile()
    lines = operators_of(MODEL, profile.layers)
    assert (lines[3], lines[-1]) == ("Conv, Add → 1×32×4×4", "Flatten, Gemm → 1×10")
    assert "Conv, Add → 1×32×4×4</text>" in network_graph(profile, program.runs(), [(0, 1)] * 7, operators=lines)


def test_a_model_of_another_program_is_refused() -> None:
    other = [replace(layer, nodes=("nobody",)) for layer in tw.compile(str(MODEL), "tiny8").run_profile().layers[:1]]
    with pytest.raises(InputError, match="has no node 'nobody'; expected the model of this program"):
        operators_of(MODEL, other)


def test_repeated_blocks_are_shown_once_and_all_layers_on_demand() -> None:
    """Seven layers as if they were a, bc, bc, bc: the first box stays, and one stands for the six behind it."""
    program = tw.compile(str(MODEL), "tiny8", effort=0)
    profile = program.run_profile()
    kinds = ["a", *["b", "c"] * 3]
    like = tuple(replace(one, macs=0, nodes=("n",)) for one in profile.layers)
    chain = {(at, at + 1): [Flow(at, at + 1, "act", 1, False)] for at in range(6)}
    assert _repeats(like, kinds, chain, range(7)) == [Repeat(0, 1, 1), Repeat(1, 2, 3)]


def test_what_reads_from_elsewhere_is_not_alike() -> None:
    program = tw.compile(str(MODEL), "tiny8", effort=0)
    like = tuple(replace(one, macs=0, nodes=("n",)) for one in program.run_profile().layers)
    chain = {(at, at + 1): [Flow(at, at + 1, "act", 1, False)] for at in range(6)}
    skip = {**chain, (2, 4): [Flow(2, 4, "act", 1, False)]}
    assert _repeats(like, ["a", *["b", "c"] * 3], skip, range(7))[1:] != [Repeat(1, 2, 3)]


def test_repeats_cover_most() -> None:
    assert repeats("abcbcbcd") == [Repeat(0, 1, 1), Repeat(1, 2, 3), Repeat(7, 1, 1)]
    assert [one.layers for one in repeats("abab")] == [range(0, 4)]
    assert repeats("aab") == [Repeat(0, 1, 1), Repeat(1, 1, 1), Repeat(2, 1, 1)]
    assert repeats("") == []

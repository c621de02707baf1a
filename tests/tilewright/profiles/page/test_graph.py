"""The network's graph in the page: its edges are those of the network, and no box lies on another."""

from __future__ import annotations

import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest

import tilewright as tw
from tests.digits import MODEL
from tilewright.profiles.flows import INPUT, Flow, flows
from tilewright.profiles.page.graph import network_graph, places


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


def test_an_edge_goes_from_the_bottom_of_a_box_to_the_top_of_the_next() -> None:
    program = tw.compile(str(MODEL), "tiny8", effort=0)
    root = ElementTree.fromstring(network_graph(program.run_profile(), program.runs(), [(0, 1)] * 7))
    boxes = [box for box in root.findall(".//rect") if box.get("class") is None]
    tops = {float(box.attrib["y"]) for box in boxes}
    bottoms = {float(box.attrib["y"]) + float(box.attrib["height"]) for box in boxes}
    straight = [path.attrib["d"] for path in root.findall(".//path")]
    ends = [re.findall(r"-?[\d.]+", way) for way in straight]
    down = [way for way in ends if float(way[0]) == float(way[-2])]
    assert len(down) >= 4
    assert all(float(way[1]) in bottoms and float(way[-1]) in tops for way in down if float(way[2]) == float(way[0]))

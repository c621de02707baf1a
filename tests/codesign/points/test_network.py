"""A network that is read once: its hash, weights in other files, and what is kept for the next machine."""

from __future__ import annotations

import hashlib
import pickle
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.compiler.models import conv_model
from tests.digits import MODEL
from tilewright.codesign.points.evaluate import NetworkFigures, evaluate
from tilewright.codesign.points.network import Network, read_network
from tilewright.compiler.errors import CompileError
from tilewright.compiler.partition import source
from tilewright.isa.files.loader import load_machine


def test_hash_is_of_the_bytes_and_of_open_sizes() -> None:
    content = MODEL.read_bytes()
    assert read_network(MODEL).hash == hashlib.sha256(content).hexdigest()
    assert read_network(MODEL, {"x": (1, 2)}).hash not in (
        read_network(MODEL).hash,
        read_network(MODEL, {"x": (2,)}).hash,
    )


def test_weights_in_another_file_are_part_of_it(tmp_path: Path) -> None:
    model = conv_model(np.random.default_rng(0), 8, 8)
    inside = tmp_path / "inside.onnx"
    onnx.save(model, inside)
    onnx.save(model, tmp_path / "outside.onnx", save_as_external_data=True, size_threshold=0, location="weights")

    outside = read_network(tmp_path / "outside.onnx")
    (tmp_path / "weights").unlink()

    one, two = (evaluate(network, load_machine("tiny8"), 0) for network in (read_network(inside), outside))
    assert isinstance(one, NetworkFigures) and isinstance(two, NetworkFigures) and one.cycles == two.cycles
    with pytest.raises(CompileError, match="outside.onnx: weights in another file cannot be read"):
        read_network(tmp_path / "outside.onnx")


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(CompileError, match="nowhere.onnx: cannot be read: No such file"):
        read_network("nowhere.onnx")


def test_is_imported_once_for_all_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 0

    def read_onnx(*arguments: object) -> object:
        nonlocal count
        count += 1
        return original(*arguments)  # type: ignore[arg-type]

    original = source.read_onnx
    monkeypatch.setattr(source, "read_onnx", read_onnx)
    network = read_network(MODEL)
    for isa in ("tiny8", "rect"):
        evaluate(network, load_machine(isa), 0)
    assert count == 1


def test_another_process_gets_it_without_what_is_kept() -> None:
    network = read_network(MODEL)
    evaluate(network, load_machine("tiny8"), 0)
    copy: Network = pickle.loads(pickle.dumps(network))
    assert copy == network and copy.session is not network.session
    assert len(pickle.dumps(copy)) < 2 * len(network.content)

"""Trials that were made before, kept so that a question that was interrupted goes on where it stopped."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path

from tilewright.codesign.advise.changes import Change
from tilewright.codesign.advise.trials import Bench, LayerCycles, Make, Trial
from tilewright.codesign.points.evaluate import outcome_from_json
from tilewright.codesign.points.priced import MachineFigures
from tilewright.codesign.version import version
from tilewright.isa.folders.cache import kept

FORMAT = 4
"""Of the files: another number for another form."""


def trial_maker(folder: Path | None) -> Make:
    """What makes trials, and with a folder keeps them there."""
    return _made if folder is None else partial(_kept, folder)


def _made(bench: Bench, change: Change | None) -> Trial:
    return bench.trial(change)


def _kept(folder: Path, bench: Bench, change: Change | None) -> Trial:
    return kept_trial(bench, change, folder, lambda: bench.trial(change))


def kept_trial(bench: Bench, change: Change | None, folder: Path, make: Callable[[], Trial]) -> Trial:
    """What `make` gives, which is called only where no file of the folder has it: by the same version of the code."""

    def write(empty: Path) -> Path:
        (empty / "trial").write_text(json.dumps(_facts(make())))
        return empty / "trial"

    return _trial(change, kept(_file(bench, change, folder), write).read_text())


def known_trial(bench: Bench, change: Change | None, folder: Path) -> Trial | None:
    """The trial that a file of the folder has."""
    file = _file(bench, change, folder)
    return _trial(change, file.read_text()) if file.is_file() else None


def _file(bench: Bench, change: Change | None, folder: Path) -> Path:
    key = _key(bench, change)
    return folder / key[:2] / f"{key}.json"


def _key(bench: Bench, change: Change | None) -> str:
    over = None if change is None else json.dumps(change.over, sort_keys=True)
    networks = [(network.name, network.hash) for network in bench.networks]
    name = "" if change is None else change.name  # it is part of the changed machine's
    facts = (FORMAT, version(), bench.machine.name, bench.machine.text, name, over, networks)
    return hashlib.sha256(repr((*facts, bench.effort, bench.with_price, bench.with_clock)).encode()).hexdigest()


def _facts(trial: Trial) -> dict[str, object]:
    return {
        "figures": None if trial.figures is None else trial.figures.as_json(),
        "outcomes": [outcome.as_json() for outcome in trial.outcomes],
        "layers": {
            network: {name: asdict(layer) for name, layer in layers.items()} for network, layers in trial.layers.items()
        },
        "why_not": trial.why_not,
        "places": trial.places,
        "longest": trial.longest,
        "values": trial.values,
    }


def _trial(change: Change | None, text: str) -> Trial:
    facts = json.loads(text)
    layers = {
        network: {name: LayerCycles(**layer) for name, layer in of.items()} for network, of in facts["layers"].items()
    }
    return Trial(
        change,
        None if facts["figures"] is None else MachineFigures.from_json(facts["figures"]),
        tuple(outcome_from_json(outcome) for outcome in facts["outcomes"]),
        layers,
        facts["why_not"],
        facts["places"],
        facts["longest"],
        facts["values"],
    )

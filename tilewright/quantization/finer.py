"""Makes curves that lose too much finer: in pieces, as many as help, and only where their result gains from it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from tilewright.quantization.attempt import CalibratedNetwork
from tilewright.quantization.noise import HURTS_DB, TOO_MUCH_DB, LayerNoise, or_full_scale
from tilewright.quantization.pieces import MOST_PIECES, Curve, Pieces, curve_of, in_pieces

WORTH_DB = 1.0
"""One more piece, or one more part of what is summed, raises the ratio of the curve's result by so much."""

MOST_CURVES = 8
"""So many curves of a network are tried."""

TRIED_SAMPLES = 16
"""So many samples say how many pieces are best; each try quantises and runs the whole network."""


@dataclass(frozen=True, slots=True)
class InPieces:
    """A curve in pieces, and by how much its ratio gains; `layer` is what it was before."""

    layer: LayerNoise
    count: int
    gain_db: float

    @property
    def name(self) -> str:
        return self.layer.name


def made_finer(network: CalibratedNetwork, kept: Set[str]) -> tuple[CalibratedNetwork, tuple[InPieces, ...]]:
    """The network with such curves in pieces; `kept` nodes are float and stay as they are."""
    found: list[InPieces] = []
    of_steps = {tensor for tensors in network.model.alike.values() for tensor in tensors}
    own = {tensor for node in network.model.prepared.graph.node for tensor in node.output} - of_steps
    tried: set[str] = set()
    layers: Sequence[LayerNoise] | None = None
    while len(tried) < MOST_CURVES:
        layers = network.quantized_but(kept)[1] if layers is None else layers
        left = [each for each in layers if each.tensor in own - tried and kept.isdisjoint(each.nodes)]
        curves = ((each, curve_of(each, network.model.prepared, network.ranges)) for each in _worst_first(left))
        layer, curve = next(((each, curve) for each, curve in curves if curve is not None), (None, None))
        if layer is None or curve is None:
            break
        tried.add(layer.tensor)
        best = _with_best_count(network, curve, layer, kept)
        if best is not None:
            network, layers, pieces = best
            found.append(pieces)
    return network, tuple(found)


def as_one(layers: Sequence[LayerNoise], pieces: Sequence[InPieces], tensors: Set[str]) -> tuple[LayerNoise, ...]:
    """The layers that make these tensors, which are the network's own; a curve in pieces is one of them."""
    ratios = {layer.tensor: layer.snr_db for layer in layers}
    curves = {each.layer.tensor: each.layer for each in pieces}
    return tuple(
        _with_ratio(curves[layer.tensor], layer, ratios) if layer.tensor in curves else layer
        for layer in layers
        if layer.tensor in tensors
    )


def _with_ratio(curve: LayerNoise, made: LayerNoise, ratios: Mapping[str, float | None]) -> LayerNoise:
    """A curve's layer with the ratio of what its pieces make."""
    best = min(or_full_scale(ratios.get(operand)) for operand in curve.operands)
    drop = None if made.snr_db is None else best - made.snr_db
    return replace(curve, snr_db=made.snr_db, drop_db=drop, own_db=made.own_db)


def _worst_first(layers: Iterable[LayerNoise]) -> list[LayerNoise]:
    """The layers that lose too much, the worst first."""
    return sorted((each for each in layers if (each.drop_db or 0) > TOO_MUCH_DB), key=lambda each: -(each.drop_db or 0))


def _with_best_count(
    network: CalibratedNetwork, curve: Curve, layer: LayerNoise, kept: Set[str]
) -> tuple[CalibratedNetwork, tuple[LayerNoise, ...], InPieces] | None:
    """The network with as many pieces as help; None if they do not."""
    model, before = network.model.prepared, _ratio([layer], curve.result)
    few = network.on_few_samples(TRIED_SAMPLES)
    least = _ratio(few.quantized_but(kept)[1], curve.result) + HURTS_DB - WORTH_DB

    def ratio_with(pieces: Pieces) -> float:
        made = in_pieces(model, curve, pieces, network.ranges)
        return _ratio(few.written_as(made).quantized_but(kept)[1], curve.result)

    pieces = _climb(ratio_with, least)
    if pieces is None:
        return None
    made = network.written_as(in_pieces(model, curve, pieces, network.ranges))
    layers = made.quantized_but(kept)[1]
    return made, layers, InPieces(layer, pieces.count, _ratio(layers, curve.result) - before)


def _climb(ratio_with: Callable[[Pieces], float], least: float) -> Pieces | None:
    """One piece or part more, as long as that helps; None if nothing does."""
    found, at, best = None, Pieces(1, 1), least
    while True:
        ways = (replace(at, count=at.count + 1), Pieces(max(2, at.count), at.parts + 1))
        for way in ways:
            ratio = ratio_with(way) if max(way.count, way.parts) <= MOST_PIECES else -math.inf
            if ratio >= best + WORTH_DB:
                found, at, best = way, way, ratio
                break
        else:
            return found


def _ratio(layers: Sequence[LayerNoise], tensor: str) -> float:
    (ratio,) = (layer.snr_db for layer in layers if layer.tensor == tensor)
    return math.inf if ratio is None else ratio

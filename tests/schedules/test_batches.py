"""No image of a batch takes more cycles than alone, nor gives other bytes."""

from __future__ import annotations

import pytest

from tests.rings import long_beyond
from tests.schedules.batches import BATCHES, ENTRIES, compiled, cycles_per_image, differing_images

TRANSFORMING = (
    ("kwt-1", "base16"),
    ("gru-keywords", "base16"),
    ("stories260k-step", "base16"),
    ("bert-tiny", "sequence16"),
)
"""Networks with Reshape, Transpose, MatMul, Softmax, Split and states."""


def test_a_batch_of_the_autoencoder_brings_its_weights_once() -> None:
    one, many = (cycles_per_image(compiled("autoencoder", "base16", batch, effort=0)) for batch in (1, 8))
    assert many < one / 7


@pytest.mark.slow
@pytest.mark.parametrize("entry", long_beyond(4, ENTRIES), ids="-".join)
def test_no_image_takes_more_cycles_in_a_batch(entry: tuple[str, str]) -> None:
    alone = cycles_per_image(compiled(*entry, None))
    assert all(cycles_per_image(compiled(*entry, batch)) <= alone for batch in BATCHES)


@pytest.mark.slow
@pytest.mark.parametrize("entry", long_beyond(5, (*ENTRIES[::2], *TRANSFORMING)), ids="-".join)
def test_images_of_a_batch_give_the_bytes_that_they_give_alone(entry: tuple[str, str]) -> None:
    assert differing_images(*entry, batch=3, effort=0) == []

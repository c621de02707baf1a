"""One colour for each cause of cycles, on pages and pictures alike; an engine has that of the cycles it works in."""

from __future__ import annotations

from tilewright.isa.machine.engine import Engine
from tilewright.profiles.causes import PRODUCTS
from tilewright.simulator.losses import Loss, loss_of

COLOURS = {
    PRODUCTS: "#3f9b5b",
    Loss.EDGE: "#d9a521",
    Loss.ARRAY: "#8c6bb1",
    Loss.VECTOR: "#3c7dc4",
    Loss.LOAD: "#c8553d",
    Loss.STORE: "#b5739d",
    Loss.IDLE: "#98a2b3",
}


def engine_colour(engine: Engine) -> str:
    """That of the loss that an engine causes; an array's work is not lost."""
    loss = loss_of(engine)
    return COLOURS[PRODUCTS if loss is Loss.ARRAY else loss]

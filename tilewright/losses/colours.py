"""A colour for each cause of cycles, on pages and pictures alike; `tilewright/templates/` says which an engine has."""

from __future__ import annotations

from tilewright.losses.causes import PRODUCTS
from tilewright.simulator.losses import Loss

COLOURS = {
    PRODUCTS: "#3f9b5b",
    Loss.EDGE: "#d9a521",
    Loss.ARRAY: "#8c6bb1",
    Loss.VECTOR: "#3c7dc4",
    Loss.LOAD: "#c8553d",
    Loss.STORE: "#b5739d",
    Loss.IDLE: "#98a2b3",
}

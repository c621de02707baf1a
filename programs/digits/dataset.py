"""The handwritten digits: scikit-learn's bundled set, scaled, shuffled with a fixed seed and split once for all.

1797 images of 8x8 pixels with 17 grey levels (0 to 16): 1437 to train and calibrate on, 360 held back.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

FOLDER = Path(__file__).resolve().parent
HELD_BACK = 360
SPLIT_SEED = 1797


@dataclass(frozen=True, slots=True)
class Digits:
    """Images as float32 [count, 1, 8, 8] between 0 and 1, labels as int64 [count]."""

    images: NDArray[np.float32]
    labels: NDArray[np.int64]


def load_split() -> tuple[Digits, Digits]:
    """Training digits and held-back digits, always the same. Needs scikit-learn."""
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    images = (pixels.reshape(-1, 1, 8, 8) / 16.0).astype(np.float32)
    order = np.random.default_rng(SPLIT_SEED).permutation(len(images))
    train, held_back = order[HELD_BACK:], order[:HELD_BACK]
    return Digits(images[train], labels[train]), Digits(images[held_back], labels[held_back])


def save_held_back(digits: Digits, folder: Path) -> None:
    """Write `images.npz`, so that running the network needs no scikit-learn, and `example.npz`, its first image."""
    np.savez_compressed(folder / "images.npz", images=digits.images, labels=digits.labels)
    np.savez_compressed(folder / "example.npz", image=digits.images[:1])


def load_held_back(folder: Path = FOLDER) -> Digits:
    """The 360 held-back digits from the committed `images.npz`."""
    with np.load(folder / "images.npz") as stored:
        return Digits(stored["images"], stored["labels"])

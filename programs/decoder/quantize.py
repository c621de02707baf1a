"""Quantise the decoder's step to int8 and write `step_int8.onnx`.

    python -m programs.decoder.quantize [FOLDER]

Ranges are the minimum and maximum over texts that were learned. Two runs on one machine write the same bytes.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from programs.decoder.model import STEP, int8_step
from programs.decoder.text import FOLDER


def main() -> None:
    """Quantise, and write the network into the folder."""
    parser = argparse.ArgumentParser(prog="python -m programs.decoder.quantize", description="Quantise the decoder.")
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER, help="where to write; default: this folder")
    destination = parser.parse_args().folder / STEP.name
    destination.write_bytes(int8_step().SerializeToString(deterministic=True))
    print(f"wrote {destination}")


if __name__ == "__main__":
    main()

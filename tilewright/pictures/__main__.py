"""Draw the pictures of the documentation: `python -m tilewright.pictures docs/pictures`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

from tilewright.api import compile  # noqa: A004
from tilewright.files.whole import write_file
from tilewright.html.machine import machine_picture
from tilewright.isa.files.loader import load_machine, load_machine_text
from tilewright.pictures.array import array_picture
from tilewright.pictures.specialised import OVERLAY, specialised_picture
from tilewright.pictures.times import memory_picture, steps_picture, tile_picture, waits_picture

MODEL = "programs/digits/digits_int8.onnx"
DECODER = "programs/decoder/step_int8.onnx"


def pictures() -> Mapping[str, str]:
    """Every picture by the name of its file; those of runs are of programs without a search."""
    (run,) = compile(MODEL, "tiny8", effort=0).runs()
    (tight,) = compile(MODEL, "tiny8", ["memories.act.kib=3"], effort=0).runs()
    (token,) = compile(DECODER, "sequence16", effort=0).runs()
    return {
        "array.svg": array_picture(),
        "machine.svg": machine_picture(load_machine("base16")),
        "specialised.svg": specialised_picture(load_machine_text(OVERLAY, "mine")),
        "waits.svg": waits_picture(run, "conv2"),
        "tile.svg": tile_picture(run, "conv2"),
        "memory.svg": memory_picture(tight, "act"),
        "token.svg": steps_picture(token, "layer1", "One token in the second layer of a decoder, on sequence16"),
    }


def main(arguments: list[str]) -> int:
    """Write all pictures into a folder."""
    parser = argparse.ArgumentParser(prog="python -m tilewright.pictures", description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args(arguments).folder
    for name, content in pictures().items():
        write_file(folder / name, content)
        print(folder / name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

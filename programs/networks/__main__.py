"""Write a network as an ONNX file.

python -m programs.networks resnet18 -o resnet18.onnx
python -m programs.networks mobilenetv2-0.35-160     # 0.35 times as wide, images of 160×160
"""

from __future__ import annotations

import argparse
from pathlib import Path

from programs.networks.registry import (
    LEAST_SIZE,
    LEAST_WIDTH,
    MOST_SIZE,
    MOST_WIDTH,
    NETWORKS,
    OF_ANY_SIZE,
    float_network,
    int8_network,
    is_network,
)


def main() -> None:
    """Make one network, int8 unless `--float` is given."""
    parser = argparse.ArgumentParser(prog="python -m programs.networks", description="Write a network as ONNX.")
    sized = " and ".join(f"{name}-WIDTH-SIZE" for name in OF_ANY_SIZE)
    parser.add_argument("name", metavar="NAME", type=_name, help=f"one of {', '.join(sorted(NETWORKS))}; or {sized}")
    parser.add_argument("-o", "--output", type=Path, help="the file; default: NAME.onnx")
    parser.add_argument("--float", action="store_true", help="float32 in place of int8")
    arguments = parser.parse_args()
    output = arguments.output or Path(f"{arguments.name}.onnx")
    model = (float_network if arguments.float else int8_network)(arguments.name)
    output.write_bytes(model.SerializeToString(deterministic=True))
    print(f"wrote {output}")


def _name(text: str) -> str:
    """Raises ArgumentTypeError, which argparse prints, for what is no network."""
    if not is_network(text):
        sized = ", ".join(f"{name}-0.35-160" for name in OF_ANY_SIZE)
        widths, sizes = f"{LEAST_WIDTH} to {MOST_WIDTH}", f"{LEAST_SIZE} to {MOST_SIZE}"
        raise argparse.ArgumentTypeError(
            f"no network {text!r}; expected one of {', '.join(sorted(NETWORKS))}; or such as {sized}: "
            f"{widths} times as wide, images of {sizes} pixels"
        )
    return text


if __name__ == "__main__":
    main()

"""Write a network as an ONNX file.

python -m programs.networks resnet18 -o resnet18.onnx
"""

from __future__ import annotations

import argparse
from pathlib import Path

from programs.networks.registry import NETWORKS, float_network, int8_network


def main() -> None:
    """Make one network, int8 unless `--float` is given."""
    parser = argparse.ArgumentParser(prog="python -m programs.networks", description="Write a network as ONNX.")
    parser.add_argument("name", choices=sorted(NETWORKS), help="which network")
    parser.add_argument("-o", "--output", type=Path, help="the file; default: NAME.onnx")
    parser.add_argument("--float", action="store_true", help="float32 in place of int8")
    arguments = parser.parse_args()
    output = arguments.output or Path(f"{arguments.name}.onnx")
    model = (float_network if arguments.float else int8_network)(arguments.name)
    output.write_bytes(model.SerializeToString(deterministic=True))
    print(f"wrote {output}")


if __name__ == "__main__":
    main()

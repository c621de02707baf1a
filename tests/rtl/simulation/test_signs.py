"""Our arithmetic of signed numbers gives what Verilator's does, for every width."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tilewright.rtl.simulation.bench_verilog import SIGNS
from tilewright.rtl.simulation.tools import verilator_folder

BINARY = {"MULS": ("III", "QQQ"), "GTS": ("III", "IQQ"), "LTS": ("III", "IQQ")}
"""Functions of two numbers, each for 32 bits and for 64."""


def program() -> str:
    """C++ that returns 1 when a function gives something else before and after our header, and names it."""
    names = [f"VL_{name}_{kind}" for name, kinds in BINARY.items() for kind in kinds]
    before = "".join(
        f"static uint64_t known_{name}(int bits, uint64_t a, uint64_t b) {{ return {name}(bits, a, b); }}\n"
        for name in names
    )
    before += "".join(
        f"static uint64_t known_VL_EXTENDS_{kind}(int bits, uint64_t a) {{ return VL_EXTENDS_{kind}(64, bits, a); }}\n"
        for kind in ("II", "QI", "QQ")
    )
    checks = "".join(f"  CHECK({n}(bits, a, b), known_{n}(bits, a, b), {32 if 'III' in n else 64})\n" for n in names)
    checks += "".join(
        f"  CHECK(VL_EXTENDS_{kind}(64, bits, a), known_VL_EXTENDS_{kind}(bits, a), {32 if kind == 'II' else 64})\n"
        for kind in ("II", "QI", "QQ")
    )
    return f"""\
#include <verilated.h>
#include <cstdio>
{before}
#include "{SIGNS}"
#define CHECK(ours, known, most) \\
    if (bits <= most && uint64_t(ours) != (known)) {{ std::printf("%s of %d bits\\n", #ours, bits); return 1; }}
int main() {{
  uint64_t random = 1;
  auto next = [&] {{
    random = random * 6364136223846793005u + 1442695040888963407u;
    return random >> 7 ^ random << 50;
  }};
  for (int bits = 1; bits <= 64; bits++) for (int turn = 0; turn < 2000; turn++) {{
    uint64_t mask = bits == 64 ? ~0ull : (1ull << bits) - 1, sign = 1ull << (bits - 1);
    uint64_t edges[] = {{0, 1, mask, sign, sign - 1, sign + 1}};
    uint64_t a = (turn % 7 < 6 ? edges[turn % 7] : next()) & mask;
    uint64_t b = (turn % 11 < 6 ? edges[turn % 11] : next()) & mask;
{checks}  }}
}}
"""


@pytest.mark.slow
def test_gives_what_verilators_own_gives(tmp_path: Path) -> None:
    (tmp_path / "signs.cpp").write_text(program())
    include = verilator_folder().parent / "include"
    command = ["g++", "-std=c++17", "-O1", "-fwrapv", f"-I{include}", f"-I{include}/vltstd", "signs.cpp", "-o", "signs"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    ended = subprocess.run(["./signs"], cwd=tmp_path, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (0, "")

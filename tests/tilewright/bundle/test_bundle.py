"""A bundle: its C compiles without a warning, lays arrays out as the host does, and what it cannot have is refused."""

from __future__ import annotations

import ctypes
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import onnx
import pytest
from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile
from numpy.typing import NDArray

import tilewright as package
from programs.networks.registry import int8_network
from tests.tilewright.command_line import Command
from tilewright.bundle.bundle import bundle_files
from tilewright.bundle.c_text import c_names, string
from tilewright.bundle.network_c import arena_places, ports_of
from tilewright.bundle.vector_c import random_inputs
from tilewright.errors import InputError
from tilewright.host import tensors as host
from tilewright.isa.program.program import place_regions
from tilewright.program import Program
from tilewright.rtl.registers import register_map
from tilewright.system.firmware import SOURCES, TARGET, UNWINDING

DIGITS = "programs/digits/digits_int8.onnx"
WARNINGS = ("-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror")
BOARD = "-DBOARD_REGISTERS=0x40000000"


def integers() -> bytes:
    """A network whose input and output are uint8, in images that are no multiple of a block of channels."""
    shape = [2, 19, 3, 5]
    constants = [onnx.helper.make_tensor("s", onnx.TensorProto.FLOAT, [], [0.5])]
    constants.append(onnx.helper.make_tensor("z", onnx.TensorProto.UINT8, [], [120]))
    nodes = [
        onnx.helper.make_node("DequantizeLinear", ["x", "s", "z"], ["real"]),
        onnx.helper.make_node("Relu", ["real"], ["positive"]),
        onnx.helper.make_node("QuantizeLinear", ["positive", "s", "z"], ["y"]),
    ]
    ends = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.UINT8, shape) for name in "xy"]
    graph = onnx.helper.make_graph(nodes, "integers", ends[:1], ends[1:], constants)
    return bytes(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)]).SerializeToString())


@pytest.fixture(scope="module")
def digits() -> Program:
    return package.compile(DIGITS, "tiny8", effort=0)


def written(files: Mapping[str, bytes], folder: Path) -> Path:
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def library(program: Program, folder: Path) -> ctypes.CDLL:
    """The network's own functions, compiled for this computer."""
    written(bundle_files(program, "net"), folder)
    units = ("net.c", "tilewright.c", "tilewright_registers.c")
    subprocess.run(["gcc", *WARNINGS, "-shared", "-fPIC", "-o", "net.so", *units], cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "net.so"))


def pointer(array: NDArray[Any]) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


@pytest.mark.parametrize("options", [(), ("--bin",)])
def test_c_without_a_warning(tilewright: Command, digits: Program, tmp_path: Path, options: tuple[str, ...]) -> None:
    digits.save(tmp_path / "digits.npu")
    ended = tilewright("bundle", tmp_path / "digits.npu", "-o", tmp_path / "out", *options)
    assert (ended.code, ended.err) == (0, "")
    make = ["make", "-C", str(tmp_path / "out"), f"BOARD={BOARD}", "CFLAGS=-Os -Wconversion"]
    done = subprocess.run(make, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    subprocess.run(["g++", "-x", "c++", "-fsyntax-only", *WARNINGS[1:], "digits.h"], cwd=tmp_path / "out", check=True)


def test_the_same_program_gives_the_same_files(digits: Program) -> None:
    assert bundle_files(digits, "digits", seed=3) == bundle_files(digits, "digits", seed=3)
    one, other = (bundle_files(digits, "digits", seed=seed) for seed in (3, 4))
    assert [name for name in one if one[name] != other[name]] == ["test_vector.c"]


@pytest.mark.parametrize(
    ("model", "isa"),
    [
        (DIGITS, "tiny8"),
        (DIGITS, "base16"),
        (int8_network("resnet8"), "base16"),
        ("programs/decoder/step_int8.onnx", "sequence16"),
        (integers(), "base16"),
    ],
    ids=["pixels", "windows", "windows of three channels", "turned", "integers"],
)
def test_arrays_lie_where_the_host_puts_them(model: Any, isa: str, tmp_path: Path) -> None:
    program = package.compile(model, isa, effort=0)
    binary, net = program.binary, library(program, tmp_path)
    places, size = arena_places(binary)
    arena, inputs = np.zeros(size, np.uint8), random_inputs(binary, 7)
    for port in ports_of(binary):
        if port.is_input:
            getattr(net, f"net_set_{port.name}")(pointer(arena), pointer(inputs[port.tensor.name]))
    image, bases = host.dram_image(binary, inputs), place_regions(binary.limits)
    wanted = image[bases["inputs"] :][: binary.limits["inputs"]]
    assert np.array_equal(arena[places["inputs"] :][: binary.limits["inputs"]], wanted)

    filled = np.random.default_rng(8).integers(0, 256, image.size, np.uint8)
    arena[places["outputs"] :][: binary.limits["outputs"]] = filled[bases["outputs"] :][: binary.limits["outputs"]]
    expected = host.read_outputs(binary, filled)
    for port in ports_of(binary):
        if not port.is_input:
            got = np.zeros(port.tensor.shape, expected[port.tensor.name].dtype)
            getattr(net, f"net_get_{port.name}")(pointer(arena), pointer(got))
            assert np.array_equal(got, expected[port.tensor.name])


def test_reals_are_rounded_as_the_host_rounds_them(digits: Program, tmp_path: Path) -> None:
    quantize = library(digits, tmp_path).tilewright_quantize
    quantize.argtypes = [ctypes.c_float, ctypes.c_float, *[ctypes.c_int32] * 3]
    scale = np.float32(0.1)
    halves = (np.arange(-300, 300) / 2).astype(np.float32) * scale
    extremes = np.array([0.0, -0.0, 1e30, -1e30, np.inf, -np.inf], np.float32)
    for real in (*halves, *np.nextafter(halves, np.float32(9)), *extremes):
        (wanted,) = np.clip(np.rint(np.array([real]) / scale), -128 + 3, 127 + 3) - 3
        assert quantize(real, scale, -3, -128, 127) == wanted, real


def test_names_that_c_can_have() -> None:
    assert c_names(["a/b:0", "a.b.0", "0", "int", ""], "input") == {
        "a/b:0": "a_b_0",
        "a.b.0": "a_b_0_2",
        "0": "input_0",
        "int": "input_int",
        "": "input",
    }
    assert string('a"\\?é\n') == r'"a\042\134\077\303\251\012"'


def test_what_a_bundle_refuses(tilewright: Command, digits: Program, tmp_path: Path) -> None:
    digits.save(tmp_path / "digits.npu")
    for name in ("for", "9lives", "a-b", "tilewright_x"):
        ended = tilewright("bundle", tmp_path / "digits.npu", "-o", tmp_path / "out", "--name", name)
        assert ended.code == 1 and f"{name!r} cannot be the bundle's name" in ended.err
    assert not (tmp_path / "out").exists()


def test_a_network_with_nodes_on_the_host_is_refused_with_the_node() -> None:
    program = package.compile(DIGITS, "tiny8", ["instructions.max_pool=null"], effort=0)
    assert program.host_nodes
    with pytest.raises(InputError) as caught:
        bundle_files(program, "digits")
    node, message = next(of for of in program.host_nodes if of.op_type == "MaxPool"), str(caught.value)
    assert f"{node.name} ({node.op_type}), on the host since {node.reason}: there is no C for it, " in message


@pytest.mark.slow
@pytest.mark.parametrize("target", [TARGET, ()], ids=["RV32", "this computer"])
def test_clang_compiles_nodes_of_the_host_without_a_warning(
    target: tuple[str, ...], repository: Path, tmp_path: Path
) -> None:
    program = package.compile("programs/decoder/step_int8.onnx", "tiny8", effort=0)
    assert program.host_nodes
    own = {name: text for name, text in documented(repository).items() if b"decoder.h" in text}
    files = {**bundle_files(program, "decoder"), **own}
    folder = written(files, tmp_path)
    units = sorted(name for name in files if name.endswith(".c") and name not in ("main.c", "platform.c"))
    assert {"decoder.c", "decoder_part0.c", "tilewright_host.c"} <= set(units) and len(own) == 1
    flags = (*target, *WARNINGS, "-Wshadow", "-Os", *((f"-I{SOURCES}",) if target else ()))
    command = [sys.executable, "-m", "ziglang", "cc", *flags, "-c", *units]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    subprocess.run(["g++", "-x", "c++", "-fsyntax-only", *WARNINGS[1:], "decoder.h"], cwd=folder, check=True)


@pytest.mark.slow
def test_the_driver_is_small_on_a_processor_of_32_bits(digits: Program, tmp_path: Path) -> None:
    folder = written(bundle_files(digits, "net"), tmp_path)
    target = (*TARGET, "-Os", f"-I{SOURCES}")  # for <stdio.h>, which a freestanding compiler has not
    sizes: Counter[str] = Counter()
    for name in ("tilewright", "tilewright_registers", "net", "test_vector", "platform"):
        compiled = folder / f"{name}.o"
        command = [sys.executable, "-m", "ziglang", "cc", *target, *WARNINGS, BOARD, "-c", f"{name}.c", "-o", compiled]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        if name.startswith("tilewright"):
            with open(compiled, "rb") as file:
                for section in ELFFile(file).iter_sections():
                    flags = section["sh_flags"]
                    if section.name == UNWINDING:
                        continue
                    kind = "memory" if flags & SH_FLAGS.SHF_WRITE else "code"
                    sizes[kind] += section.data_size if flags & SH_FLAGS.SHF_ALLOC else 0
    print(f"the driver takes {sizes['code']:,} bytes of code and constants, and {sizes['memory']} of memory")
    assert sizes["code"] <= 4096 and sizes["memory"] == 0


def test_the_program_in_the_documentation_compiles(digits: Program, repository: Path, tmp_path: Path) -> None:
    named = {name: text for name, text in documented(repository).items() if b"decoder.h" not in text}
    folder = written({**bundle_files(digits, "digits"), **named}, tmp_path)
    assert len(named) == 2
    subprocess.run(["gcc", *WARNINGS, "-fsyntax-only", *named], cwd=folder, check=True)


def documented(repository: Path) -> dict[str, bytes]:
    """The programs in C of the documentation."""
    page = (repository / "docs/firmware.md").read_text()
    programs = re.findall(r"```c\n(.*?)```", page, re.DOTALL)
    return {f"own{number}.c": program.encode() for number, program in enumerate(programs)}


def test_every_word_of_the_register_map_is_in_the_svd_file(digits: Program) -> None:
    root = ElementTree.fromstring(bundle_files(digits, "net")["tilewright.svd"])
    offsets = [int(of.findtext("addressOffset", ""), 16) for of in root.iter("register")]
    last = register_map(digits.machine)[-1]
    assert offsets == list(range(0, last.offset + 4 * last.words, 4))
    names = [of.findtext("name") for of in root.iter("register")]
    assert len(set(names)) == len(names) and {"ID", "PROGRAM_BASE_LOW", "COUNTER_CYCLES_HIGH"} <= set(names)
    writable = {of.findtext("name") for of in root.iter("register") if of.findtext("access") == "read-write"}
    assert "CONTROL" in writable and "STATUS" not in writable

"""A bundle's C on the simulated hardware, over its two buses: values, cycles, and every way in which a run can fail."""

from __future__ import annotations

import re
from pathlib import Path

import onnx
import pytest
from onnx import helper

import tilewright as package
from programs.networks.registry import int8_network
from tests.tilewright.command_line import Command
from tilewright.bundle.bundle import bundle_files
from tilewright.bundle.simulated import BOARD, WARNINGS, run_simulated
from tilewright.bundle.vector_c import random_inputs
from tilewright.isa.program.faults import FAULT_CAUSES, FaultCode
from tilewright.isa.program.partitioned import HostSegment, NpuSegment, Partitioned
from tilewright.program import Program
from tilewright.rtl.simulation.board import run_on_board

DIGITS = "programs/digits/digits_int8.onnx"

FAULTS = r"""
#include <stdio.h>
#include "net.h"
#include "platform.h"
#include "test_vector.h"

static tilewright_device device;
static tilewright_program placed;

static void say(const char *what, tilewright_status status)
{
    printf("%s: %s, %s\n", what, tilewright_status_name(status), tilewright_state_name(device.state));
}

static void let_run(int pauses)
{
    int pause;
    for (pause = 0; pause < pauses; pause++) {
        device.platform->pause(device.platform->context);
    }
}

int main(void)
{
    uint8_t *constants = (uint8_t *)board_memory(tilewright_constant_bytes(&net_program));
    uint8_t *arena = (uint8_t *)board_memory(NET_ARENA_BYTES);
    tilewright_fault fault;
    tilewright_program other;
    say("start first", tilewright_start(&device));
    say("poll first", tilewright_poll(&device));
    say("open", tilewright_open(&device, board_platform()));
    say("start unloaded", tilewright_start(&device));
    tilewright_place(&net_program, constants, &placed);
    other = placed;
    other.isa_hash ^= 1U;
    say("another machine", tilewright_load(&device, &other, arena));
    say("off a page", tilewright_load(&device, &placed, arena + 64));
    say("load", tilewright_load(&device, &placed, arena));
    test_vector_set(arena);
    say("start", tilewright_start(&device));
    say("start again", tilewright_start(&device));
    say("load while running", tilewright_load(&device, &placed, arena));
    say("one poll", tilewright_wait(&device, 1U));
    say("wait", tilewright_wait(&device, 1000000U));
    printf("%lu differ\n", test_vector_different(arena));
    other = placed;
    other.bytes[TILEWRIGHT_REGION_WORKSPACE] = 0U;
    other.bytes[TILEWRIGHT_REGION_OUTPUTS] = 0U;
    say("regions too small", tilewright_load(&device, &other, arena));
    say("run", tilewright_infer(&device, 1000000U));
    (void)tilewright_read_fault(&device, &fault);
    printf("%s; layer %s\n", fault.about, fault.layer);
    say("load", tilewright_load(&device, &placed, arena));
    say("run", tilewright_infer(&device, 1000000U));
    printf("%lu differ\n", test_vector_different(arena));
    say("stop when nothing runs", tilewright_stop(&device, 1000U));
    say("start", tilewright_start(&device));
    let_run(1);
    printf("%d in the middle\n", tilewright_read64(&device, TILEWRIGHT_REGISTER_COUNTER_CYCLES) > 0U);
    say("stop", tilewright_stop(&device, 1000U));
    (void)tilewright_read_fault(&device, &fault);
    printf("%lu; %s\n", (unsigned long)fault.code, fault.about);
    say("run", tilewright_infer(&device, 1000000U));
    printf("%lu differ\n", test_vector_different(arena));
    say("enable", tilewright_enable_interrupt(&device, 1));
    printf("pending: %d\n", tilewright_acknowledge(&device));
    printf("pending: %d\n", tilewright_acknowledge(&device));
    say("reset", tilewright_reset(&device));
    say("run", tilewright_infer(&device, 1000000U));
    say("watchdog", tilewright_set_watchdog(&device, LATENCY / 16U));
    say("load", tilewright_load(&device, &placed, arena));
    say("run", tilewright_infer(&device, 1000000U));
    (void)tilewright_read_fault(&device, &fault);
    printf("%s\n", fault.about);
    say("run at once", tilewright_start(&device));
    let_run(20);
    say("watchdog", tilewright_set_watchdog(&device, 4U * LATENCY));
    say("run", tilewright_infer(&device, 1000000U));
    printf("%lu differ\n", test_vector_different(arena));
    return 0;
}
"""

SAID = """\
start first: the call does not fit the device's state, closed
poll first: the call does not fit the device's state, closed
open: ok, open
start unloaded: the call does not fit the device's state, open
another machine: the program is for another machine, open
off a page: a region is not aligned, open
load: ok, loaded
start: ok, running
start again: the call does not fit the device's state, running
load while running: the call does not fit the device's state, running
one poll: it took too long, running
wait: ok, loaded
0 differ
regions too small: ok, loaded
run: the machine reports a fault, loaded
a DMA burst outside its region; the first byte outside; layer {layer}
load: ok, loaded
run: ok, loaded
0 differ
stop when nothing runs: the call does not fit the device's state, loaded
start: ok, running
1 in the middle
stop: ok, loaded
{stopped}
run: ok, loaded
0 differ
enable: ok, loaded
pending: 1
pending: 0
reset: ok, open
run: the call does not fit the device's state, open
watchdog: ok, open
load: ok, loaded
run: the machine reports a fault, loaded
{timeout}
run at once: the bus still owes an answer, loaded
watchdog: ok, loaded
run: ok, loaded
0 differ
"""

CACHED = r"""
#include "platform.h"

#include <string.h>

uint32_t board_read(void *context, uint32_t offset);
void board_write(void *context, uint32_t offset, uint32_t word);
void board_pause(void *context);
uint64_t board_bus_address(void *context, const void *memory);
void *bus_memory(uint64_t bytes);

/* What the processor sees; the machine sees `there`, which has what was cleaned, and gives it back when invalidated. */
static uint8_t own[1 << 20], *there;
static uint64_t used;

static uint64_t address(void *context, const void *memory)
{
    return board_bus_address(context, there + ((const uint8_t *)memory - own));
}

static void clean(void *context, const void *memory, size_t bytes)
{
    (void)context;
    memcpy(there + ((const uint8_t *)memory - own), memory, bytes);
}

static void invalidate(void *context, void *memory, size_t bytes)
{
    (void)context;
    memcpy(memory, there + ((uint8_t *)memory - own), bytes);
}

void *board_memory(uint64_t bytes)
{
    uint8_t *found = own + used;
    there = there == NULL ? (uint8_t *)bus_memory(sizeof own) : there;
    used += (bytes + TILEWRIGHT_REGION_ALIGNMENT - 1U) / TILEWRIGHT_REGION_ALIGNMENT * TILEWRIGHT_REGION_ALIGNMENT;
    return found;
}

const tilewright_platform *board_platform(void)
{
    static const tilewright_platform platform = {
        NULL, NULL, board_read, board_write, address, CLEAN, INVALIDATE, board_pause,
    };
    return &platform;
}
"""
"""A board whose processor has a cache: without its hooks neither side sees what the other writes."""


@pytest.fixture(scope="module")
def digits() -> Program:
    return package.compile(DIGITS, "tiny8", effort=0)


@pytest.mark.slow
def test_three_commands_from_a_network_to_its_outputs_on_hardware(tilewright: Command, tmp_path: Path) -> None:
    assert tilewright("compile", DIGITS, "--isa", "tiny8", "-o", tmp_path / "digits.npu").code == 0
    ended = tilewright("bundle", tmp_path / "digits.npu", "-o", tmp_path / "out", "--simulate")
    program = Program.load(tmp_path / "digits.npu")
    largest = program.run(random_inputs(program.binary, 0)).outputs["logits"].argmax()
    assert ended.out.splitlines()[1:] == [
        f"output logits: the largest of 10 values is number {largest}",
        "digits: 0 of 10 values differ",
        f"{program.profile()['cycles']} cycles",
    ]


@pytest.mark.slow
def test_a_call_out_of_order_and_a_fault_are_told_and_the_next_run_is_right(digits: Program) -> None:
    files = {**bundle_files(digits, "net"), "main.c": FAULTS.encode(), "platform.c": BOARD.read_bytes()}
    latency = f"-DLATENCY={digits.machine.dram.latency_cycles}U"
    code, output = run_on_board(digits.machine, files, (*WARNINGS, latency))
    stopped, timeout = FAULT_CAUSES[FaultCode.STOPPED], FAULT_CAUSES[FaultCode.TIMEOUT]
    said = SAID.format(layer=digits.layers[-1].name, stopped=f"{FaultCode.STOPPED:d}; {stopped}", timeout=timeout)
    assert (code, output) == (0, said)


@pytest.mark.slow
@pytest.mark.parametrize("hooks", [("clean", "invalidate"), ("clean", "NULL"), ("NULL", "invalidate")], ids=" ".join)
def test_a_cache_is_cleaned_before_a_run_and_invalidated_after_it(digits: Program, hooks: tuple[str, str]) -> None:
    own = CACHED.replace("CLEAN, INVALIDATE", ", ".join(hooks))
    unused = "".join(f"(void){name};" for name in ("clean", "invalidate") if name not in hooks)
    own = own.replace("    return &platform;", f"    {unused}\n    return &platform;")
    # The board's own memory is the bus's; main.c's is what the processor sees.
    renamed = {"platform.c": own.replace("board_memory(", "host_memory(").replace("bus_memory(", "board_memory(")}
    files = bundle_files(digits, "net")
    main = files["main.c"].decode().replace("board_memory(", "host_memory(")
    named = '#include "platform.h"\nvoid *host_memory(uint64_t bytes);\n'
    sources = {name: text.encode() for name, text in {**renamed, "main.c": main}.items()}
    sources = {name: text.replace(b'#include "platform.h"\n', named.encode()) for name, text in sources.items()}
    code, output = run_on_board(digits.machine, {**files, **sources}, WARNINGS)
    assert (code == 0 and " 0 of 10 values differ" in output) is ("NULL" not in hooks), output


@pytest.mark.slow
def test_a_test_vector_that_is_wrong_is_noticed(digits: Program) -> None:
    files = bundle_files(digits, "net")
    text = files["test_vector.c"].decode()
    first = text.index("{", text.index("output_logits[")) + 1
    files["test_vector.c"] = f"{text[:first]}1e9F,{text[text.index(',', first) + 1 :]}".encode()
    code, output = run_on_board(digits.machine, {**files, "platform.c": BOARD.read_bytes()}, WARNINGS)
    assert code == 1 and "1 of 10 values differ" in output


def decoder_that_chooses() -> bytes:
    """A step of the decoder, and after it a Softmax and an ArgMax, for which tiny8 has no instruction."""
    model = onnx.load("programs/decoder/step_int8.onnx")
    scores = next(output for output in model.graph.output if output.name == "logits")
    shape = [size.dim_value for size in scores.type.tensor_type.shape.dim]
    model.graph.node.append(helper.make_node("Softmax", ["logits"], ["chances"], "chances", axis=-1))
    model.graph.node.append(helper.make_node("ArgMax", ["chances"], ["choice"], "choice", axis=-1, keepdims=0))
    kinds = {"chances": (onnx.TensorProto.FLOAT, shape), "choice": (onnx.TensorProto.INT64, shape[:-1])}
    model.graph.output.extend(helper.make_tensor_value_info(name, *kind) for name, kind in kinds.items())
    return bytes(model.SerializeToString())


@pytest.mark.slow
def test_nodes_of_the_host_before_between_and_after_programs() -> None:
    program = package.compile(decoder_that_chooses(), "tiny8", effort=0)
    assert isinstance(program.network, Partitioned)
    kinds = [type(segment) for segment in program.network.segments]
    assert kinds[0] is kinds[-1] is HostSegment and kinds.count(NpuSegment) > 5
    inputs = random_inputs(program.network, 0)
    outputs = program.run(inputs).outputs
    said = run_simulated(program.machine, bundle_files(program, "net", inputs)).splitlines()
    sizes = sum(output.size for output in outputs.values())
    assert said[-1] == f"net: 0 of {sizes} values differ"
    places = [
        f"output {name}: the largest of {output.size} values is number {output.argmax()}"
        for name, output in outputs.items()
    ]
    assert said[:-1] == places


@pytest.mark.long
@pytest.mark.parametrize(("name", "isa"), [("resnet8", "base16"), ("ds-cnn", "sequence16")])
def test_networks_on_hardware(name: str, isa: str) -> None:
    program = package.compile(int8_network(name), isa, effort=0)
    output = run_simulated(program.machine, bundle_files(program, "net", data_apart=True))
    assert " 0 of " in output and f"{program.profile()['cycles']} cycles" in output


@pytest.mark.long
@pytest.mark.parametrize("name", ["ds-cnn", "bert-tiny"])
def test_networks_with_nodes_on_the_host_on_hardware(name: str) -> None:
    program = package.compile(int8_network(name), "tiny8", effort=0)
    assert program.host_nodes
    assert " 0 of " in run_simulated(program.machine, bundle_files(program, "net", data_apart=True))


@pytest.mark.long
@pytest.mark.parametrize("name", ["kwt-1", "stories260k-step"])
def test_all_nodes_of_the_host_have_code(name: str) -> None:
    program = package.compile(int8_network(name), "tiny8", effort=0)
    nodes = {node.name for node in program.host_nodes}
    source = bundle_files(program, "net")["net.c"].decode()
    assert nodes and all(re.search(rf"^/\* \w+ {re.escape(name)} \*/$", source, re.MULTILINE) for name in nodes)


@pytest.mark.long
def test_a_step_of_a_decoder_on_hardware() -> None:
    program = package.compile("programs/decoder/step_int8.onnx", "sequence16", effort=0)
    output = run_simulated(program.machine, bundle_files(program, "net", data_apart=True))
    assert " 0 of " in output and f"{program.profile()['cycles']} cycles" in output

"""NAME.h and NAME.c of a network in parts: programs of the machine, and C for what the host computes between them.

Each program has files of its own, NAME_part0.h and so on, which `network_c` writes as for a whole network. They share
one arena, since they run one after the other; behind what the machine needs of it lie the tensors of the host.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright.bundle.c_text import c_names, comment
from tilewright.bundle.ends import End
from tilewright.bundle.host_c import HostFunctions, host_functions, values_places
from tilewright.bundle.host_steps import ProgramStep, Step, TensorKind, steps_of
from tilewright.bundle.network_c import Port, arena_places, ports_of
from tilewright.bundle.nodes.code import C_TYPES, NoCode
from tilewright.errors import InputError
from tilewright.isa.program.partitioned import HostNode, NetworkValue, Partitioned
from tilewright.isa.program.program import REGION_ALIGNMENT_BYTES, Program

MOST_SHOWN = 5


@dataclass(frozen=True, slots=True)
class CProgram:
    """A program with its name in C and its inputs and outputs."""

    name: str
    program: Program
    ports: tuple[Port, ...]


@dataclass(frozen=True, slots=True)
class PartsNetwork:
    """A network in parts as C has it: inputs, then outputs; all steps; where tensors lie behind the machine's arena."""

    name: str
    ends: tuple[End, ...]
    parts: tuple[CProgram, ...]
    steps: tuple[Step, ...]
    kinds: Mapping[str, TensorKind]
    functions: HostFunctions
    places: Mapping[str, int]
    machine_bytes: int
    values_bytes: int


def parts_network(network: Partitioned, name: str) -> PartsNetwork:
    """Plan the C of a network. Raises InputError for a node that has no C, a batch, and an end that C cannot have."""
    if network.images is not None and network.images > 1:
        raise InputError(
            f"the network takes {network.images} images in a run and has nodes on the host, for which a bundle has "
            "code of one image: compile it without --batch"
        )
    ends = _ends(network)
    steps = steps_of(network)
    kept = [value.name for value in (*network.inputs, *network.outputs)]
    kinds = {value.name: _kind(value) for value in (*network.inputs, *network.outputs)} | dict(steps.kinds)
    known = {key for step in steps.steps for key in (*step.reads, *step.writes)} <= kinds.keys()
    places, size = values_places(steps.steps, kinds, kept) if known else ({}, 0)
    functions, refused = host_functions(steps, places)
    if refused:
        raise InputError(_refusal(refused, network.host_nodes))
    parts = tuple(
        CProgram(f"{name}_part{step.number}", step.program, ports_of(step.program))
        for step in steps.steps
        if isinstance(step, ProgramStep)
    )
    most = max((arena_places(part.program)[1] for part in parts), default=0)
    machine_bytes = -(-most // REGION_ALIGNMENT_BYTES) * REGION_ALIGNMENT_BYTES  # the host's tensors begin at a page
    return PartsNetwork(name, ends, parts, steps.steps, kinds, functions, places, machine_bytes, size)


def parts_header(network: PartsNetwork) -> str:
    """NAME.h."""
    name, upper = network.name, network.name.upper()
    lines = [f"#ifndef {upper}_H", f"#define {upper}_H", ""]
    lines += [f'#include "{part.name}.h"' for part in network.parts] or ['#include "tilewright.h"']
    lines += ["", "#ifdef __cplusplus", 'extern "C" {', "#endif", ""]
    lines += [
        f"#define {upper}_PROGRAMS {len(network.parts)}U",
        f"extern const tilewright_program *const {name}_programs[{max(1, len(network.parts))}];",
        "",
        f"#define {upper}_ARENA_BYTES {network.machine_bytes + network.values_bytes}U",
    ]
    for end in network.ends:
        way = "Input" if end.is_input else "Output"
        lines += ["", f"/* {way} {comment(end.title)}: {end.about}. */"]
        lines += [f"#define {upper}_{end.name.upper()}_ELEMENTS {end.elements}U", f"{end.signature(name)};"]
    lines += [
        "",
        "/* Runs the network on the inputs that are in the arena: each program on the machine, and what the processor",
        f" * computes around them. `programs` are {name}_programs, or copies by tilewright_place. At most",
        " * so many polls for each program. Device: open or loaded. */",
        f"{_infer(name)};",
        *("", "#ifdef __cplusplus", "}", "#endif", "", "#endif"),
    ]
    return "\n".join(lines) + "\n"


def parts_source(network: PartsNetwork) -> str:
    """NAME.c."""
    name = network.name
    programs = ", ".join(f"&{part.name}_program" for part in network.parts) or "NULL"
    array = f"const tilewright_program *const {name}_programs[{max(1, len(network.parts))}] = {{{programs}}};\n"
    return "\n".join(
        [
            f'#include "{name}.h"\n#include "tilewright_host.h"\n',
            "#if defined(__clang__)\n#pragma STDC FP_CONTRACT OFF /* as tilewright_host.c says */\n#endif\n",
            array,
            network.functions.text,
            *(_copied(network, end) for end in network.ends),
            _infer_source(network),
        ]
    )


def _infer(name: str) -> str:
    return (
        f"tilewright_status {name}_infer(tilewright_device *device, const tilewright_program *const *programs, "
        "void *arena,\n"
        f"{'':{len(f'tilewright_status {name}_infer(')}}uint32_t polls)"
    )


def _infer_source(network: PartsNetwork) -> str:
    lines = [f"uint8_t *values = (uint8_t *)arena + {network.machine_bytes}U;", "tilewright_status status;"]
    if not network.parts:
        lines = [lines[0], "(void)device;", "(void)programs;", "(void)polls;"]
    for number, step in enumerate(network.steps):
        if not isinstance(step, ProgramStep):
            lines.append(network.functions.calls[number])
            continue
        part = network.parts[step.number]
        given, made = ([port for port in part.ports if port.is_input is way] for way in (True, False))
        lines += [
            f"status = tilewright_load(device, programs[{step.number}], arena);",
            *("if (status != TILEWRIGHT_OK) {", "    return status;", "}"),
            *(f"{part.name}_set_{port.name}(arena, {_pointer(network, port, 'const ')});" for port in given),
            "status = tilewright_infer(device, polls);",
            *("if (status != TILEWRIGHT_OK) {", "    return status;", "}"),
            *(f"{part.name}_get_{port.name}(arena, {_pointer(network, port, '')});" for port in made),
        ]
    body = "\n".join(f"    {line}" for line in [*lines, "return TILEWRIGHT_OK;"])
    return f"{_infer(network.name)}\n{{\n{body}\n}}\n"


def _pointer(network: PartsNetwork, port: Port, constant: str) -> str:
    return f"({constant}{port.kind} *)({constant}void *)(values + {network.places[port.title]}U)"


def _copied(network: PartsNetwork, end: End) -> str:
    """The function of an input or output: a copy to or from its place."""
    first = network.machine_bytes + network.places[end.title]
    constant = "" if end.is_input else "const "
    pointer = f"{constant}{end.kind} *"
    held = f"{pointer}held = ({pointer})({constant}void *)(({constant}uint8_t *)arena + {first}U);"
    copy = "held[place] = values[place];" if end.is_input else "values[place] = held[place];"
    return f"""\
{end.signature(network.name)}
{{
    {held}
    size_t place;
    for (place = 0; place < {end.elements}U; place++) {{
        {copy}
    }}
}}
"""


def _ends(network: Partitioned) -> tuple[End, ...]:
    names = {
        True: c_names((value.name for value in network.inputs), "input"),
        False: c_names((value.name for value in network.outputs), "output"),
    }
    ways = [True] * len(network.inputs) + [False] * len(network.outputs)
    return tuple(
        End(value.name, names[is_input][value.name], C_TYPES[_kind(value).dtype], _kind(value).shape, is_input)
        for value, is_input in zip((*network.inputs, *network.outputs), ways, strict=True)
    )


def _kind(value: NetworkValue) -> TensorKind:
    """Raises InputError for a type that C has not, and for a size that is not known."""
    sizes = tuple(size for size in value.shape if size is not None)
    if value.dtype not in C_TYPES or len(sizes) < len(value.shape):
        shape = " × ".join("?" if size is None else str(size) for size in value.shape)
        raise InputError(
            f"{value.name!r} is {value.dtype} of {shape}; a bundle takes {', '.join(C_TYPES)} of fixed sizes: "
            "convert it in the model"
        )
    return TensorKind(value.dtype, sizes)


def _refusal(refused: Sequence[tuple[str, NoCode]], host_nodes: Sequence[HostNode]) -> str:
    """Which nodes have no C, why, and why they are on the host at all."""
    known = {node.name: node for node in host_nodes}
    shown = []
    for name, error in refused[:MOST_SHOWN]:
        node = known.get(name)
        about = f"{name} ({node.op_type}), on the host since {node.reason}" if node is not None else name
        shown.append(f"{about}: there is no C for it, {error}")
    more = f"; and {len(refused) - MOST_SHOWN} more" if len(refused) > MOST_SHOWN else ""
    count = f"{len(refused)} node{'s' if len(refused) > 1 else ''}"
    return (
        f"a bundle has no code for {count} of the host: {'; '.join(shown)}{more}. An instruction that computes it "
        "brings it onto the machine: `tilewright operators --isa MACHINE` says which machine has one"
    )

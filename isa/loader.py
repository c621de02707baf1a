"""From YAML to a Machine: reads, merges, checks everything, and reports all faults of a file at once."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from isa.encoding import (
    ACCUMULATE,
    OPCODE_BITS,
    InstructionFormat,
    Loop,
    Operand,
    lay_out_fields,
)
from isa.errors import IsaError
from isa.expression import evaluate, evaluate_node
from isa.machine import ENGINES, TEMPLATES, Engine, Machine
from isa.memory import DRAM, REGIONS, Dram, Element, Memory, integer_element, storage_bits, structured_element
from isa.numeric import IntegerType, Interval, Rounding, parse_integer_type
from isa.statement import Expr, Op, Scope, Statement, did_you_mean, parse_statement
from isa.templates import violations
from isa.timing import BURST_BEATS
from isa.yaml_tree import Tree, Where, apply_overrides, merge, parse_yaml

SPECS = Path(__file__).parent / "specs"
"""The machines that ship with Tilewright."""

MAX_INSTRUCTION_BITS = 2048


class MachineFileError(IsaError):
    """Every fault of a machine file: one line each, with its place, the key and what would be right."""

    def __init__(self, complaints: Sequence[str]) -> None:
        super().__init__("\n".join(complaints))
        self.complaints = tuple(complaints)


def shipped_machines() -> tuple[str, ...]:
    """Names of the machines in `isa/specs`, sorted."""
    return tuple(sorted(path.stem for path in SPECS.glob("*.yaml")))


def load_machine(name_or_path: str | Path, overrides: Sequence[str] = ()) -> Machine:
    """The machine of a shipped name (`base16`) or a YAML file, with `key.path=value` overrides applied.

    Raises IsaError when there is no such machine, MachineFileError with every fault when it is not valid.
    """
    path = _find(str(name_or_path), None)
    tree = apply_overrides(_read(path, ()), overrides)
    name = path.stem + "".join(f"[{setting}]" for setting in overrides)
    return build_machine(tree, name)


def load_machine_text(text: str, name: str) -> Machine:
    """The machine of a YAML text; `name` stands for the file in messages, and names it if the text does not."""
    tree = parse_yaml(text, name)
    if isinstance(tree.value, Mapping) and "extends" in tree.value:
        base = _find(_string(tree.value["extends"]), None)
        tree = merge(_read(base, ()), _without(tree, "extends"))
    return build_machine(tree, name)


def build_machine(tree: Tree, name: str) -> Machine:
    """Check a merged tree and build the machine. Raises MachineFileError with every fault found."""
    return _Builder(tree, name).build()


# -- files -------------------------------------------------------------------------------------------------------------


def _find(name: str, beside: Path | None) -> Path:
    is_path = name.endswith((".yaml", ".yml")) or "/" in name
    path = (beside or Path()) / name if is_path else SPECS / f"{name}.yaml"
    if not path.is_file():
        hint = "" if is_path else f"{did_you_mean(name, shipped_machines())}; there are {', '.join(shipped_machines())}"
        raise IsaError(f"no machine {name!r}{hint}{'' if is_path else ', or give a path to a .yaml file'}")
    return path


def _read(path: Path, above: tuple[Path, ...]) -> Tree:
    if path.resolve() in above:
        raise IsaError(f"{path}: extends itself, by way of {' → '.join(p.name for p in above)}")
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise IsaError(f"{path}: cannot be read: {error}") from error
    tree = parse_yaml(text, str(path) if path.parent != SPECS else path.name)
    if not isinstance(tree.value, Mapping):
        raise IsaError(f"{tree.where}: a machine file is a mapping, not {tree.kind}")
    if "extends" not in tree.value:
        return tree
    base = _find(_string(tree.value["extends"]), path.parent)
    return merge(_read(base, (*above, path.resolve())), _without(tree, "extends"))


def _without(tree: Tree, key: str) -> Tree:
    assert isinstance(tree.value, Mapping)
    return Tree({k: v for k, v in tree.value.items() if k != key}, tree.where)


def _string(tree: Tree) -> str:
    if not isinstance(tree.value, str):
        raise IsaError(f"{tree.where}: expected a name, not {tree.kind}")
    return tree.value


# -- building ----------------------------------------------------------------------------------------------------------

MACHINE_KEYS = {
    "name": False,
    "about": False,
    "parameters": False,
    "rounding": True,
    "array": True,
    "lanes": True,
    "wait_bits": True,
    "dram": True,
    "memories": True,
    "engines": True,
    "instructions": True,
}
"""Keys of a machine file, and whether they must be there."""

ARRAY_KEYS = {"rows": True, "cols": True}
DRAM_KEYS = {"bus_bytes": True, "latency_cycles": True, "outstanding_beats": True, "offset_bits": True}
MEMORY_KEYS = {"element": True, "width": True, "depth": False, "kib": False, "banks": True}
ENGINE_KEYS = {"queue": True, "reads": True, "writes": True}
INSTRUCTION_KEYS = {
    "about": False,
    "engine": True,
    "opcode": False,
    "loops": True,
    "reduce": False,
    "from": True,
    "to": True,
    "imm": False,
    "flags": False,
    "bits": False,
    "do": True,
}


class _Builder:
    """Walks the tree once, noting complaints; builds the machine only when there are none."""

    def __init__(self, tree: Tree, name: str) -> None:
        self._tree = tree
        self._name = name
        self._complaints: list[tuple[Where, str]] = []
        self._names: dict[str, int] = {}
        self._rounding = Rounding.EVEN
        self._memories: dict[str, Memory] = {}
        self._engines: dict[str, Engine] = {}
        self._address_bits: dict[str, int] = {}
        self._is_array_known = True  # otherwise what follows from its sizes is not complained of

    def build(self) -> Machine:
        top = self._mapping(self._tree, "", MACHINE_KEYS)
        name = self._word(top["name"], "name") if "name" in top else self._name
        about = self._text(top.get("about"), "about")
        self._read_parameters(top.get("parameters"))
        array = self._mapping(top.get("array"), "array", ARRAY_KEYS)
        rows = self._integer(array.get("rows"), "array.rows", 1, 256)
        cols = self._integer(array.get("cols"), "array.cols", 1, 256)
        self._names.update(rows=rows, cols=cols)
        lanes = self._integer(top.get("lanes"), "lanes", 1, 256)
        self._names.update(lanes=lanes)
        for side, count in (("rows", rows), ("cols", cols)):
            if count % lanes:
                self._complain(top["lanes"].where, "lanes", f"array.{side} = {count} is not a multiple of lanes = {lanes}")
        self._is_array_known = not self._complaints
        self._read_rounding(top.get("rounding"))
        wait_bits = self._integer(top.get("wait_bits"), "wait_bits", 4, 32)
        dram = self._read_dram(top.get("dram"))
        self._read_memories(top.get("memories"))
        self._read_engines(top.get("engines"))
        formats = self._read_instructions(top.get("instructions"), wait_bits)
        self._check_arrays_agree(top.get("instructions"), formats)
        if self._complaints:
            ordered = sorted(dict.fromkeys(self._complaints), key=lambda c: (c[0].file, c[0].line, c[0].column))
            raise MachineFileError([f"{where}: {message}" for where, message in ordered])
        bits = max((of.bits for of in formats), default=8)
        step = max(8, dram.bus_bytes)
        return Machine(
            name=name,
            about=about,
            rows=rows,
            cols=cols,
            lanes=lanes,
            rounding=self._rounding,
            wait_bits=wait_bits,
            dram=dram,
            memories=self._memories,
            engines=self._engines,
            formats={of.mnemonic: of for of in formats},
            instruction_bytes=-(-bits // (8 * step)) * step,
            text=_canonical(self._tree, name),
        )

    # -- reading values, noting what is wrong --------------------------------------------------------------------------

    def _complain(self, where: Where, path: str, message: str) -> None:
        self._complaints.append((where, f"{path}: {message}" if path else message))

    def _mapping(self, tree: Tree | None, path: str, keys: Mapping[str, bool]) -> Mapping[str, Tree]:
        """The children of a mapping with known keys; unknown and missing ones are complained of."""
        if tree is None:
            return {}
        children = self._open_mapping(tree, path)
        for key, child in children.items():
            if key not in keys:
                self._complain(
                    child.where, path, f"unknown key {key!r}{did_you_mean(key, list(keys))}; expected {', '.join(keys)}"
                )
        for key, is_needed in keys.items():
            if is_needed and key not in children:
                self._complain(tree.where, path, f"the key {key!r} is missing")
        return {key: child for key, child in children.items() if key in keys}

    def _open_mapping(self, tree: Tree | None, path: str) -> Mapping[str, Tree]:
        if tree is None:
            return {}
        if not isinstance(tree.value, Mapping):
            self._complain(tree.where, path, f"expected a mapping, not {tree.kind}")
            return {}
        for key, child in tree.value.items():
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", key):
                self._complain(child.where, path, f"{key!r} is not a name; expected letters, digits and _")
        return {k: v for k, v in tree.value.items() if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", k)}

    def _integer(self, tree: Tree | None, path: str, low: int, high: int) -> int:
        """A number or expression from `low` to `high`; `low` stands in for one that is wrong or missing."""
        if tree is None:
            return low
        match tree.value:
            case bool() | None | float() | Mapping() | tuple():
                self._complain(tree.where, path, f"expected an integer, not {tree.kind}")
                return low
            case int(value):
                pass
            case str(text):
                if re.fullmatch(r"\s*[-+]?[0-9_.]+\s*", text):
                    self._complain(tree.where, path, f"expected an integer, not the string {text!r}; leave the quotes out")
                    return low
                try:
                    value = evaluate(text, self._names)
                except IsaError as error:
                    self._complain(tree.where, path, str(error))
                    return low
        if not low <= value <= high:
            self._complain(tree.where, path, f"{value} is out of range; expected {low} to {high}")
            return low
        return value

    def _word(self, tree: Tree | None, path: str) -> str:
        if tree is None:
            return ""
        if not isinstance(tree.value, str):
            self._complain(tree.where, path, f"expected a word, not {tree.kind}")
            return ""
        return tree.value

    _text = _word

    def _words(self, tree: Tree | None, path: str, known: Sequence[str]) -> tuple[str, ...]:
        """A list of distinct words, each one of `known`."""
        if tree is None:
            return ()
        if not isinstance(tree.value, tuple):
            self._complain(tree.where, path, f"expected a list such as [{', '.join(known[:2])}], not {tree.kind}")
            return ()
        words: list[str] = []
        for item in tree.value:
            word = self._word(item, path)
            if word in words:
                self._complain(item.where, path, f"{word!r} stands twice")
            elif word in known:
                words.append(word)
            elif word:
                self._complain(item.where, path, f"unknown {word!r}{did_you_mean(word, list(known))}; expected {', '.join(known)}")
        return tuple(words)

    def _type(self, tree: Tree, path: str) -> IntegerType | None:
        try:
            return parse_integer_type(str(tree.value))
        except IsaError as error:
            self._complain(tree.where, path, str(error))
            return None

    # -- sections ------------------------------------------------------------------------------------------------------

    def _read_parameters(self, tree: Tree | None) -> None:
        for name, child in self._open_mapping(tree, "parameters").items():
            self._names[name] = self._integer(child, f"parameters.{name}", -(1 << 40), 1 << 40)

    def _read_rounding(self, tree: Tree | None) -> None:
        words = [rounding.value for rounding in Rounding]
        if tree is None:
            return
        word = self._word(tree, "rounding")
        if word in words:
            self._rounding = Rounding(word)
        else:
            self._complain(tree.where, "rounding", f"expected {', '.join(words)}, not {tree.kind}")

    def _read_dram(self, tree: Tree | None) -> Dram:
        keys = self._mapping(tree, "dram", DRAM_KEYS)
        bus_bytes = self._integer(keys.get("bus_bytes"), "dram.bus_bytes", 1, 128)
        if bus_bytes & (bus_bytes - 1):
            self._complain(keys["bus_bytes"].where, "dram.bus_bytes", f"{bus_bytes} is not a power of two, as AXI4 needs")
        latency = self._integer(keys.get("latency_cycles"), "dram.latency_cycles", 1, 10_000)
        beats = self._integer(keys.get("outstanding_beats"), "dram.outstanding_beats", BURST_BEATS, 4096)
        offset_bits = self._integer(keys.get("offset_bits"), "dram.offset_bits", 12, 40)
        self._address_bits[DRAM] = offset_bits
        return Dram(bus_bytes, latency, beats, offset_bits)

    def _read_memories(self, tree: Tree | None) -> None:
        for name, child in self._open_mapping(tree, "memories").items():
            if name == DRAM:
                self._complain(child.where, "memories", f"{DRAM!r} is the memory behind the bus; choose another name")
                continue
            memory = self._read_memory(child, name)
            if memory is not None:
                self._memories[name] = memory
                self._address_bits[name] = memory.address_bits

    def _read_memory(self, tree: Tree, name: str) -> Memory | None:
        path = f"memories.{name}"
        keys = self._mapping(tree, path, MEMORY_KEYS)
        element = self._element(keys.get("element"), f"{path}.element")
        width = self._integer(keys.get("width"), f"{path}.width", 1, 256)
        banks = self._integer(keys.get("banks"), f"{path}.banks", 1, 64)
        if ("depth" in keys) == ("kib" in keys):
            self._complain(tree.where, path, "give its size once: either depth (words) or kib (1024 bytes)")
            return None
        if element is None:
            return None
        if "depth" in keys:
            depth = self._integer(keys["depth"], f"{path}.depth", 1, 1 << 24)
        else:
            depth = self._integer(keys["kib"], f"{path}.kib", 1, 1 << 16) * 1024 // (width * element.bytes)
        size = keys.get("depth", keys.get("kib", tree))
        if depth < banks or depth % banks:
            self._complain(size.where, path, f"{depth} words do not divide into {banks} banks")
            depth = max(1, depth // banks) * banks  # stands in, so that one fault is told once
        return Memory(name, element, width, depth, banks)

    def _element(self, tree: Tree | None, path: str) -> Element | None:
        if tree is None:
            return None
        if not isinstance(tree.value, Mapping):
            of = self._type(tree, path)
            return integer_element(of) if of else None
        types = {name: self._type(child, f"{path}.{name}") for name, child in self._open_mapping(tree, path).items()}
        known = {name: of for name, of in types.items() if of is not None}
        if not known or len(known) < len(types):
            if not types:
                self._complain(tree.where, path, "a structure needs at least one field")
            return None
        return structured_element(known)

    def _read_engines(self, tree: Tree | None) -> None:
        children = self._mapping(tree, "engines", dict.fromkeys(ENGINES, True))
        places = [DRAM, *self._memories]
        for name in ENGINES:
            path = f"engines.{name}"
            keys = self._mapping(children.get(name), path, ENGINE_KEYS)
            queue = self._integer(keys.get("queue"), f"{path}.queue", 1, 64)
            reads = self._words(keys.get("reads"), f"{path}.reads", places)
            writes = self._words(keys.get("writes"), f"{path}.writes", places)
            self._engines[name] = Engine(name, queue, reads, writes)
            for key, reached, needs_dram in (("reads", reads, name == "load"), ("writes", writes, name == "store")):
                if key not in keys:
                    continue
                if needs_dram and reached != (DRAM,):
                    self._complain(keys[key].where, f"{path}.{key}", f"the {name} engine {key} exactly [dram]")
                if not needs_dram and DRAM in reached:
                    self._complain(keys[key].where, f"{path}.{key}", f"the {name} engine's {key} are on chip, not dram")

    def _read_instructions(self, tree: Tree | None, wait_bits: int) -> list[InstructionFormat]:
        formats: list[InstructionFormat] = []
        opcodes: dict[int, str] = {}
        children = self._open_mapping(tree, "instructions")
        taken = [child.value["opcode"].value for child in children.values() if isinstance(child.value, Mapping) and "opcode" in child.value]
        free = iter(sorted(set(range(1, 1 << OPCODE_BITS)) - {t for t in taken if isinstance(t, int)}))
        for mnemonic, child in children.items():
            path = f"instructions.{mnemonic}"
            keys = self._mapping(child, path, INSTRUCTION_KEYS)
            if "opcode" in keys:
                opcode = self._integer(keys["opcode"], f"{path}.opcode", 0, (1 << OPCODE_BITS) - 1)
            else:
                opcode = next(free, 0)
                if opcode == 0:
                    self._complain(child.where, path, f"more instructions than {OPCODE_BITS}-bit opcodes")
            if opcode in opcodes:
                where = keys["opcode"].where if "opcode" in keys else child.where
                self._complain(where, f"{path}.opcode", f"opcode {opcode} is already that of {opcodes[opcode]}; choose another or leave it out")
            opcodes[opcode] = mnemonic
            before = len(self._complaints)
            of = self._read_instruction(child, mnemonic, keys, opcode, wait_bits)
            if of is not None and len(self._complaints) == before:
                formats.append(of)
        return formats

    def _read_instruction(
        self, tree: Tree, mnemonic: str, keys: Mapping[str, Tree], opcode: int, wait_bits: int
    ) -> InstructionFormat | None:
        path = f"instructions.{mnemonic}"
        before = len(self._complaints)
        engine = self._word(keys.get("engine"), f"{path}.engine")
        if engine not in ENGINES:
            if "engine" in keys:
                self._complain(keys["engine"].where, f"{path}.engine", f"unknown engine {engine!r}{did_you_mean(engine, ENGINES)}; expected {', '.join(ENGINES)}")
            return None
        loops = self._read_loops(keys, path)
        loop_names = [loop.name for loop in loops]
        sources = self._read_operands(keys.get("from"), f"{path}.from", loop_names)
        destinations = self._read_operands(keys.get("to"), f"{path}.to", loop_names)
        immediates = {}
        for name, child in self._open_mapping(keys.get("imm"), f"{path}.imm").items():
            of = self._type(child, f"{path}.imm.{name}")
            if of is not None:
                immediates[name] = of
        flags = self._words(keys.get("flags"), f"{path}.flags", [ACCUMULATE])
        if "to" in keys and len(destinations) != 1 and isinstance(keys["to"].value, Mapping) and len(keys["to"].value) != 1:
            self._complain(keys["to"].where, f"{path}.to", "an instruction has exactly one destination")
        self._check_names(tree, path, loop_names, sources, destinations, immediates)
        self._check_reach(keys, path, self._engines.get(engine), sources, destinations)
        if len(self._complaints) > before or "do" not in keys or not destinations:
            return None
        sources, destinations = self._type_dram(sources, destinations)
        statement = self._read_statement(keys["do"], f"{path}.do", engine, loops, sources, destinations[0], immediates)
        if statement is None:
            return None
        for name in sorted({*immediates, *(o.name for o in sources)} - _names_used(statement.expr)):
            self._complain(keys["do"].where, f"{path}.do", f"{name} is declared and not used; use it or leave it out")
        operands = (*sources, *destinations)
        fields = lay_out_fields(
            opcode,
            ENGINES,
            wait_bits,
            loops,
            operands,
            self._address_bits,
            max(1, (len(REGIONS) - 1).bit_length()),
            immediates,
            ACCUMULATE in flags,
            self._read_widths(keys.get("bits"), f"{path}.bits", operands, loop_names),
        )
        of = InstructionFormat(
            mnemonic=mnemonic,
            about=self._text(keys.get("about"), f"{path}.about"),
            opcode=opcode,
            engine=engine,
            loops=loops,
            sources=sources,
            destination=destinations[0],
            immediates=immediates,
            has_accumulate=ACCUMULATE in flags,
            statement=statement,
            fields=fields,
        )
        for message in violations(
            of, TEMPLATES[engine], self._memories, self._names["rows"], self._names["cols"], self._names["lanes"]
        ):
            if self._is_array_known:
                self._complain(keys["do"].where, path, message)
        if of.bits > MAX_INSTRUCTION_BITS:
            self._complain(tree.where, path, f"needs {of.bits} bits; expected at most {MAX_INSTRUCTION_BITS}: use fewer or narrower loops")
        return of

    def _read_loops(self, keys: Mapping[str, Tree], path: str) -> tuple[Loop, ...]:
        bits = {
            name: self._integer(child, f"{path}.loops.{name}", 1, 24)
            for name, child in self._open_mapping(keys.get("loops"), f"{path}.loops").items()
        }
        if "loops" in keys and not bits:
            self._complain(keys["loops"].where, f"{path}.loops", "an instruction has at least one loop, such as {i: 10}")
        reduce = self._words(keys.get("reduce"), f"{path}.reduce", list(bits))
        return tuple(Loop(name, width, name in reduce) for name, width in bits.items())

    def _read_operands(self, tree: Tree | None, path: str, loops: Sequence[str]) -> tuple[Operand, ...]:
        operands = []
        for name, child in self._open_mapping(tree, path).items():
            operand = self._read_operand(name, child, f"{path}.{name}", loops)
            if operand is not None:
                operands.append(operand)
        return tuple(operands)

    def _read_operand(self, name: str, tree: Tree, path: str, loops: Sequence[str]) -> Operand | None:
        """`act`, `act[c, y, x]` or `rows // lanes * act[c, y, x]`: memory, the loops it strides over, words a block."""
        text = self._word(tree, path)
        if not text:
            return None
        try:
            node = ast.parse(text, mode="eval").body
            block = 1
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
                block, node = evaluate_node(node.left, self._names), node.right
            over = list(loops)
            if isinstance(node, ast.Subscript):
                items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
                over = [item.id if isinstance(item, ast.Name) else ast.unparse(item) for item in items]
                node = node.value
            if not isinstance(node, ast.Name):
                raise IsaError(f"{text!r} is not an operand; expected memory, memory[loops] or words * memory[loops]")
        except (SyntaxError, RecursionError):
            self._complain(tree.where, path, f"{text!r} is not an operand; expected memory, memory[loops] or words * memory[loops]")
            return None
        except IsaError as error:
            self._complain(tree.where, path, str(error))
            return None
        places = [DRAM, *self._memories]
        for loop in over:
            if loop not in loops:
                self._complain(tree.where, path, f"unknown loop {loop!r}{did_you_mean(loop, list(loops))}; expected {', '.join(loops)}")
        if len(set(over)) != len(over):
            self._complain(tree.where, path, "a loop stands twice")
        if node.id not in places:
            self._complain(tree.where, path, f"unknown memory {node.id!r}{did_you_mean(node.id, places)}; expected {', '.join(places)}")
            return None
        memory = self._memories.get(node.id)
        if memory is not None and self._is_array_known and not 1 <= block <= memory.bank_depth:
            self._complain(tree.where, path, f"a block of {block} words; expected 1 to {memory.bank_depth}, the words of a bank of {node.id}")
            return None
        element = memory.element if memory is not None else integer_element(IntegerType(8, False))
        return Operand(name, node.id, tuple(loop for loop in loops if loop in over), block, element)

    def _check_names(
        self,
        tree: Tree,
        path: str,
        loops: Sequence[str],
        sources: tuple[Operand, ...],
        destinations: tuple[Operand, ...],
        immediates: Mapping[str, IntegerType],
    ) -> None:
        names = [o.name for o in (*sources, *destinations)] + list(immediates)
        for name in sorted({name for name in names if names.count(name) > 1}):
            self._complain(tree.where, path, f"{name!r} names two things; operands and immediates need different names")
        for name in immediates:
            if name in (ACCUMULATE, "opcode"):
                self._complain(tree.where, path, f"an immediate cannot be called {name!r}")
        for name in names:
            if name in ("wait", "trip"):
                self._complain(tree.where, path, f"{name!r} is the name of every instruction's own fields; choose another")

    def _check_reach(
        self,
        keys: Mapping[str, Tree],
        path: str,
        engine: Engine | None,
        sources: tuple[Operand, ...],
        destinations: tuple[Operand, ...],
    ) -> None:
        if engine is None:
            return
        for key, operands, reach, verb in (
            ("from", sources, engine.reads, "read"),
            ("to", destinations, engine.writes, "write"),
        ):
            for operand in operands:
                if operand.memory not in reach:
                    tree = keys[key]
                    where = tree.value[operand.name].where if isinstance(tree.value, Mapping) else tree.where
                    self._complain(
                        where,
                        f"{path}.{key}.{operand.name}",
                        f"the {engine.name} engine does not {verb} {operand.memory}; it reaches: {', '.join(reach) or 'nothing'}",
                    )

    def _type_dram(
        self, sources: tuple[Operand, ...], destinations: tuple[Operand, ...]
    ) -> tuple[tuple[Operand, ...], tuple[Operand, ...]]:
        """Give a DRAM operand the element of the on-chip operand at the other end."""
        on_chip = [o.element for o in (*sources, *destinations) if o.memory != DRAM]

        def typed(operand: Operand) -> Operand:
            if operand.memory != DRAM or not on_chip:
                return operand
            return Operand(operand.name, operand.memory, operand.loops, operand.block, on_chip[0])

        return tuple(map(typed, sources)), tuple(map(typed, destinations))

    def _read_statement(
        self,
        tree: Tree,
        path: str,
        engine: str,
        loops: tuple[Loop, ...],
        sources: tuple[Operand, ...],
        destination: Operand,
        immediates: Mapping[str, IntegerType],
    ) -> Statement | None:
        text = self._word(tree, path)
        if TEMPLATES[engine] == "dma":
            return self._read_move(tree, path, text, sources, destination)
        if destination.element.type is None:
            self._complain(tree.where, path, f"{destination.name} is a structure; a statement writes one integer a lane")
            return None
        trips = 1
        for loop in loops:
            trips *= (1 << loop.bits) if loop.is_reduce else 1
        scope = Scope(
            sources={
                o.name: {f.name: f.type for f in o.element.fields} or {"": o.element.type or IntegerType(8, True)}
                for o in sources
            },
            immediates=immediates,
            destination=destination.name,
            destination_type=destination.element.type,
            reduce_trips=trips,
            dot_length=self._names["rows"],
            rounding=self._rounding,
        )
        try:
            return parse_statement(text, scope)
        except IsaError as error:
            self._complain(tree.where, path, str(error))
            return None

    def _read_move(
        self, tree: Tree, path: str, text: str, sources: tuple[Operand, ...], destination: Operand
    ) -> Statement | None:
        """A DMA statement moves whole words, whatever they hold: `destination = source`."""
        expected = f"{destination.name} = {sources[0].name if sources else '…'}"
        if re.sub(r"\s+", " ", text.strip()) != expected:
            self._complain(tree.where, path, f"a dma engine only moves: expected `{expected}`, not `{text}`")
            return None
        whole = Interval(0, (1 << min(63, storage_bits(sources[0].element.bits))) - 1)
        return Statement(destination.name, Expr(Op.SOURCE, whole, name=sources[0].name), expected)

    def _read_widths(
        self, tree: Tree | None, path: str, operands: tuple[Operand, ...], loops: Sequence[str]
    ) -> dict[str, int]:
        """Explicit widths of base and stride fields; none may be too narrow for its memory."""
        needed: dict[str, tuple[int, Operand]] = {}
        for operand in operands:
            address = self._address_bits[operand.memory]
            needed[f"{operand.name}.base"] = (address, operand)
            needed.update({f"{operand.name}.{loop}": (address + 1, operand) for loop in operand.loops})
        widths: dict[str, int] = {}
        if tree is None:
            return widths
        if not isinstance(tree.value, Mapping):
            self._complain(tree.where, path, f"expected a mapping from field to bits, not {tree.kind}")
            return widths
        for name, child in tree.value.items():
            if name not in needed:
                self._complain(child.where, path, f"unknown field {name!r}{did_you_mean(name, list(needed))}; expected {', '.join(needed)}")
                continue
            bits, operand = needed[name]
            width = self._integer(child, f"{path}.{name}", 1, 48)
            if width < bits:
                self._complain(
                    child.where, f"{path}.{name}", f"{width} bits are too narrow for {operand.memory}; expected at least {bits}, or leave it out"
                )
            widths[name] = max(width, bits)
        return widths

    def _check_arrays_agree(self, tree: Tree | None, formats: Sequence[InstructionFormat]) -> None:
        """All systolic instructions share one array, so they use the same memories."""
        of_array = [of for of in formats if of.engine == "mma"]
        for of in of_array[1:]:
            first = of_array[0]
            if [o.memory for o in of.operands] != [o.memory for o in first.operands]:
                assert tree is not None and isinstance(tree.value, Mapping)
                self._complain(
                    tree.value[of.mnemonic].where,
                    f"instructions.{of.mnemonic}",
                    f"uses other memories than {first.mnemonic}; the array is wired to one set",
                )


def _names_used(expr: Expr) -> set[str]:
    """Operands and immediates that an expression mentions."""
    return {expr.name} - {""} | {name for arg in expr.args for name in _names_used(arg)}


def _canonical(tree: Tree, name: str) -> str:
    """The merged file as YAML text, keys in a fixed order, its name first."""
    plain = tree.plain()
    plain["name"] = name
    ordered = {key: plain[key] for key in MACHINE_KEYS if key in plain}
    return str(yaml.dump(ordered, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120))


class _Dumper(yaml.SafeDumper):
    """Writes every value in full: no anchors, so equal machines have equal texts."""

    def ignore_aliases(self, data: object) -> bool:
        return True

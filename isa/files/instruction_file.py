"""The `instructions` section of a machine file: loop nests, operands and statements become formats."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright.isa.engines.templates import table_violations, violations
from tilewright.isa.errors import IsaError, short
from tilewright.isa.files.expression import MAX_EXPRESSION_CHARACTERS, evaluate_node
from tilewright.isa.files.keys import FIELD_BITS, INSTRUCTION_KEYS, LOOP_BITS, OPERAND, STATEMENT
from tilewright.isa.files.reader import Reader
from tilewright.isa.files.yaml_tree import Tree
from tilewright.isa.language.numeric import IntegerType, Interval, Rounding
from tilewright.isa.language.statement import Expr, Op, Scope, Statement, did_you_mean, parse_statement
from tilewright.isa.machine.encoding import ACCUMULATE, OPCODE_BITS, InstructionFormat, Loop, Operand, lay_out_fields
from tilewright.isa.machine.machine import ENGINES, TEMPLATES, Engine, Template
from tilewright.isa.machine.memory import DRAM, REGIONS, Dram, Memory, integer_element, storage_bits

MAX_INSTRUCTION_BITS = 2048


@dataclass(frozen=True, slots=True)
class MachineSizes:
    """What instructions need to know of the rest of the file."""

    rows: int
    cols: int
    lanes: int
    is_array_known: bool  # False: the sizes are stand-ins, and nothing that follows from them is a fault
    rounding: Rounding
    wait_bits: int
    dram: Dram
    memories: Mapping[str, Memory]
    faulty_memories: tuple[str, ...]  # complained of already: instructions that use them are left alone
    engines: Mapping[str, Engine]

    def address_bits(self, memory: str) -> int:
        """Bits of a base address: of words on chip, of bytes into a region for DRAM."""
        return self.dram.offset_bits if memory == DRAM else self.memories[memory].address_bits


class InstructionReader:
    """Reads instructions one by one, noting complaints in the shared reader."""

    def __init__(self, reader: Reader, machine: MachineSizes) -> None:
        self._reader = reader
        self._machine = machine

    def read(self, tree: Tree | None) -> list[InstructionFormat]:
        """Every instruction that is right; what is wrong with the others is noted."""
        formats: list[InstructionFormat] = []
        opcodes: dict[int, str] = {}
        children = self._reader.open_mapping(tree, "instructions")
        entries = {
            mnemonic: self._reader.mapping(child, f"instructions.{mnemonic}", INSTRUCTION_KEYS)
            for mnemonic, child in children.items()
        }
        entries = {mnemonic: keys for mnemonic, keys in entries.items() if self._is_there(mnemonic, keys)}
        chosen = {
            mnemonic: self._reader.number(keys, f"instructions.{mnemonic}", "opcode", INSTRUCTION_KEYS)
            for mnemonic, keys in entries.items()
            if "opcode" in keys
        }
        free = iter(sorted(set(range(1, 1 << OPCODE_BITS)) - set(chosen.values())))
        for mnemonic, keys in entries.items():
            path, child = f"instructions.{mnemonic}", children[mnemonic]
            opcode = chosen[mnemonic] if mnemonic in chosen else next(free, 0)
            if opcode == 0 and mnemonic not in chosen:
                self._reader.complain(child.where, path, f"more instructions than {OPCODE_BITS}-bit opcodes")
            elif opcode in opcodes:
                where = keys["opcode"].where if "opcode" in keys else child.where
                self._reader.complain(
                    where,
                    f"{path}.opcode",
                    f"opcode {opcode} is already that of {opcodes[opcode]}; choose another or leave it out",
                )
            opcodes[opcode] = mnemonic
            before = self._reader.complaint_count
            of = self._read_instruction(child, mnemonic, keys, opcode)
            if of is not None and self._reader.complaint_count == before:
                formats.append(of)
        self._check_arrays_agree(tree, formats)
        for mnemonic, message in table_violations(formats, self._machine.memories):
            if self._machine.is_array_known:
                self._reader.complain(children[mnemonic].where, f"instructions.{mnemonic}", message)
        return formats

    def _is_there(self, mnemonic: str, keys: Mapping[str, Tree]) -> bool:
        """Whether the machine has an instruction: what its `if` says."""
        return "if" not in keys or self._reader.number(keys, f"instructions.{mnemonic}", "if", INSTRUCTION_KEYS) == 1

    def _read_instruction(
        self, tree: Tree, mnemonic: str, keys: Mapping[str, Tree], opcode: int
    ) -> InstructionFormat | None:
        path = f"instructions.{mnemonic}"
        before = self._reader.complaint_count
        engine = self._reader.word(keys.get("engine"), f"{path}.engine")
        if engine not in ENGINES:
            if "engine" in keys:
                self._reader.complain(
                    keys["engine"].where,
                    f"{path}.engine",
                    f"unknown engine {engine!r}{did_you_mean(engine, ENGINES)}; expected {', '.join(ENGINES)}",
                )
            return None
        if self._uses_faulty_memory(keys):
            return None
        loops = self._read_loops(keys, path)
        loop_names = [loop.name for loop in loops]
        sources = self._read_operands(keys.get("from"), f"{path}.from", loop_names)
        destinations = self._read_operands(keys.get("to"), f"{path}.to", loop_names)
        immediates = {}
        for name, child in self._reader.open_mapping(keys.get("imm"), f"{path}.imm").items():
            immediate = self._reader.type(child, f"{path}.imm.{name}")
            if immediate is not None:
                immediates[name] = immediate
        flags = self._reader.words(keys.get("flags"), f"{path}.flags", [ACCUMULATE])
        if (
            "to" in keys
            and len(destinations) != 1
            and isinstance(keys["to"].value, Mapping)
            and len(keys["to"].value) != 1
        ):
            self._reader.complain(keys["to"].where, f"{path}.to", "an instruction has exactly one destination")
        self._check_names(tree, path, loop_names, sources, destinations, immediates)
        self._check_reach(keys, path, self._machine.engines.get(engine), sources, destinations)
        if self._reader.complaint_count > before or "do" not in keys or not destinations:
            return None
        sources, destinations = self._type_dram(sources, destinations)
        statement = self._read_statement(keys["do"], f"{path}.do", engine, loops, sources, destinations[0], immediates)
        if statement is None:
            return None
        for key in ("from", "imm"):
            for name, child in self._reader.open_mapping(keys.get(key), path).items():
                if name not in _names_used(statement.expr):
                    message = "is declared and the statement does not use it; use it or leave it out"
                    self._reader.complain(child.where, f"{path}.{key}.{name}", message)
        operands = (*sources, *destinations)
        fields = lay_out_fields(
            opcode,
            ENGINES,
            self._machine.wait_bits,
            loops,
            operands,
            {o.memory: self._machine.address_bits(o.memory) for o in operands},
            max(1, (len(REGIONS) - 1).bit_length()),
            immediates,
            ACCUMULATE in flags,
            self._read_widths(keys.get("bits"), f"{path}.bits", operands, loop_names),
        )
        of = InstructionFormat(
            mnemonic=mnemonic,
            about=self._reader.word(keys.get("about"), f"{path}.about"),
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
            of, TEMPLATES[engine], self._machine.memories, self._machine.rows, self._machine.cols, self._machine.lanes
        ):
            if self._machine.is_array_known:
                self._reader.complain(keys["do"].where, path, message)
        if of.bits > MAX_INSTRUCTION_BITS:
            self._reader.complain(
                tree.where,
                path,
                f"needs {of.bits} bits; expected at most {MAX_INSTRUCTION_BITS}: use fewer or narrower loops",
            )
        return of

    def _uses_faulty_memory(self, keys: Mapping[str, Tree]) -> bool:
        sides = [keys[key].value for key in ("from", "to") if key in keys]
        texts = [str(child.value) for side in sides if isinstance(side, Mapping) for child in side.values()]
        faulty = "|".join(self._machine.faulty_memories)
        return bool(faulty) and any(re.search(rf"\b({faulty})\b", text) for text in texts)

    def _read_loops(self, keys: Mapping[str, Tree], path: str) -> tuple[Loop, ...]:
        bits = {
            name: self._reader.integer(child, f"{path}.loops.{name}", LOOP_BITS)
            for name, child in self._reader.open_mapping(keys.get("loops"), f"{path}.loops").items()
        }
        if "loops" in keys and not bits:
            self._reader.complain(
                keys["loops"].where, f"{path}.loops", "an instruction has at least one loop, such as {i: 10}"
            )
        reduce = self._reader.words(keys.get("reduce"), f"{path}.reduce", list(bits))
        return tuple(Loop(name, width, name in reduce) for name, width in bits.items())

    def _read_operands(self, tree: Tree | None, path: str, loops: Sequence[str]) -> tuple[Operand, ...]:
        operands = []
        for name, child in self._reader.open_mapping(tree, path).items():
            operand = self._read_operand(name, child, f"{path}.{name}", loops)
            if operand is not None:
                operands.append(operand)
        return tuple(operands)

    def _read_operand(self, name: str, tree: Tree, path: str, loops: Sequence[str]) -> Operand | None:
        """`act`, `act[]`, `act[c, x]` or `rows // lanes * act[c, x]`: memory, loops it strides over, words a block."""
        text = self._reader.word(tree, path)
        if not isinstance(tree.value, str):
            return None
        expected = "expected memory, memory[loops] or words * memory[loops]"
        if len(text) > MAX_EXPRESSION_CHARACTERS or not OPERAND.may_be(text):
            self._reader.complain(tree.where, path, f"{short(text)} is not an operand; {expected}")
            return None
        try:
            moving = text.strip()
            still = re.search(r"\s*\[\s*\]$", moving)
            node = ast.parse(moving[: still.start()] if still else moving, mode="eval").body
            block = 1
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
                block, node = evaluate_node(node.left, self._reader.names), node.right
            over = [] if still else list(loops)
            if isinstance(node, ast.Subscript) and not still:
                items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
                over = [item.id if isinstance(item, ast.Name) else ast.unparse(item) for item in items]
                node = node.value
            if not isinstance(node, ast.Name):
                raise IsaError(f"{short(text)} is not an operand; {expected}")
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            self._reader.complain(tree.where, path, f"{short(text)} is not an operand; {expected}")
            return None
        except IsaError as error:
            self._reader.complain(tree.where, path, str(error))
            return None
        places = [DRAM, *self._machine.memories]
        for loop in over:
            if loop not in loops:
                self._reader.complain(
                    tree.where,
                    path,
                    f"unknown loop {loop!r}{did_you_mean(loop, list(loops))}; expected {', '.join(loops)}",
                )
        if len(set(over)) != len(over):
            self._reader.complain(tree.where, path, "a loop stands twice")
        if node.id not in places:
            self._reader.complain(
                tree.where,
                path,
                f"unknown memory {node.id!r}{did_you_mean(node.id, places)}; expected {', '.join(places)}",
            )
            return None
        memory = self._machine.memories.get(node.id)
        if memory is not None and self._machine.is_array_known and not 1 <= block <= memory.bank_depth:
            self._reader.complain(
                tree.where,
                path,
                f"a block of {block} words; expected 1 to {memory.bank_depth}, the words of a bank of {node.id}",
            )
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
            self._reader.complain(
                tree.where, path, f"{name!r} names two things; operands and immediates need different names"
            )
        for name in immediates:
            if name in (ACCUMULATE, "opcode"):
                self._reader.complain(tree.where, path, f"an immediate cannot be called {name!r}")
        for name in names:
            if name in ("wait", "trip"):
                self._reader.complain(
                    tree.where, path, f"{name!r} is the name of every instruction's own fields; choose another"
                )

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
                    self._reader.complain(
                        where,
                        f"{path}.{key}.{operand.name}",
                        f"the {engine.name} engine does not {verb} {operand.memory}; it {verb}s {', '.join(reach)}",
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
        text = self._reader.word(tree, path)
        if not isinstance(tree.value, str):
            return None
        if TEMPLATES[engine] is Template.DMA:
            return self._read_move(tree, path, text, sources, destination)
        if destination.element.type is None:
            self._reader.complain(
                tree.where, path, f"{destination.name} is a structure; a statement writes one integer a lane"
            )
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
            dot_length=self._machine.rows,
            rounding=self._machine.rounding,
            blocks={o.name: o.block for o in sources},
            lanes=self._machine.lanes,
        )
        try:
            if not STATEMENT.may_be(text):
                raise IsaError(f"{short(text)} is not a statement: expected `{destination.name} = expression`")
            return parse_statement(text, scope)
        except IsaError as error:
            self._reader.complain(tree.where, path, f"{error}{_cut_hint(text)}")
            return None

    def _read_move(
        self, tree: Tree, path: str, text: str, sources: tuple[Operand, ...], destination: Operand
    ) -> Statement | None:
        """A DMA statement moves whole words, whatever they hold: `destination = source`."""
        if not sources:
            self._reader.complain(tree.where, path, "a dma engine moves one operand: give it a source in `from:`")
            return None
        expected = f"{destination.name} = {sources[0].name}"
        if re.sub(r"\s+", " ", text.strip()) != expected:
            quoted = f"`{text}`" if len(text) <= 100 else short(text)
            self._reader.complain(tree.where, path, f"a dma engine only moves: expected `{expected}`, not {quoted}")
            return None
        whole = Interval(0, (1 << min(63, storage_bits(sources[0].element.bits))) - 1)
        return Statement(destination.name, Expr(Op.SOURCE, whole, name=sources[0].name), expected)

    def _read_widths(
        self, tree: Tree | None, path: str, operands: tuple[Operand, ...], loops: Sequence[str]
    ) -> dict[str, int]:
        """Explicit widths of base and stride fields; none may be too narrow for its memory."""
        needed: dict[str, tuple[int, Operand]] = {}
        for operand in operands:
            address = self._machine.address_bits(operand.memory)
            needed[f"{operand.name}.base"] = (address, operand)
            needed.update({f"{operand.name}.{loop}": (address + 1, operand) for loop in operand.loops})
        widths: dict[str, int] = {}
        if tree is None:
            return widths
        if not isinstance(tree.value, Mapping):
            self._reader.complain(tree.where, path, f"expected a mapping from field to bits, not {tree.kind}")
            return widths
        for name, child in tree.value.items():
            if name not in needed:
                self._reader.complain(
                    child.where,
                    path,
                    f"unknown field {name!r}{did_you_mean(name, list(needed))}; expected {', '.join(needed)}",
                )
                continue
            bits, operand = needed[name]
            width = self._reader.integer(child, f"{path}.{name}", FIELD_BITS)
            if width < bits:
                self._reader.complain(
                    child.where,
                    f"{path}.{name}",
                    f"{width} bits are too narrow for {operand.memory}; expected at least {bits}, or leave it out",
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
                self._reader.complain(
                    tree.value[of.mnemonic].where,
                    f"instructions.{of.mnemonic}",
                    f"uses other memories than {first.mnemonic}; the array is wired to one set",
                )


def _cut_hint(text: str) -> str:
    """What to do about a text that YAML cut at a comma, seen by its open parenthesis."""
    is_cut = text.count("(") > text.count(")")
    return " (inside { } YAML ends a value at a comma: put it in quotes)" if is_cut else ""


def _names_used(expr: Expr) -> set[str]:
    """Operands and immediates that an expression mentions."""
    return {expr.name} - {""} | {name for arg in expr.args for name in _names_used(arg)}

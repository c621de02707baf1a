"""A component as mathematics: Amaranth → RTLIL → SMT-LIB by Yosys → z3 terms, from cycle to cycle."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import z3
from amaranth.lib import wiring

from tilewright.rtl.proof.logic import all_of
from tilewright.rtl.proof.numbers import natural, signed
from tilewright.rtl.yosys import TOP, run_yosys

SCRIPT = "proc\nflatten\nopt_clean\nmemory_map\nopt_expr\nopt_clean\nwrite_smt2 -wires out"

State = Mapping[z3.ExprRef, z3.ExprRef]
"""Leaf (register or input) → its term in one cycle."""


@dataclass(frozen=True, slots=True)
class SymbolicNetlist:
    """Terms over `leaves`, which are constants: the bits of registers and inputs in one cycle.

    `after` holds the registers among them with their values in the next cycle; `initial` says what holds after reset.
    `nets` are the named signals of the component and its submodules (`queue.level`), as bit vectors.
    """

    leaves: tuple[z3.ExprRef, ...]
    after: Mapping[z3.ExprRef, z3.ExprRef]
    initial: z3.BoolRef
    nets: Mapping[str, z3.BitVecRef]


def netlist(component: wiring.Component, without: Sequence[str] = (), forgetful: Sequence[str] = ()) -> SymbolicNetlist:
    """Translate a component, all its submodules flattened into it.

    The outputs of the submodules `without`, and what the memories of `forgetful` ones give, may be anything in every
    cycle: what holds then, holds whatever they do.
    """
    contents = [f"{TOP}.{submodule}/{kind}:*" for submodule in without for kind in "cpm"]  # cells, processes, memories
    contents += [f"{TOP}.{submodule}/{kind}" for submodule in forgetful for kind in ("t:$mem*", "m:*")]
    cuts = "".join(f"delete {content}\n" for content in contents)
    keeps = "setattr -set keep 1 w:* w:$* %d\n" if cuts else ""  # also the named inputs of what is empty now
    text = run_yosys(component, cuts + keeps + SCRIPT)
    names = _net_names(text)
    probes = "".join(f"(assert (= (|{TOP}_n {name}| s) (|{TOP}_n {name}| s)))\n" for name in names)
    states = f"(declare-const s |{TOP}_s|)\n(declare-const n |{TOP}_s|)\n"
    # An equation of a net with itself would be simplified away by a solver, but the parser keeps it.
    wanted = f"(assert (|{TOP}_t| s n))\n(assert (|{TOP}_i| s))\n{probes}"
    transition, initial, *equations = z3.parse_smt2_string(text + states + wanted)
    leaves: dict[str, z3.ExprRef] = {}
    uses: dict[z3.ExprRef, z3.ExprRef] = {}
    _collect_leaves([transition, initial, *equations], leaves, uses)
    steps = _conjuncts(transition)
    registers = {step.arg(1).decl().name() for step in steps}
    apart = _cut_apart([equation.arg(0) for equation in equations], registers)
    for use, leaf in list(uses.items()):
        if leaf.decl().name() in apart:
            parts = apart[leaf.decl().name()]
            uses[use] = z3.Concat(*reversed(parts))
            del leaves[leaf.decl().name()]
            leaves |= {part.decl().name(): part for part in parts}
    values = [*(step.arg(0) for step in steps), *(equation.arg(0) for equation in equations), initial]
    terms = substituted(values, list(uses.items()))
    after = dict(zip((leaves[step.arg(1).decl().name()] for step in steps), terms[: len(steps)], strict=True))
    nets = dict(zip(names, (_bits(_of_leaf(term)) for term in terms[len(steps) : -1]), strict=True))
    return SymbolicNetlist(tuple(leaves.values()), after, terms[-1], nets)


def substituted(terms: Sequence[z3.ExprRef], pairs: Sequence[tuple[z3.ExprRef, z3.ExprRef]]) -> list[z3.ExprRef]:
    """All terms with each first of a pair replaced by the second: at once, which is much faster than one by one."""
    together = z3.Function("together", *(term.sort() for term in terms), z3.BoolSort())
    return z3.substitute(together(*terms), *pairs).children() if terms else []


def _net_names(text: str) -> list[str]:
    start = f"(define-fun |{TOP}_n "
    return [line[len(start) :].split("|")[0] for line in text.splitlines() if line.startswith(start)]


def _collect_leaves(
    formulas: Sequence[z3.ExprRef], leaves: dict[str, z3.ExprRef], uses: dict[z3.ExprRef, z3.ExprRef]
) -> None:
    """Give each undefined function of a state a constant; `uses` maps its application to state `s` to that constant."""
    todo, seen = list(formulas), set()
    while todo:
        node = todo.pop()
        if node.get_id() in seen:
            continue
        seen.add(node.get_id())
        if node.num_args() == 1 and node.arg(0).sort().name() == f"{TOP}_s":
            name = node.decl().name()
            leaf = leaves.setdefault(name, z3.Const(name, node.sort()))
            if node.arg(0).decl().name() == "s":
                uses[node] = leaf
        else:
            todo.extend(node.children())


def _cut_apart(nets: Sequence[z3.ExprRef], registers: Collection[str]) -> dict[str, list[z3.BitVecRef]]:
    """Leaves that are several inputs side by side, which Yosys makes where these come together: one for each input."""
    ends: dict[str, set[int]] = {}
    for net in nets:
        if net.decl().kind() == z3.Z3_OP_EXTRACT and net.arg(0).num_args() == 1:
            name = net.arg(0).decl().name()
            if name not in registers:
                high, low = net.params()
                ends.setdefault(name, {0, net.arg(0).size()}).update((low, high + 1))
    return {
        name: [z3.BitVec(f"{name}[{low}]", high - low) for low, high in pairwise(sorted(found))]
        for name, found in ends.items()
        if len(found) > 2
    }


def _of_leaf(net: z3.ExprRef) -> z3.ExprRef:
    """A net, of which one that is a part of leaves side by side is the leaf."""
    is_part = net.decl().kind() == z3.Z3_OP_EXTRACT and net.arg(0).decl().kind() == z3.Z3_OP_CONCAT
    return z3.simplify(net) if is_part else net


def _conjuncts(formula: z3.ExprRef) -> list[z3.ExprRef]:
    if z3.is_and(formula):
        return [part for child in formula.children() for part in _conjuncts(child)]
    return [] if z3.is_true(formula) else [formula]


def _side_by_side(net: z3.BitVecRef, low: int = 0) -> Iterator[tuple[int, z3.BitVecRef]]:
    """The parts that a net was cut into, each with the place of its lowest bit; a whole one is its only part."""
    if net.decl().kind() != z3.Z3_OP_CONCAT:
        yield low, net
        return
    for part in reversed(net.children()):
        yield from _side_by_side(part, low)
        low += part.size()


def _bits(term: z3.ExprRef) -> z3.BitVecRef:
    return z3.simplify(z3.If(term, z3.BitVecVal(1, 1), z3.BitVecVal(0, 1))) if z3.is_bool(term) else term


class NetlistRun:
    """Consecutive cycles of a netlist: any state at cycle 0, any inputs in every cycle.

    `fixed` gives registers or inputs a term in a cycle, {(net, cycle): term}. The reset input is 0 throughout.
    """

    def __init__(
        self, hardware: SymbolicNetlist, fixed: Mapping[tuple[str, int], int | z3.BitVecRef] | None = None
    ) -> None:
        self.hardware = hardware
        self.fixed: dict[tuple[z3.ExprRef, int], z3.ExprRef] = {}
        for (name, cycle), value in (fixed or {}).items():
            self._fix(name, cycle, value)
        self.reset = _reset_of(hardware)
        self.states: list[list[tuple[z3.ExprRef, z3.ExprRef]]] = []
        self.lookup: list[dict[int, z3.ExprRef]] = []
        self.known: dict[tuple[str, int], z3.BitVecRef] = {}

    def _fix(self, name: str, cycle: int, value: int | z3.BitVecRef) -> None:
        net = self.hardware.nets[name]
        term = z3.BitVecVal(value, net.size()) if isinstance(value, int) else value
        for low, part in _side_by_side(net):
            (leaf,) = (leaf for leaf in self.hardware.leaves if _bits(leaf).eq(part))
            own = z3.Extract(low + part.size() - 1, low, term)
            self.fixed[leaf, cycle] = own == 1 if z3.is_bool(leaf) else own

    def with_fixed(self, name: str, cycle: int, value: int | z3.BitVecRef) -> NetlistRun:
        """The same run with one more net that has a term in a cycle, or another term. The cycles before stay."""
        run = NetlistRun(self.hardware)
        run.fixed = dict(self.fixed)
        run._fix(name, cycle, value)
        run.states, run.lookup = self.states[:cycle], self.lookup[:cycle]
        run.known = {of: value for of, value in self.known.items() if of[1] < cycle}
        return run

    def at(self, name: str, cycle: int) -> z3.BitVecRef:
        """A net in a cycle."""
        if (name, cycle) not in self.known:
            self.known[name, cycle] = z3.simplify(self.value(self.hardware.nets[name], cycle))
        return self.known[name, cycle]

    def value(self, net: z3.BitVecRef, cycle: int) -> z3.ExprRef:
        """A register or an input is looked up: much faster than substitution."""
        state = self.state(cycle)
        found = self.lookup[cycle].get(net.get_id()) if net.num_args() == 0 else None
        return found if found is not None else z3.substitute(net, state)

    def holds(self, name: str, cycle: int) -> z3.BoolRef:
        """A one-bit net is 1 in a cycle."""
        return self.at(name, cycle) == 1

    def starts_from_reset(self) -> z3.BoolRef:
        return z3.substitute(self.hardware.initial, self.state(0))

    def part(self, prefix: str) -> SubmoduleNets:
        """A submodule in this run."""
        return SubmoduleNets(self, f"{prefix}.")

    def whole(self) -> SubmoduleNets:
        return SubmoduleNets(self, "")

    def state(self, cycle: int) -> list[tuple[z3.ExprRef, z3.ExprRef]]:
        while len(self.states) <= cycle:
            now = len(self.states)
            values = self.registers_at(now)
            self.states.append([(leaf, self.leaf_at(leaf, now, values)) for leaf in self.hardware.leaves])
            self.lookup.append({leaf.get_id(): value for leaf, value in self.states[-1]})
        return self.states[cycle]

    def registers_at(self, cycle: int) -> dict[z3.ExprRef, z3.ExprRef]:
        """The values that the cycle before gives to registers."""
        if cycle == 0:
            return {}
        registers = list(self.hardware.after)
        terms = substituted([self.hardware.after[register] for register in registers], self.states[cycle - 1])
        return dict(zip(registers, (z3.simplify(term) for term in terms), strict=True))

    def leaf_at(self, leaf: z3.ExprRef, cycle: int, registers: Mapping[z3.ExprRef, z3.ExprRef]) -> z3.ExprRef:
        fixed = self.fixed.get((leaf, cycle))
        if fixed is not None:
            return fixed
        if leaf in registers:
            return registers[leaf]
        if self.reset is not None and leaf.eq(self.reset):
            return z3.BoolVal(False) if z3.is_bool(leaf) else z3.BitVecVal(0, 1)
        return z3.Const(f"{leaf.decl().name()}@{cycle}", leaf.sort())


def _reset_of(hardware: SymbolicNetlist) -> z3.ExprRef | None:
    """The reset input, which hardware without registers does not have."""
    if "rst" not in hardware.nets:
        return None
    net = hardware.nets["rst"]
    reset = net if net.num_args() == 0 else net.arg(0)  # a bit, or If(truth value, 1, 0)
    assert any(reset.eq(leaf) for leaf in hardware.leaves) and reset.sort() in (z3.BoolSort(), z3.BitVecSort(1))
    return reset


@dataclass(frozen=True, slots=True)
class SubmoduleNets:
    """A submodule's nets by the names that they have in it; `signed` and `natural` are their values as integers."""

    run: NetlistRun
    prefix: str

    def part(self, name: str) -> SubmoduleNets:
        return SubmoduleNets(self.run, f"{self.prefix}{name}.")

    def has(self, name: str) -> bool:
        """A net may be missing when nothing depends on it."""
        return f"{self.prefix}{name}" in self.run.hardware.nets

    def at(self, name: str, cycle: int = 0) -> z3.BitVecRef:
        return self.run.at(f"{self.prefix}{name}", cycle)

    def holds(self, name: str, cycle: int = 0) -> z3.BoolRef:
        return self.at(name, cycle) == 1

    def moves(self, stream: str, cycle: int = 0) -> z3.BoolRef:
        """A payload goes over a stream."""
        return all_of(self.holds(f"{stream}__valid", cycle), self.holds(f"{stream}__ready", cycle))

    def natural(self, name: str, cycle: int = 0) -> z3.BitVecRef:
        return natural(self.at(name, cycle))

    def signed(self, name: str, cycle: int = 0) -> z3.BitVecRef:
        return signed(self.at(name, cycle))

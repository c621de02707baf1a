"""A component as mathematics: Amaranth → RTLIL → SMT-LIB by Yosys → z3 terms, from cycle to cycle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import z3
from amaranth.lib import wiring

from rtl.yosys import TOP, run_yosys

SCRIPT = "proc\nflatten\nopt_clean\nmemory_map\nopt_expr\nopt_clean\nwrite_smt2 -wires out"

State = Mapping[z3.ExprRef, z3.ExprRef]
"""Leaf (register or input) → its term in one cycle."""


@dataclass(frozen=True, slots=True)
class Netlist:
    """Terms over `leaves`, which are constants: the bits of registers and inputs in one cycle.

    `after` holds the registers among them with their values in the next cycle; `initial` says what holds after reset.
    `nets` are the named signals of the component and its submodules (`queue.level`), as bit vectors.
    """

    leaves: tuple[z3.ExprRef, ...]
    after: Mapping[z3.ExprRef, z3.ExprRef]
    initial: z3.BoolRef
    nets: Mapping[str, z3.BitVecRef]


def netlist(component: wiring.Component) -> Netlist:
    """Translate a component, all its submodules flattened into it."""
    text = run_yosys(component, SCRIPT)
    names = _net_names(text)
    probes = "".join(f"(assert (= (|{TOP}_n {name}| s) (|{TOP}_n {name}| s)))\n" for name in names)
    states = f"(declare-const s |{TOP}_s|)\n(declare-const n |{TOP}_s|)\n"
    # An equation of a net with itself would be simplified away by a solver, but the parser keeps it.
    wanted = f"(assert (|{TOP}_t| s n))\n(assert (|{TOP}_i| s))\n{probes}"
    transition, initial, *equations = z3.parse_smt2_string(text + states + wanted)
    leaves: dict[str, z3.ExprRef] = {}
    uses: dict[z3.ExprRef, z3.ExprRef] = {}
    for formula in (transition, initial, *equations):
        _collect_leaves(formula, leaves, uses)
    pairs = list(uses.items())
    after = {}
    for equation in _conjuncts(transition):
        value, register = equation.arg(0), equation.arg(1)
        after[leaves[register.decl().name()]] = z3.substitute(value, pairs)
    nets = {name: _bits(z3.substitute(equation.arg(0), pairs)) for name, equation in zip(names, equations, strict=True)}
    return Netlist(tuple(leaves.values()), after, z3.substitute(initial, pairs), nets)


def _net_names(text: str) -> list[str]:
    start = f"(define-fun |{TOP}_n "
    return [line[len(start) :].split("|")[0] for line in text.splitlines() if line.startswith(start)]


def _collect_leaves(formula: z3.ExprRef, leaves: dict[str, z3.ExprRef], uses: dict[z3.ExprRef, z3.ExprRef]) -> None:
    """Give each undefined function of a state a constant; `uses` maps its application to state `s` to that constant."""
    todo, seen = [formula], set()
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


def _conjuncts(formula: z3.ExprRef) -> list[z3.ExprRef]:
    if z3.is_and(formula):
        return [part for child in formula.children() for part in _conjuncts(child)]
    return [] if z3.is_true(formula) else [formula]


def _bits(term: z3.ExprRef) -> z3.BitVecRef:
    return z3.simplify(z3.If(term, z3.BitVecVal(1, 1), z3.BitVecVal(0, 1))) if z3.is_bool(term) else term


class Run:
    """Consecutive cycles of a netlist: any state at cycle 0, any inputs in every cycle.

    `fixed` gives registers or inputs a term in a cycle, {(net, cycle): term}. The reset input is 0 throughout.
    """

    def __init__(self, of: Netlist, fixed: Mapping[tuple[str, int], int | z3.BitVecRef] | None = None) -> None:
        self.of = of
        self.fixed = {
            (of.nets[name], cycle): z3.BitVecVal(value, of.nets[name].size()) if isinstance(value, int) else value
            for (name, cycle), value in (fixed or {}).items()
        }
        assert all(any(net.eq(leaf) for leaf in of.leaves) for net, _ in self.fixed)
        reset = of.nets["rst"]
        self.reset = reset if reset.num_args() == 0 else reset.arg(0)  # a bit, or If(truth value, 1, 0)
        assert any(self.reset.eq(leaf) for leaf in of.leaves) and self.reset.sort() in (z3.BoolSort(), z3.BitVecSort(1))
        self.states: list[list[tuple[z3.ExprRef, z3.ExprRef]]] = []

    def at(self, name: str, cycle: int) -> z3.BitVecRef:
        """A net in a cycle."""
        return z3.simplify(z3.substitute(self.of.nets[name], self.state(cycle)))

    def holds(self, name: str, cycle: int) -> z3.BoolRef:
        """A one-bit net is 1 in a cycle."""
        return self.at(name, cycle) == 1

    def starts_from_reset(self) -> z3.BoolRef:
        return z3.substitute(self.of.initial, self.state(0))

    def state(self, cycle: int) -> list[tuple[z3.ExprRef, z3.ExprRef]]:
        while len(self.states) <= cycle:
            now = len(self.states)
            self.states.append([(leaf, self.leaf_at(leaf, now)) for leaf in self.of.leaves])
        return self.states[cycle]

    def leaf_at(self, leaf: z3.ExprRef, cycle: int) -> z3.ExprRef:
        fixed = self.fixed.get((leaf, cycle))
        if fixed is not None:
            return fixed
        if leaf in self.of.after and cycle > 0:
            return z3.simplify(z3.substitute(self.of.after[leaf], self.states[cycle - 1]))
        if leaf.eq(self.reset):
            return z3.BoolVal(False) if z3.is_bool(leaf) else z3.BitVecVal(0, 1)
        return z3.Const(f"{leaf}@{cycle}", leaf.sort())

"""The house is as it says: a pass has one name, and no table of a module outlives a call of the compiler."""

import ast

import pytest

from tests.house import (
    TABLES,
    PassRow,
    SourceFile,
    cached_functions,
    equalities,
    objects_that_fill_tables,
    pass_rows,
    passes_out_of_sight,
    source_files,
    tables_of_modules,
)
from tilewright.compiler.pipeline import pass_names

BUILDING_BLOCKS = {
    "compiler/columns/columns.py: region_of": "what is measured, not what is compiled",
    "compiler/emission/divide.py: spread": "the first step of `schedule`; the search has it alone for other plans",
    "compiler/emission/divide.py: divided": "in `schedule`, after `spread`: its option says which engines stay idle",
    "compiler/emission/divide.py: with_mnemonics": "what is known of an equal program",
    "compiler/simplify/rewrite.py: rewrite": "what runs a table of rules",
    "compiler/simplify/rewrite.py: drop_dead_code": "at the beginning of each run of rules",
    "compiler/simplify/rewrite.py: merge_equal_operators": "at the end of each run of rules",
    "compiler/simplify/steps.py: simplify_graph": "all passes that simplify, one after the other",
}
"""Functions from a level to itself that are no passes, and why."""

DECISIONS = {
    "compiler/tiling/planner.py: Planner": "it makes a `Plan`, which is no program: which nests are computed within "
    "others, which sums stay, how weights are cut. `tile` prints as the tiles that follow from it",
    "compiler/select/window_sums.py: with_window_sums": "from a cover to a cover, where a form of nest is searched: "
    "`select` has it for each nest of the form, and prints it",
    "compiler/emission/overlap.py: overlapped": "it proposes an order and what that must save: `schedule` tries it, "
    "and takes it only if its own takes longer",
}
"""Steps inside passes that decide something, and why they are no rows: what they make is no value of a level."""


@pytest.fixture(scope="module")
def compiler() -> list[SourceFile]:
    return source_files(("compiler",))


def test_a_pass_has_one_name(compiler: list[SourceFile]) -> None:
    rows = pass_rows([file for file in compiler if file.place in TABLES])
    assert sorted(row.name for row in rows) == sorted(pass_names())
    assert [row for row in rows if not row.has_one_name] == []


def test_no_pass_is_out_of_sight(compiler: list[SourceFile]) -> None:
    rows = pass_rows([file for file in compiler if file.place in TABLES])
    assert passes_out_of_sight(compiler, rows) == list(BUILDING_BLOCKS)


def test_decisions_inside_passes_are_where_it_says(compiler: list[SourceFile]) -> None:
    defined = {
        f"{file.place}: {node.name}"
        for file in compiler
        for node in file.tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
    }
    assert DECISIONS.keys() - defined == set()


def test_no_table_of_a_module_outlives_a_call(compiler: list[SourceFile]) -> None:
    assert tables_of_modules(compiler) == ["compiler/errors.py: RAISING"], "which raises, and collects nothing"


def test_names_are_taken_off_in_one_place(compiler: list[SourceFile]) -> None:
    assert equalities(compiler) == ["compiler/canonical_form.py: CanonicalForm"]


def file(source: str, place: str = "compiler/a.py") -> SourceFile:
    ast.parse(source)
    return SourceFile(place, source)


@pytest.mark.parametrize(
    ("function", "module", "is_one"),
    [
        ("plain_sums", "tilewright.compiler.select.plain_sums", True),
        ("sum_plainly", "tilewright.compiler.select.plain_sums", False),
        ("plain_sums", "tilewright.compiler.select.sums", False),
    ],
)
def test_row_function_and_file_are_compared(function: str, module: str, is_one: bool) -> None:
    assert PassRow("plain-sums", function, module).has_one_name == is_one


def test_a_row_says_which_function_it_calls() -> None:
    table = file(
        "from tilewright.compiler.nest.fuse import fuse\nA, LAST = 'a', 'last'\n"
        "Pass('fuse', N, N, lambda nests, at: fuse(nests))\n"
        "Pass(LAST, N, N, lambda nests, at: other.last(nests) if at else nests)\n"
    )
    assert pass_rows([table]) == [
        PassRow("fuse", "fuse", "tilewright.compiler.nest.fuse"),
        PassRow("last", "other.last", "tilewright.compiler.a"),
    ]


def test_a_pass_that_is_no_row_is_found() -> None:
    made = file("def turned(graph: Graph) -> Graph: ...\ndef number(graph: Graph) -> int: ...\n", "compiler/b.py")
    using = file("from tilewright.compiler.b import number, turned\n")
    assert passes_out_of_sight([made, using], []) == ["compiler/b.py: turned"]
    assert passes_out_of_sight([made, using], [PassRow("turned", "turned", "tilewright.compiler.b")]) == []


def test_what_is_kept_is_found() -> None:
    source = file(
        "KNOWN: dict[str, int] = {}\nTABLE: Mapping[str, int] = {}\n"
        "@lru_cache(maxsize=2)\ndef found(a): ...\n@cache\ndef constant(): ...\n"
        "class Kept:\n"
        "    def get(self, key):\n"
        "        if key not in self._known:\n"
        "            self._known[key] = make(key)\n"
        "        return self._known[key]\n"
        "_ALL = Kept()\n"
    )
    assert tables_of_modules([source]) == ["compiler/a.py: KNOWN", "compiler/a.py: _ALL"]
    assert cached_functions([source]) == ["compiler/a.py: found"]
    assert objects_that_fill_tables([source]) == ["compiler/a.py: Kept (_known)"]


def test_a_comparison_but_for_names_is_found() -> None:
    source = file('def look(a):\n    """Equal for nests that differ only in their names."""\ndef other(a): ...\n')
    assert equalities([source]) == ["compiler/a.py: look"]
    assert equalities([file('"""Nests of one form differ only in names."""')]) == ["compiler/a.py: the file"]

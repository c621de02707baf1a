"""The example notebook runs, and shows what its cells give now."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest


def run_cell(source: str, names: dict[str, Any]) -> list[dict[str, Any]]:
    """Run a cell as a notebook does; what it shows of its last expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    if last is None:
        return []
    value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    data = {"text/plain": repr(value)}
    if "_repr_html_" in dir(type(value)):
        data["text/html"] = value._repr_html_()
    return [{"output_type": "execute_result", "execution_count": 0, "metadata": {}, "data": data}]


@pytest.mark.slow
def test_the_notebook_shows_what_its_cells_give(
    repository: Path, update_golden: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = repository / "docs" / "notebook.ipynb"
    book = json.loads(file.read_text())
    monkeypatch.chdir(repository)
    names: dict[str, Any] = {"__name__": "__main__"}
    cells = [cell for cell in book["cells"] if cell["cell_type"] == "code"]
    for number, cell in enumerate(cells, 1):
        shown = [{**output, "execution_count": number} for output in run_cell(cell["source"], names)]
        if update_golden:
            cell["outputs"], cell["execution_count"] = shown, number
        assert cell["outputs"] == shown, f"cell {number}"
        assert cell["execution_count"] == number
    if update_golden:
        file.write_text(json.dumps(book, indent=1, ensure_ascii=False) + "\n")
    assert any("text/html" in output["data"] for cell in cells for output in cell["outputs"])

"""A class name means one thing in all of the product."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.test_architecture import PACKAGES, sources

DRIVER = Path("tilewright/bundle/driver")
"""A product of its own: it is copied into bundles, and imports nothing of ours."""

SEVERAL = {
    "Program": "what a binary holds, and for users of the API a network that runs, with its host segments",
}
"""Names with two meanings, and which."""


def test_a_class_name_has_one_meaning(repository: Path) -> None:
    """A facet of a template has the same name in each package: there it is the same idea, seen from that package."""
    places = defaultdict[str, list[str]](list)
    for package in (*PACKAGES, "programs"):
        for path in sources(repository, package):
            place = path.relative_to(repository)
            if place.parent != DRIVER:
                for name in class_names(path.read_text()):
                    places[name].append(str(place))
    several = {name: found for name, found in places.items() if len(found) > 1 and not name.endswith("Facet")}
    assert {name: found for name, found in several.items() if name not in SEVERAL} == {}
    assert SEVERAL.keys() <= several.keys()


def test_classes_in_functions_and_classes_count_too() -> None:
    assert list(class_names("class A:\n    class B: ...\ndef f():\n    class C: ...\n")) == ["A", "B", "C"]


def class_names(source: str) -> Iterator[str]:
    yield from sorted(node.name for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ClassDef))

"""One public class name means one thing: whoever searches for it finds one class."""

import ast
from collections import defaultdict
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "durable_sessions"

STILL_TWICE = frozenset({"Supervisor"})
"""Names that two modules define. This list only gets shorter: give a new class a name of its own."""


def modules_by_class() -> dict[str, list[str]]:
    """Return, by the name of each public top-level class, the modules that define it."""
    modules = defaultdict(list)
    for file in sorted(SOURCE.rglob("*.py")):
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                modules[node.name].append(str(file.relative_to(SOURCE)))
    return modules


def test_no_class_has_the_name_of_another() -> None:
    twice = {name: files for name, files in modules_by_class().items() if len(files) > 1}
    assert {name: files for name, files in twice.items() if name not in STILL_TWICE} == {}
    assert {name: files for name, files in twice.items() if len(files) > 2} == {}, "two was the most"


def test_the_list_of_names_that_are_there_twice_is_not_longer_than_it_must_be() -> None:
    modules = modules_by_class()
    assert {name for name in STILL_TWICE if len(modules[name]) < 2} == set(), "take these off the list"

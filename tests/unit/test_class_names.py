"""One public class name means one thing: whoever searches for it finds one class."""

import ast
from collections import defaultdict
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "durable_sessions"


def modules_by_class() -> dict[str, list[str]]:
    """Return, by the name of each public top-level class, the modules that define it."""
    modules = defaultdict(list)
    for file in sorted(SOURCE.rglob("*.py")):
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                modules[node.name].append(str(file.relative_to(SOURCE)))
    return modules


def test_no_class_has_the_name_of_another() -> None:
    modules = modules_by_class()
    assert len(modules) > 500, "the classes were not found"
    twice = {name: files for name, files in modules.items() if len(files) > 1}
    assert twice == {}, "give the new class a name of its own"

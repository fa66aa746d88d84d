"""Pages name what their code needs: a package that somebody has to install is installed on the same page."""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md")), *sorted(ROOT.glob("examples/*.md"))]
FENCED = re.compile(r"^ *```(?P<language>\w+)\n(?P<text>.*?)^ *```", re.DOTALL | re.MULTILINE)
IMPORTED = re.compile(r"^ *(?:from|import) +(google\.adk|google\.genai|\w+)", re.MULTILINE)
RUN = re.compile(r"python3? -m +(\w+)")
INSTALLED = re.compile(r"pip install +([^\n#`]+)")
OURS = {path.name for path in ROOT.iterdir() if (path / "__init__.py").exists()}
THERE = {*sys.stdlib_module_names, "durable_sessions", "pip", *OURS}


DISTRIBUTIONS = {
    "google": "opentelemetry-proto",
    "opentelemetry": "opentelemetry-proto",
    "inspect_ai": "inspect-ai",
    "claude_agent_sdk": "claude-agent-sdk",
    "pydantic_ai": "'durable-sessions[pydantic-ai]'",
    "google.adk": "'durable-sessions[adk]'",
    "google.genai": "'durable-sessions[adk]'",
    "agent_framework": "'durable-sessions[agent-framework]'",
    "agents": "'durable-sessions[openai]'",
    "langgraph": "'durable-sessions[langgraph]'",
}
"""What to install for a module that is not called like its package, or comes with another one."""


def needed(text: str) -> set[str]:
    """Return the packages that the blocks of a page use and that Python, this one and the clone lack."""
    found: set[str] = set()
    for block in FENCED.finditer(text):
        if block["language"] == "sql":
            found.add("duckdb")
        if block["language"] == "python":
            found.update(IMPORTED.findall(block["text"]))
        found.update(RUN.findall(block["text"]))
    return {DISTRIBUTIONS.get(name, name) for name in found - THERE}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_package_that_a_page_uses_is_installed_on_it(page: Path) -> None:
    text = page.read_text()
    named = {word for line in INSTALLED.findall(text) for word in line.split() if not word.startswith("-")}
    assert needed(text) - named == set(), "say how to install it: python -m pip install …"


def test_packages_are_found_in_all_kinds_of_blocks() -> None:
    text = (
        "```python\nimport json\nfrom anthropic.types import x\nif True:\n    import pydantic\n```\n"
        "- a list\n\n  ```sh\n  python -m harbor.utils x\n  python -m bench\n  ```\n```sql\nselect 1\n```\n"
        "```text\nimport nothing\n```\n"
    )
    assert needed(text) == {"anthropic", "pydantic", "harbor", "duckdb"}

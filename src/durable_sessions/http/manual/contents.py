"""The order in which the documentation is read, and where its pages lie."""

import re
from difflib import get_close_matches
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import NamedTuple

GROUPS: dict[str, tuple[str, ...]] = {
    "Begin": ("tutorial", "long-running-agents", "concepts"),
    "Use": (
        "sessions",
        "work",
        "memory",
        "graph",
        "placement",
        "evidence",
        "search",
        "web-page",
        "sdk",
        "cli",
        "importing",
        "exporting",
        "mcp",
        "opentelemetry",
        "ai-sdk",
        "keys",
        "protocol",
    ),
    "Adapters": (
        "adapters",
        "adapters/claude",
        "adapters/langgraph",
        "adapters/openai",
        "adapters/pydantic-ai",
        "adapters/adk",
        "adapters/agent-framework",
    ),
    "How to": (
        "howto/resume-after-a-crash",
        "howto/separate-the-judge",
        "howto/budgets-and-approvals",
        "howto/hand-over",
        "howto/import-history",
        "howto/migrate-from-managed-agents",
        "howto/redact",
        "howto/back-up-and-restore",
        "howto/run-in-production",
        "howto/run-a-cluster",
        "howto/when-something-is-away",
        "howto/upgrade",
        "howto/query-with-duckdb",
        "howto/when-not-to-use-it",
    ),
    "Run": ("running", "tools"),
    "Know": (
        "guarantees",
        "design",
        "benchmarks",
        "scaling",
        "formats/log",
        "formats/shared-log",
        "formats/bucket",
        "formats/memory",
        "formats/views",
        "formats/dossier",
    ),
    "Reference": (
        "reference/api",
        "reference/events",
        "reference/settings",
        "reference/limits",
        "reference/errors",
        "reference/metrics",
    ),
}
"""Names of pages by what they are for."""


ROOT = "/docs"
"""Where a server shows them."""
_NAME_CHARACTERS_MAX = 100
_COMMENT = re.compile(r"^<!--.*?-->\n", re.MULTILINE | re.DOTALL)
"""For those who write the page, not for those who read it."""


class ManualPage(NamedTuple):
    """A page as it was written: its name, its title, and its text in Markdown."""

    name: str
    title: str
    text: str


def nearest(path: bytes) -> str | None:
    """Return the path of the page that was probably meant by a path at which there is none."""
    name = path.decode("latin-1").removeprefix(ROOT)
    if not path.startswith(ROOT.encode()) or len(name) > _NAME_CHARACTERS_MAX:
        return None
    name = name.strip("/").removesuffix(".md")
    if not name:
        return ROOT
    near = get_close_matches(name, [one for names in GROUPS.values() for one in names], n=1, cutoff=0.7)
    return f"{ROOT}/{near[0]}" if near else None


def pages() -> dict[str, ManualPage]:
    """Return all pages that there are, in their order."""
    folder = _folder()
    found: dict[str, ManualPage] = {}
    for name in (name for names in GROUPS.values() for name in names):
        file = folder.joinpath(*f"{name}.md".split("/"))
        if file.is_file():
            text = _COMMENT.sub("", file.read_text(encoding="utf-8")).lstrip()
            found[name] = ManualPage(name, text.partition("\n")[0].lstrip("# ").strip(), text)
    return found


def _folder() -> Traversable:
    """Return where the pages are: in an installed package inside it, in a working tree beside it."""
    inside = files("durable_sessions").joinpath("manual")
    return inside if inside.is_dir() else Path(__file__).parents[4] / "docs"

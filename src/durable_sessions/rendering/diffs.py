"""Edits as lines that were taken away and lines that came."""

import difflib

from durable_sessions.rendering.content import Diff
from durable_sessions.rendering.text import clean, lines_of

COMPARED_LINES_MAX = 2_000
"""Longer texts are shown one after the other: to compare them would take too long."""
CONTEXT_LINES = 3


def edit(old: str, new: str, label: str = "") -> Diff:
    """Return how one text became another."""
    before, after = lines_of(clean(old)) if old else [], lines_of(clean(new)) if new else []
    if max(len(before), len(after)) > COMPARED_LINES_MAX:
        return Diff((*(f"-{line}" for line in before), *(f"+{line}" for line in after)), label)
    compared = difflib.unified_diff(before, after, n=CONTEXT_LINES, lineterm="")
    shown = [line for line in compared if not line.startswith(("---", "+++"))]
    # A snippet's line numbers say nothing of the file's; a single heading is left out.
    hunks = sum(line.startswith("@@") for line in shown)
    return Diff(tuple(line for line in shown if hunks > 1 or not line.startswith("@@")), label)


def patch(text: str, label: str = "") -> Diff:
    """Return a patch as it was written."""
    return Diff(tuple(lines_of(clean(text))), label)


def is_patch(text: str) -> bool:
    """Say whether a text is a patch."""
    return text.startswith(("*** Begin Patch", "diff --git ", "--- a/"))


def counts(diff: Diff) -> str:
    """Return how many lines came and went, such as ``+3 −1``."""
    came = sum(line.startswith("+") and not line.startswith("+++") for line in diff.lines)
    went = sum(line.startswith("-") and not line.startswith("---") for line in diff.lines)
    return " ".join(filter(None, (f"+{came}" if came else "", f"−{went}" if went else ""))) or "±0"

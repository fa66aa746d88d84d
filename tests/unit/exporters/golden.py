"""A session and what its exports must be; ``python -m tests.unit.exporters.golden`` writes them anew."""

import json
from pathlib import Path
from typing import Any

from durable_sessions.exporters import FORMATS, ExportOptions

HERE = Path(__file__).parent
SESSION: dict[str, Any] = {
    "id": "build-42",
    "title": "Make it <green>",
    "status": "idle",
    "created_at": "2025-11-15T12:00:00.000Z",
    "agent": {"name": "builder", "version": 3, "model": {"id": "claude-opus-4-5"}},
    "metadata": {"ticket": "T-1"},
}
GOLDEN = {
    "managed-agents": HERE / "sample.managed-agents.json",
    "atif": HERE / "sample.atif.json",
    "otlp": HERE / "sample.otlp.json",
    "prov": HERE / "sample.prov.json",
    "inspect": HERE / "sample.inspect.json",
    "markdown": HERE / "sample.md",
    "html": HERE / "sample.body.html",
}
JUDGED = [
    {"type": "ds.fact", "id": "goal", "key": "goal", "kind": "goal", "value": "Mend the cache"},
    {"type": "ds.outcome.defined", "id": "o", "features": [{"id": "f1", "text": "It is green."}]},
    {"type": "ds.artifact", "id": "log", "sha256": "ab" * 32, "name": "log", "role": "test_log"},
    {
        "type": "ds.evaluation",
        "id": "e1",
        "actor": "judge",
        "created_at": "2025-11-16T13:00:00.000Z",
        "verdict": "pass",
        "feature": "f1",
        "score": 1,
        "note": "Seen to pass.",
        "refs": [{"rel": "evaluates", "id": "sevt_0010"}, {"rel": "because", "id": "x", "session": "other"}],
    },
    {"type": "ds.session.ended", "id": "end", "outcome": "completed"},
]


def sample() -> list[bytes]:
    """Return the stored events of the sample session."""
    return (HERE / "sample.jsonl").read_bytes().splitlines()


def judged() -> list[bytes]:
    """Return the sample session with a verdict behind it."""
    return [*sample(), *(json.dumps(event).encode() for event in JUDGED)]


def exported(name: str, lines: list[bytes] | None = None, **options: Any) -> str:
    """Return an export of the sample session, or of others' lines."""
    pieces = FORMATS[name].export(SESSION, sample() if lines is None else lines, ExportOptions(**options))
    return b"".join(pieces).decode()


def compared(name: str) -> str:
    """Return the part of an export that is compared: of the page, only what is made from the events."""
    text = exported(name)
    return text[text.index("<header>") : text.index("<footer>")] if name == "html" else text


if __name__ == "__main__":
    for name, path in GOLDEN.items():
        path.write_text(compared(name), encoding="utf-8")

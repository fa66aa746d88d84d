"""The same talk from every tool gives the same events, as far as the tool has kept it."""

import json
from pathlib import Path
from typing import Any

import pytest

from durable_sessions.importers.registry import TOOLS
from tests.importers.counting import USAGE, count, differences
from tests.importers.own import FIRST, FOLDER, MADE, TALK, USED, place
from tests.importers.samples import imported
from tests.importers.talks import age

INDEX: dict[str, dict[str, Any]] = json.loads((FOLDER / "index.json").read_text())
"""For each sample what differs from the talk: counts, usage, whether there are times."""


def tool_of(sample: str) -> str:
    return sample.removesuffix(" (made)").partition("/")[0]


def test_every_tool_has_a_sample() -> None:
    assert {tool_of(sample) for sample in INDEX} == set(TOOLS)
    folders = {path.name for path in FOLDER.iterdir() if path.is_dir()}
    assert folders | set(MADE) == set(TOOLS)


@pytest.mark.parametrize("sample", INDEX)
def test_the_talk_of(sample: str, tmp_path: Path) -> None:
    known = INDEX[sample]
    folder = place(sample, tmp_path / "sample")
    age(folder)
    sessions = imported(tool_of(sample), folder).sessions
    assert len(sessions) == known.get("sessions", 1)
    for session in sessions.values():
        events = list(session.events.values())
        for event in events:
            event.setdefault("source", {})  # our own export has none
        found = count(event for event in events if "session_thread_id" not in event)
        below = count(event for event in events if "session_thread_id" in event)
        expected = {**TALK, **known.get("counts", {})}
        assert not differences(found, expected)
        assert not differences(below, known.get("subagents", {}))
        used = {name: found["usage"].get(name, 0) for name in USAGE}
        assert used == dict.fromkeys(USAGE, 0) | known.get("usage", USED)
        times = [event["created_at"] for event in events if "created_at" in event]
        assert (min(times) if times else None) == known.get("first", FIRST)


def test_the_words_are_the_same() -> None:
    """Every sample holds the words of the talk that its tool keeps."""
    for sample in INDEX:
        if not sample.endswith(" (made)"):
            written = "".join(
                path.read_text() for path in sorted((FOLDER / sample).rglob("*")) if path.is_file()
            )
            assert "Why does the checkout test fail?" in written

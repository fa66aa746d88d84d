"""The samples of other tools' sessions, where they are at hand, and what must come out of them."""

import json
from pathlib import Path
from typing import Any

import pytest

from durable_sessions.importers.engine import ImportEngine
from durable_sessions.importers.registry import TOOLS
from durable_sessions.importers.report import Report
from durable_sessions.importers.state import ImportState
from tests.importers.memory_destination import MemoryDestination
from tests.support.samples import FOLDER, missing

SAMPLES = FOLDER
UNSEEN = SAMPLES.with_name(f"{SAMPLES.name}-unseen")
"""Samples that came after the importers."""


def entries(folder: str, samples: Path = SAMPLES) -> list[Any]:
    """The lines of an index as parameters; one that skips, and says so, if the samples are not there."""
    index = samples / folder / "index.json"
    if not index.is_file():
        skip = pytest.mark.skip(reason=missing(samples / folder))
        return [pytest.param({}, marks=skip, id="missing")]
    return [pytest.param(entry, id=entry["path"]) for entry in json.loads(index.read_text())]


def run(
    tool: str, paths: list[Path], destination: MemoryDestination, state: ImportState | None = None
) -> Report:
    return ImportEngine(destination, state or ImportState(None, "memory")).run(TOOLS[tool].discover(paths))


def imported(tool: str, path: Path) -> MemoryDestination:
    """A sample, imported twice; the second time must add nothing, with and without what was remembered."""
    destination, state = MemoryDestination(), ImportState(None, "memory")
    first = run(tool, [path], destination, state)
    assert not [outcome.problem for outcome in first.outcomes if outcome.problem]
    for again in (run(tool, [path], destination, state), run(tool, [path], destination)):
        assert again.new_events == 0
    return destination

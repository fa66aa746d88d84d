"""The version is the same wherever it is stated, and the changelog has an entry for it."""

import re
import tomllib
from datetime import date
from pathlib import Path

from durable_sessions import __version__

ROOT = Path(__file__).parents[2]


def test_package_project_and_changelog_have_the_same_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    released = re.findall(r"^## (\d+\.\d+\.\d+) \(\d{4}-\d{2}-\d{2}\)$", _changelog(), re.MULTILINE)
    assert project["version"] == __version__ == released[0]
    assert released == sorted(released, key=lambda one: tuple(map(int, one.split("."))), reverse=True)


def test_every_released_version_has_its_day_and_its_changes() -> None:
    entries = re.split(r"^## ", _changelog(), flags=re.MULTILINE)[2:]
    days = []
    for entry in entries:
        heading, _, changes = entry.partition("\n")
        found = re.fullmatch(r"\d+\.\d+\.\d+ \((\d{4}-\d{2}-\d{2})\)", heading)
        assert found, heading
        assert re.search(r"^- ", changes, re.MULTILINE), heading
        days.append(date.fromisoformat(found[1]))
    assert days == sorted(days, reverse=True)


def test_there_is_a_place_for_what_comes_next() -> None:
    headings = re.findall(r"^## (.*)$", _changelog(), re.MULTILINE)
    assert headings.count("Unreleased") == 1
    assert headings[0] == "Unreleased"


def _changelog() -> str:
    return (ROOT / "CHANGELOG.md").read_text()

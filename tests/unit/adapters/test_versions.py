"""What adapters say of the versions of their frameworks."""

import re
from importlib import metadata

import pytest

from durable_sessions.adapters._versions import TESTED, described
from tests.support.installed import EXTRAS

PACKAGE = "langgraph-checkpoint"


def test_the_tested_versions_are_those_that_the_extras_admit() -> None:
    admitted = {}
    for wanted in [one for extra in EXTRAS.values() for one in extra]:
        if found := re.fullmatch(r"([a-z-]+)>=([0-9.]+),<([0-9.]+)", wanted):
            admitted[found[1]] = (found[2], found[3])
    without_extra = {"claude-agent-sdk": ("0.1.68", None)}
    assert {name: range_ for name, range_ in admitted.items() if name in TESTED} | without_extra == TESTED


@pytest.mark.parametrize("version", ["4.2", "4.2.0", "4.10.1", "4.99.post1"])
def test_a_tested_version_is_told(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "version", lambda _: version)
    assert described(PACKAGE) == f"{PACKAGE} {version}"


@pytest.mark.parametrize("version", ["4.1.9", "3", "5", "5.0.0", "5.0rc1", "12.1", "unknown"])
def test_another_version_is_told_with_those_that_were_tested(
    version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata, "version", lambda _: version)
    assert described(PACKAGE).startswith(f"{PACKAGE} {version} (not tested: ")
    assert "from 4.2 on, below 5" in described(PACKAGE)


def test_a_missing_package_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    assert described("claude-agent-sdk") == "claude-agent-sdk (not installed)"

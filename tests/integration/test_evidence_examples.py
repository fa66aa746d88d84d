"""The examples that end with a dossier: what each prints and writes agrees with the log."""

import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from durable_sessions import Client
from durable_sessions.evidence import verification
from durable_sessions.testing import BackgroundServer, server
from tests.support.waiting import PATIENCE_SECONDS
from tests.support.walkthrough import ROOT

QUESTIONS = 7


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BackgroundServer]:
    with server(tmp_path_factory.mktemp("data")) as running:
        yield running


def run(running: BackgroundServer, name: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / f"{name}.py"), "--url", running.url],
        cwd=folder,
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", "PYTHONPATH": str(ROOT / "src"), "PYTHONUTF8": "1"},
        capture_output=True,
        text=True,
        timeout=10 * PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def figures(printed: str) -> dict[str, int]:
    """Return the figures that an example has printed."""
    line = next(line for line in printed.splitlines() if line.startswith("Figures: "))
    return {name: int(count) for name, count in re.findall(r"(\w+) (\d+)", line.removeprefix("Figures: "))}


def logged(path: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the events in a zip, by session, each where it was appended."""
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if name.startswith("events/")]
        return {name: [json.loads(line) for line in archive.read(name).splitlines()] for name in names}


def assert_true(running: BackgroundServer, path: Path, session: str, printed: str) -> list[dict[str, Any]]:
    """See that the zip is whole and signed, and return all events of the family, each once."""
    keys = verification.public_keys(httpx2.get(f"{running.url}/v1/stream/__ds/jwks.json").content)
    found = verification.verify(path, keys)
    assert (found.session, found.complete) == (session, True)
    assert f"{path.name}: complete" in printed
    assert len(re.findall(r"^\n?[A-Z].*\?$", printed, re.MULTILINE)) == QUESTIONS
    events = {(event["id"]): event for events in logged(path).values() for event in events}
    with Client(running.url) as client:
        stored = {event.id for event in client.session(session).events()}
    assert stored <= set(events), "the zip has all that the session has"
    return list(events.values())


def of_type(events: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [event for event in events if event["type"] == kind]


def test_the_engineering_agent(running: BackgroundServer, tmp_path: Path) -> None:
    printed = run(running, "engineering_agent", tmp_path)
    events = assert_true(running, tmp_path / "engineering.zip", "engineering", printed)
    counted = figures(printed)
    verdicts = [event["verdict"] for event in of_type(events, "ds.evaluation")]
    assert verdicts == ["fail", "pass"]
    assert counted["test_command"] == len(verdicts)
    assert counted["tool_calls"] == len(of_type(events, "agent.tool_use")) == 5
    assert counted["placement"] == len(of_type(events, "ds.sandbox")) == 12
    assert len({event["sandbox"] for event in of_type(events, "ds.sandbox")}) == 4, "the judge has its own"
    assert counted["rejected_branches"] == 1
    artifacts = of_type(events, "ds.artifact")
    assert counted["patch"] == sum(event["role"] == "diff" for event in artifacts) == 2
    codes = [event["exit_code"] for event in of_type(events, "agent.tool_result") if "exit_code" in event]
    assert re.findall(r"exit code (\d) in", printed) == [str(code) for code in codes] == ["1", "0"]
    with Client(running.url) as client:
        assert client.session("engineering").state()["done"] is True
    first = (tmp_path / "engineering.zip").read_bytes()
    again = run(running, "engineering_agent", tmp_path)
    assert figures(again) == counted, "the second time it only tells it again"
    assert (tmp_path / "engineering.zip").read_bytes() == first


def test_the_research_agent(running: BackgroundServer, tmp_path: Path) -> None:
    printed = run(running, "research_agent", tmp_path)
    first, _, second = printed.partition("research.zip: complete")
    events = assert_true(running, tmp_path / "research.zip", "research", first + "research.zip: complete")
    counted = figures(first)
    measured = of_type(events, "ds.evaluation")
    assert counted["metrics"] == len(measured) == 3
    losses = [f"{event['metrics']['loss']:.4g}" for event in measured]
    assert re.findall(r"^research: trial .* loss (\S+),", printed, re.MULTILINE) == losses
    assert [event["verdict"] for event in measured] == ["fail", "fail", "pass"]
    assert counted["experiment_state"] == len(of_type(events, "ds.checkpoint")) == 3
    assert counted["tool_logs"] == len(of_type(events, "agent.tool_use")) == 3
    assert counted["memory"] == sum(event["type"].startswith("ds.memory.") for event in events) == 2
    later = assert_true(running, tmp_path / "research-second.zip", "research-second", second)
    (remembered,) = of_type(events, "ds.memory.written")
    (read,) = of_type(later, "ds.memory.read")
    assert read["returned"] == [{"id": remembered["id"], "session": "research"}]
    (call,) = of_type(later, "agent.tool_use")
    assert call["input"]["command"].endswith(f" {remembered['value']['step']}"), "it did what it has read"
    assert figures(second)["metrics"] == 1


def test_the_trading_agent(running: BackgroundServer, tmp_path: Path) -> None:
    printed = run(running, "trading_agent", tmp_path)
    events = assert_true(running, tmp_path / "trading.zip", "trading", printed)
    counted = figures(printed)
    verdicts = [event["verdict"] for event in of_type(events, "ds.evaluation")]
    assert re.findall(r"^Trial \d: (\w+)$", printed, re.MULTILINE) == verdicts
    assert (verdicts.count("pass"), len(verdicts)) == (3, 4)
    assert "3 of 4 passed; pass^k: [0.75, 0.5, 0.25, 0.0]" in printed
    decided = of_type(events, "ds.approval.decided")
    assert counted["risk_checks"] == len(verdicts) + len(decided) == 7
    assert {event["actor"] for event in decided} == {"risk"}
    changed = [event for event in of_type(events, "agent.tool_result") if event.get("effects")]
    assert counted["state_deltas"] == len(changed) == 6
    assert counted["action_log"] == len(of_type(events, "agent.tool_use")) == 10
    large = [event for event in of_type(events, "agent.tool_use") if event["input"].get("amount", 0) > 100]
    asked = {event["refs"][0]["id"] for event in of_type(events, "ds.approval.requested")}
    assert asked == {event["id"] for event in large}, "every large order was asked for"


def test_the_technical_report(running: BackgroundServer, tmp_path: Path) -> None:
    printed = run(running, "technical_report", tmp_path)
    events = assert_true(running, tmp_path / "report.zip", "report", printed)
    counted = figures(printed)
    lost = [event for event in of_type(events, "ds.sandbox") if event["status"] == "lost"]
    tripped = of_type(events, "ds.budget.tripped")
    failed = [event for event in of_type(events, "agent.tool_result") if event.get("is_error")]
    assert (len(lost), len(tripped), len(failed)) == (1, 1, 3), "two of the job, one under the lost sandbox"
    assert counted["failure_analysis"] == len(lost) + len(tripped) + len(failed)
    assert counted["sandbox_metadata"] == len(of_type(events, "ds.sandbox"))
    assert counted["validation_result"] == len(of_type(events, "ds.evaluation")) == 1
    codes = [event["exit_code"] for event in of_type(events, "agent.tool_result") if "exit_code" in event]
    assert re.findall(r"^The job: exit code (\d)", printed, re.MULTILINE) == [str(code) for code in codes[2:]]
    assert "The breaker: budget_exceeded" in printed
    again = run(running, "technical_report", tmp_path)
    assert figures(again) == counted

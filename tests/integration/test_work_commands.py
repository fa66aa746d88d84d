"""The commands about the work on a session: waking, judging, stopping, deciding, handing over."""

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from durable_sessions import Client
from durable_sessions.cli.state_text import state_lines
from durable_sessions.testing import BackgroundServer
from durable_sessions.times import rfc3339
from tests.support.commands import Commands
from tests.support.waiting import PATIENCE_SECONDS, wait_until

CODER = ("--principal", "coder")
JUDGE = ("--principal", "judge")
FEATURES: list[dict[str, Any]] = [
    {"id": "tests", "text": "All tests pass.", "check": "echo looked; test -f green"},
    {"id": "docs", "text": "The docs build."},
]


@pytest.fixture(scope="module")
def ds(shared: BackgroundServer) -> Commands:
    return Commands(shared.url)


@pytest.fixture(scope="module")
def coder(shared: BackgroundServer) -> Iterator[Client]:
    with Client(shared.url, principal="coder") as client:
        yield client


@pytest.fixture
def issue(coder: Client, request: pytest.FixtureRequest) -> str:
    """A session with a goal, two features and a message of the coder."""
    name = str(request.node.name).replace("[", "-").replace("]", "")
    session = coder.sessions.create(name, goal="Make it green.", outcome=FEATURES, budget={"tool_calls": 9})
    session.append({"type": "agent.message", "id": "said", "content": []})
    return name


def state(ds: Commands, session: str) -> Any:
    return ds.json("state", session)


def process(shared: BackgroundServer, *arguments: str, **environment: str) -> "subprocess.Popen[str]":
    variables = {**os.environ, "DURABLE_SESSIONS_URL": shared.url, **environment}
    return subprocess.Popen(
        [sys.executable, "-m", "durable_sessions", *arguments],
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_waking_shows_where_the_work_stands(ds: Commands, coder: Client, issue: str) -> None:
    call = {"type": "agent.tool_use", "id": "call", "name": "edit", "input": {"path": "calc.py"}}
    coder.session(issue).append(call)
    done = ds.run("wake", issue, "--worker", "host-1", "--seconds", "30", *CODER)
    for text in ("active, not done", "Make it green.", "0 of 2 pass", "✗ tests", "host-1 (coder), epoch 1"):
        assert text in done.stdout
    assert 'edit {"path":"calc.py"} (call): ask' in done.stdout
    assert f"export DURABLE_SESSIONS_SESSION={issue} DURABLE_SESSIONS_EPOCH=1" in done.stderr
    assert ds.json("wake", issue, *CODER)["epoch"] == 2
    refused = ds.run("wake", issue, *JUDGE, status=6)
    assert "coder" in refused.stderr
    assert ds.json("wake", issue, "--force", "--shared", *JUDGE)["exclusive"] is False
    assert "epoch 3 released" in ds.run("release", issue, *JUDGE).stderr
    assert "Nobody has" in ds.run("release", issue, *JUDGE, status=6).stderr


def test_a_command_runs_under_the_lease(shared: BackgroundServer, ds: Commands, issue: str) -> None:
    inner = f'{sys.executable} -m durable_sessions append {issue} --type agent.message --text "at work"'
    other = f"{sys.executable} -m durable_sessions append {issue}-other --type agent.message --text free"
    with process(shared, "wake", issue, *CODER, "--", "sh", "-c", f"{inner} && {other}; exit 7") as run:
        _, errors = run.communicate(timeout=PATIENCE_SECONDS)
    assert run.returncode == 7, errors
    assert f"{issue}: epoch 1, as coder" in errors
    types = [event["type"] for event in ds.lines("events", issue)]
    assert types[-5:] == [
        "ds.lease.claimed",
        "session.status_running",
        "agent.message",
        "ds.lease.released",
        "session.status_idle",
    ]
    assert state(ds, issue)["lease"] is None


def test_a_command_that_is_not_there_gives_the_session_back(ds: Commands, issue: str) -> None:
    assert "cannot be run" in ds.run("wake", issue, *CODER, "--", "no-such-program", status=127).stderr
    assert state(ds, issue)["lease"] is None


def test_a_command_that_lost_its_lease_is_ended(shared: BackgroundServer, ds: Commands, issue: str) -> None:
    command = ("wake", issue, "--seconds", "5", *CODER, "--", "sleep", "600")
    with process(shared, *command) as run:
        wait_until(lambda: state(ds, issue)["epoch"] == 1)
        ds.run("wake", issue, *CODER)
        _, errors = run.communicate(timeout=PATIENCE_SECONDS)
    assert run.returncode == 6, errors
    assert "Another worker has taken" in errors
    assert state(ds, issue)["lease"]["epoch"] == 2, "the new lease is left alone"


def test_a_signal_goes_to_the_command(shared: BackgroundServer, ds: Commands, issue: str) -> None:
    script = "trap 'exit 9' TERM; echo ready; while :; do sleep 0.1; done"
    with process(shared, "wake", issue, *CODER, "--", "sh", "-c", script) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == "ready\n"
        run.send_signal(signal.SIGTERM)
        _, errors = run.communicate(timeout=PATIENCE_SECONDS)
    assert run.returncode == 9, errors
    assert state(ds, issue)["lease"] is None


def test_without_the_lease_nothing_of_an_agent_is_taken(ds: Commands, issue: str) -> None:
    ds.run("wake", issue, *CODER)
    refused = ds.run("append", issue, "--type", "agent.message", "--text", "x", *CODER, status=6)
    assert "If that is you, set DURABLE_SESSIONS_EPOCH; else wake the session with: ds wake" in refused.stderr


def test_an_epoch_that_is_none_is_refused(ds: Commands, issue: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DURABLE_SESSIONS_EPOCH", "three")
    assert "DURABLE_SESSIONS_EPOCH" in ds.run("append", issue, "--type", "note", status=2).stderr
    monkeypatch.setenv("DURABLE_SESSIONS_EPOCH", "3")
    assert "lease" in ds.run("append", issue, "--type", "note", status=6).stderr


def test_facts_are_set_shown_and_taken_back(ds: Commands, issue: str) -> None:
    ds.run("facts", issue, "--set", "cause=off by one", "--set", "tries:=[1,2]", "--kind", "decision", *CODER)
    table = ds.run("facts", issue).stdout.splitlines()
    assert table[0].split() == ["KEY", "VALUE", "KIND", "BY"]
    assert table[1].split() == ["cause", "off", "by", "one", "decision", "coder"]
    shown = ds.run("facts", issue, "tries", "--json").stdout.splitlines()
    assert [json.loads(line)["value"] for line in shown] == [[1, 2]]
    assert "Did you mean cause?" in ds.run("facts", issue, "cuase", status=3).stderr
    assert "1 fact retracted" in ds.run("facts", issue, "--retract", "cause", *CODER).stderr
    assert "knows no facts of the kind fact" in ds.run("facts", issue, "--kind", "fact").stderr
    ds.run("facts", issue, "cause", "--set", "a=b", status=2)
    ds.run("facts", issue, "--set", "a:=b", status=2)


def test_a_check_decides(
    ds: Commands, coder: Client, issue: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "cannot judge" in ds.run("evaluate", issue, "tests", "--run", *CODER, status=5).stderr
    assert "Did you mean tests?" in ds.run("evaluate", issue, "test", "--run", *JUDGE, status=3).stderr
    assert "tests: fail" in ds.run("evaluate", issue, "tests", "--run", *JUDGE).stderr
    (tmp_path / "green").touch()
    ds.run("evaluate", issue, "tests", "--run", *JUDGE)
    feature = state(ds, issue)["outcome"]["features"][0]
    assert (feature["verdict"], feature["evaluated_by"], feature["iterations"]) == ("pass", "judge", 2)
    verdict = coder.session(issue).event(feature["evaluation"])
    assert (verdict["command"], verdict["exit_code"]) == (FEATURES[0]["check"], 0)
    assert coder.artifacts.get(verdict["refs"][0]["id"].removeprefix("sha256:")) == b"looked\n"


def test_a_person_decides(ds: Commands, issue: str) -> None:
    assert "--because" in ds.run("evaluate", issue, "docs", "pass", *JUDGE, status=2).stderr
    assert "--run" in ds.run("evaluate", issue, "docs", *JUDGE, status=2).stderr
    assert "has no check" in ds.run("evaluate", issue, "docs", "--run", *JUDGE, status=2).stderr
    ds.run("evaluate", issue, "docs", "pass", "--run", "--because", "said", status=2)
    ds.run("evaluate", issue, "docs", "maybe", "--because", "said", status=2)
    ds.run("evaluate", issue, "docs", "pass", "--because", "said", "--metric", "a=b", status=2)
    parts = ("--note", "nice", "--score", "0.5", "--metric", "words=3", "--evaluates", "said")
    ds.run("evaluate", issue, "docs", "pass", *parts, *JUDGE)
    ds.run("evaluate", issue, "-", "inconclusive", "--because", "said", *JUDGE)
    assert state(ds, issue)["outcome"]["features"][1]["passing"] is True
    last = ds.lines("events", issue, "--type", "ds.evaluation")
    assert (last[0]["metrics"], last[0]["refs"]) == ({"words": 3.0}, [{"rel": "evaluates", "id": "said"}])


def test_files_of_a_feature_are_digested(
    ds: Commands, coder: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "check.py").write_text("assert True\n")
    digest = "a" * 64
    wanted = [{"id": "f", "text": "t", "check": "true", "files": [{"path": "check.py", "sha256": digest}]}]
    coder.sessions.create("ratchet", outcome=wanted)
    refused = ds.run("evaluate", "ratchet", "f", "--run", *JUDGE, status=6)
    assert "rests on files" in refused.stderr
    (tmp_path / "check.py").unlink()
    assert "cannot be digested" in ds.run("evaluate", "ratchet", "f", "--run", *JUDGE, status=2).stderr


def test_a_session_is_paused_resumed_and_cancelled(ds: Commands, issue: str) -> None:
    assert f"ds resume {issue}" in ds.run("pause", issue, "--reason", "lunch").stderr
    assert f"paused. To go on: ds resume {issue}" in ds.run("state", issue).stdout
    assert "paused" in ds.run("wake", issue, *CODER, status=6).stderr
    ds.run("resume", issue, "--reason", "back")
    assert "not paused" in ds.run("resume", issue, status=6).stderr
    assert "add --yes" in ds.run("cancel", issue, status=2).stderr
    assert ds.json("cancel", issue, "--yes", "--reason", "enough")["lifecycle"] == "closed"
    assert "closed" in ds.run("wake", issue, *CODER, status=6).stderr


def test_a_lease_that_is_over_is_not_shown_as_held(ds: Commands, coder: Client, issue: str) -> None:
    coder.wake(issue, worker="host-1", seconds=3_600)
    found = state(ds, issue)

    def shown(expires_ms: int, **more: Any) -> list[str]:
        lease = found["lease"] | {"expires_at": rfc3339(expires_ms)}
        lines = state_lines(found | {"lease": lease}, lambda *words: "", **more)
        return [line.plain for line in lines if line.plain.startswith("lease")]

    long_ago, far_away = 1_700_000_000_000, 4_000_000_000_000
    whose = "lease       host-1 (coder), epoch 1,"
    assert shown(long_ago) == [f"{whose} over since 2023-11-14 22:13:20"]
    assert shown(long_ago, is_past=True) == [f"{whose} until 2023-11-14 22:13:20"]
    assert shown(far_away) == [f"{whose} until 2096-10-02 07:06:40"]
    held = coder.session(issue).info().next_offset
    assert f"{whose} until " in ds.run("state", issue).stdout
    coder.session(issue).append({"type": "note"})
    ds.run("close", issue, "--yes")
    assert state(ds, issue)["lease"] is None
    assert "\nlease" not in ds.run("state", issue).stdout
    assert f"{whose} until " in ds.run("state", issue, "--at", held).stdout


def test_a_lease_of_another_whose_time_is_over_can_be_taken(
    ds: Commands, coder: Client, issue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    coder.wake(issue, seconds=60)
    monkeypatch.setattr("durable_sessions.cli.lease_time._now_ms", lambda: 4_000_000_000_000)
    assert ds.run("release", issue, *JUDGE, status=6).stderr == (
        "ds: The lease of epoch 1 is that of coder, who alone can give it back. "
        f"Its time is over, so wake the session with: ds wake {issue} --principal judge\n"
    )


def test_a_session_is_closed_with_its_outcome(ds: Commands, issue: str) -> None:
    ds.run("close", issue, "--reason", "why", "--yes", status=2)
    assert f"{issue}: completed" in ds.run("close", issue, "--outcome", "completed", "--yes").stderr
    ended = ds.lines("events", issue, "--type", "ds.session.ended")
    assert [one["outcome"] for one in ended] == ["completed"]


def test_requests_are_listed_and_decided(ds: Commands, coder: Client, issue: str) -> None:
    assert "waits for no decision" in ds.run("approve", issue, *JUDGE).stderr
    assert "waits for no decision" in ds.run("approve", issue, "--reason", "x", *JUDGE, status=6).stderr
    asked = {"type": "ds.approval.requested", "question": "Deploy?", "options": ["approve", "edit"]}
    coder.session(issue).append([{**asked, "id": "first"}, {**asked, "id": "second"}])
    assert "first  Deploy?  (approve, edit)" in ds.run("approve", issue).stdout
    assert f"to decide: ds approve {issue} first --reason" in ds.run("state", issue).stdout
    assert "several decisions" in ds.run("approve", issue, "--reason", "x", *JUDGE, status=2).stderr
    ds.run("approve", issue, "third", "--reason", "x", *JUDGE, status=3)
    assert "waits for no decision on third." in ds.run("approve", issue, "third", status=3).stderr
    assert "second" not in ds.run("approve", issue, "first").stdout
    for typed in (("--reject",), ("--decision", "edit"), ("first", "--payload", "{}")):
        refused = ds.run("approve", issue, *typed, status=2).stderr
        again = shlex.join(["ds", "approve", issue, *typed, "--reason", "…"])
        assert f"Nothing was decided: a decision needs a reason, so add --reason: {again}" in refused
    ds.run("approve", issue, "first", "--reason", "x", "--reject", "--decision", "edit", status=2)
    assert "reject" in ds.run("approve", issue, "first", "--reason", "x", "--reject", *JUDGE, status=2).stderr
    ds.run("approve", issue, "first", "--reason", "x", *CODER, status=5)
    edit = ("--decision", "edit", "--payload", '{"to":"staging"}')
    assert "edited: Deploy?" in ds.run("approve", issue, "first", "--reason", "x", *edit, *JUDGE).stderr
    ds.run("approve", issue, "--reason", "x", "--payload", "{", *JUDGE, status=2)
    ds.run("approve", issue, "--reason", "fine", *JUDGE)
    assert state(ds, issue)["approvals"]["pending"] == []


def test_a_route_says_who_is_next(ds: Commands, issue: str) -> None:
    ds.run("route", issue, "--reason", "x", status=2)
    ds.run("route", issue, "judge", "--anyone", "--reason", "x", status=2)
    ds.run("route", issue, "judge", "--reason", "verify", "--needs", "tests", "--see-last", "5")
    assert state(ds, issue)["route"]["see"]["last"] == 5
    assert "judge, once tests passes: verify" in ds.run("state", issue).stdout
    assert "routed to judge" in ds.run("wake", issue, *CODER, status=6).stderr
    assert "tests" in ds.run("wake", issue, *JUDGE, status=6).stderr
    ds.run("route", issue, "--anyone", "--reason", "open again")
    ds.run("wake", issue, *CODER)


def test_files_are_written_and_read_back(ds: Commands, coder: Client, issue: str, tmp_path: Path) -> None:
    folder = tmp_path / "handed"
    assert "Make it green." in ds.run("handoff", issue).stdout
    assert json.loads(ds.run("handoff", issue, "--file", "prd.json").stdout)[0]["id"] == "tests"
    assert "written" in ds.run("handoff", issue, "--write", str(folder)).stderr
    assert os.access(folder / "init.sh", os.X_OK)
    assert "nothing has changed" in ds.run("handoff", issue, "--read", str(folder), *CODER).stderr
    features = json.loads((folder / "feature-list.json").read_text())
    features[0]["passes"] = True
    (folder / "feature-list.json").write_text(json.dumps(features))
    (folder / "progress.txt").write_text("The cache was stale.\n")
    (folder / "init.sh").write_text("#!/bin/sh\nmake setup\n")
    assert "checkpoint appended" in ds.run("handoff", issue, "--read", str(folder), *CODER).stderr
    assert ds.json("handoff", issue, "--read", str(folder), *CODER)["next_offset"] is None, "nothing new"
    found = state(ds, issue)
    checkpoint = found["checkpoint"]
    assert (checkpoint["done"], checkpoint["next"]) == (["tests"], "docs")
    assert checkpoint["instructions"] == "The cache was stale."
    assert found["outcome"]["features"][0]["passing"] is False, "a claim is no verdict"
    assert "make setup" in ds.run("handoff", issue, "--file", "init.sh").stdout
    shown = ds.run("state", issue).stdout
    assert "next: docs" in shown


@pytest.mark.parametrize("breach", ["removed", "edited", "added"])
def test_a_worker_does_not_change_the_outcome(
    ds: Commands, coder: Client, issue: str, tmp_path: Path, breach: str
) -> None:
    ds.run("handoff", issue, "--write", str(tmp_path))
    before = coder.session(issue).info().event_count
    features = json.loads((tmp_path / "feature-list.json").read_text())
    if breach == "removed":
        features = features[:1]
    elif breach == "edited":
        features[0]["check"] = "true"
    else:
        features.append({"id": "more", "description": "x", "check": None, "passes": True})
    (tmp_path / "feature-list.json").write_text(json.dumps(features))
    refused = ds.run("handoff", issue, "--read", str(tmp_path), *CODER, "--json", status=6)
    assert json.loads(refused.stderr)["error"]["code"] == "ratchet"
    assert coder.session(issue).info().event_count == before


def test_files_that_are_none_are_refused(ds: Commands, issue: str, tmp_path: Path) -> None:
    assert "write the files" in ds.run("handoff", issue, "--read", str(tmp_path), status=2).stderr
    (tmp_path / "prd.json").write_text("{")
    assert "is not JSON" in ds.run("handoff", issue, "--read", str(tmp_path), status=2).stderr
    (tmp_path / "prd.json").write_text("[1]")
    assert "no list of features" in ds.run("handoff", issue, "--read", str(tmp_path), status=2).stderr
    ds.run("handoff", issue, "--read", str(tmp_path), "--write", str(tmp_path), status=2)


def test_a_past_state_and_a_long_one_are_shown(ds: Commands, coder: Client) -> None:
    features = [{"id": f"f{number}", "text": "t"} for number in range(25)]
    coder.sessions.create("long", outcome=features)
    coder.session("long").append([{"type": "ds.fact", "key": f"k{n}", "value": n} for n in range(25)])
    shown = ds.run("state", "long").stdout
    assert shown.count("… and 5 more") == 2
    assert "k0" not in ds.run("state", "long", "--at", "1").stdout
    ds.run("state", "long", "--at", "1000", status=2)


def test_the_context_is_shown_within_its_budget(ds: Commands, issue: str) -> None:
    ds.run("append", issue, "--type", "user.message", "--text", "Mind the gap.", *CODER)
    shown = ds.run("context", issue, "--budget-tokens", "5000")
    assert "Goal: Make it green." in shown.stdout
    assert "Mind the gap." in shown.stdout
    assert "of 5,000 tokens" in shown.stderr
    assert ds.json("context", issue, "--type", "agent.*")["event_ids"] == ["said"]
    ds.run("context", issue, "--budget-tokens", "100", status=2)


def test_branches_are_compared_and_adopted(ds: Commands, issue: str) -> None:
    branch = ds.run("fork", issue).stdout.strip()
    ds.run("facts", branch, "--set", "cause=here", *CODER)
    compared = ds.run("diff", issue, branch)
    assert "fact cause" in compared.stdout
    assert f"of {issue}" in compared.stderr
    assert ds.json("diff", issue, branch)["b"]["session"] == branch
    ds.run("facts", issue, "--set", "cause=there", *CODER)
    assert "cause" in ds.run("adopt", issue, branch, status=6).stderr
    adopted = ds.run("adopt", issue, branch, "--on-conflict", "theirs", *CODER)
    assert "1 fact, 0 verdicts, 0 artifacts adopted" in adopted.stderr
    assert state(ds, issue)["facts"]["cause"]["value"] == "here"
    ds.run("adopt", branch, issue, status=2)


def test_graphs_are_shown_and_drawn(ds: Commands, coder: Client, issue: str) -> None:
    session = coder.session(issue)
    session.append([{"type": "agent.tool_use", "id": "call", "name": "make \x1b[31mred"}])
    session.append([{"type": "agent.tool_result", "id": "result", "tool_use_id": "call"}])
    because = [{"rel": "because", "id": "result"}]
    session.append({"type": "ds.fact", "id": "cause", "key": "cause", "value": "x", "refs": because})
    shown = ds.run("graph", issue)
    assert "because" in shown.stdout
    assert "\x1b" not in shown.stdout
    assert "nodes" in shown.stderr
    assert {node["kind"] for node in ds.json("graph", issue, "--alone")["nodes"]} >= {"session", "event"}
    assert ds.run("graph", issue, "--format", "mermaid").stdout.startswith("graph TD\n")
    back = ds.run("why", issue, "cause").stdout.splitlines()
    assert [line.split(" -> ")[0].strip() for line in back[1:]] == ["because", "result_of"]
    on = ds.run("impact", issue, "call", "--depth", "1").stdout.splitlines()
    assert [line.split(" <- ")[0].strip() for line in on[1:]] == ["result_of"]
    assert ds.run("why", issue, "cause", "--format", "dot").stdout.startswith("digraph ")
    assert ds.json("impact", issue, "call")["up_to_date"]
    ds.run("why", issue, "cause", "--depth", "51", status=2)
    ds.run("graph", issue, "--json", "--format", "dot", status=2)
    ds.run("why", issue, "nothing", status=3)

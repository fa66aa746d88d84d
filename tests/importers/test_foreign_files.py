"""A file of one tool is never taken by the importer of another one, which says what it is instead."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from durable_sessions import testing
from durable_sessions.cli.main import cli
from durable_sessions.client import Client
from durable_sessions.importers import format_detection
from durable_sessions.importers.registry import TOOLS
from tests.importers.own import FOLDER, place
from tests.importers.samples import SAMPLES
from tests.importers.talks import claude_code_talk, lines

INDEX: dict[str, Any] = json.loads((FOLDER / "index.json").read_text())
WITHOUT_A_HINT = {"openhands", "opencode"}
"""Their sessions are folders of small files, which are imported as a whole."""


@pytest.fixture
def ds(server: testing.BackgroundServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("DURABLE_SESSIONS_URL", server.url)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("HOME", str(tmp_path))

    def run(*arguments: object, status: int = 0) -> Result:
        result = CliRunner().invoke(cli, ["import", *map(str, arguments)])
        assert result.exit_code == status, result.output
        return result

    return run


def files_of(sample: str, folder: Path) -> list[Path]:
    placed = place(sample, folder)
    return [path for path in sorted(placed.rglob("*")) if path.is_file()]


def tool_of(sample: str) -> str:
    return sample.removesuffix(" (made)").partition("/")[0]


@pytest.mark.parametrize("sample", INDEX)
def test_a_file_is_refused_by_every_other_tool(ds: Any, client: Client, tmp_path: Path, sample: str) -> None:
    files = files_of(sample, tmp_path / "sample")
    before = {info.id for info in client.sessions.list()}
    owner = tool_of(sample)
    hinted = 0
    for path in files:
        for tool in TOOLS:
            found = format_detection.of_another_tool(path, tool)
            if tool == owner:
                assert found is None
                continue
            if found is None:
                continue
            hinted += 1
            assert owner in found.tools
            refused = ds(tool, path, status=1).output
            assert f"{path} looks like {found.what}; use: ds import {found.tools[0]} {path}" in refused
    assert {info.id for info in client.sessions.list()} == before
    assert hinted or owner in WITHOUT_A_HINT
    if owner not in WITHOUT_A_HINT:
        shared = 1 if owner in ("pi", "openclaw") else 0
        assert hinted >= len(TOOLS) - 1 - shared


@pytest.mark.skipif(not SAMPLES.is_dir(), reason="the samples of other tools are not at hand")
def test_no_sample_is_taken_for_another_tools() -> None:
    named = {"gemini-cli": "gemini", "inspect-ai": "inspect", "openai-agents-sdk": "openai-agents"}
    for path in SAMPLES.rglob("*"):
        folder = path.relative_to(SAMPLES).parts[0]
        if path.is_file() and path.name not in ("index.json", "SOURCES.md"):
            found = format_detection.of_another_tool(path, named.get(folder, folder))
            assert found is None, path


@pytest.mark.parametrize(
    "record",
    [
        {"type": "click", "sessionId": "s1", "at": 1},
        {"type": "step", "timestamp": "2026-11-15T00:00:00Z", "payload": {"n": 1}},
        {"type": "note", "history": []},
        {"type": "note", "messages": [], "sessionId": "s1"},
        {"type": "chat", "role": "user", "content": "Hello", "n": 1, "m": 2},
    ],
)
def test_events_that_only_resemble_another_tools_are_taken(
    ds: Any, client: Client, tmp_path: Path, record: dict[str, Any]
) -> None:
    for number in (1, 3):
        path = tmp_path / f"resembles-{record['type']}-{len(record)}-{number}.jsonl"
        path.write_text((json.dumps(record) + "\n") * number)
        ds("jsonl", path)
        assert client.sessions.get(path.stem).event_count == number


@pytest.mark.parametrize("tool", sorted(TOOLS.keys() - {"jsonl"}))
def test_events_of_ones_own_are_no_tools(ds: Any, client: Client, tmp_path: Path, tool: str) -> None:
    path = tmp_path / "own-events.jsonl"
    path.write_text('{"type":"note","n":1}\n{"type":"note","n":2}\n{"type":"no')
    before = {info.id for info in client.sessions.list()}
    refused = ds(tool, path, status=1).output
    assert f"{path} looks like events of your own; use: ds import jsonl {path}" in refused
    assert {info.id for info in client.sessions.list()} == before


@pytest.mark.parametrize("tool", sorted(TOOLS))
@pytest.mark.parametrize("document", [{"name": "x", "scripts": {"a": "b"}}, [{"path": "x", "count": 1}]])
def test_a_document_of_no_tool_becomes_no_session(
    ds: Any, client: Client, tmp_path: Path, tool: str, document: Any
) -> None:
    path = tmp_path / "package.json"
    path.write_text(json.dumps(document))
    before = {info.id for info in client.sessions.list()}
    refused = ds(tool, path, status=1).output
    assert str(path) in refused
    assert {info.id for info in client.sessions.list()} == before


def test_several_documents_in_a_file_for_one_are_told(ds: Any, tmp_path: Path) -> None:
    path = tmp_path / "two.traj"
    path.write_text('{"trajectory_format":1}\n{"trajectory_format":1}\n')
    assert (
        f"{path} is not JSON, or half written: several values in a row"
        in ds("swe-agent", path, status=1).output
    )


def test_in_a_folder_the_others_go_on(ds: Any, client: Client, tmp_path: Path) -> None:
    folder = tmp_path / "mixed"
    folder.mkdir()
    (folder / "foreign.jsonl").write_bytes(lines(claude_code_talk(2)))
    (folder / "mixed-chat.jsonl").write_text('{"role":"user","content":"Hello"}\n')
    told = ds("openai-chat", folder, status=1).output
    assert "foreign.jsonl looks like a session of Claude Code; use: ds import claude-code" in told
    assert "1 session imported, 1 file refused: 1 new event from 1 record" in told
    assert client.sessions.get("openai-chat:mixed-chat").event_count == 1


def test_many_files_of_another_tool_are_told_in_one_line(ds: Any, tmp_path: Path) -> None:
    folder = tmp_path / "theirs"
    folder.mkdir()
    for number in range(30):
        (folder / f"{number}.jsonl").write_bytes(lines(claude_code_talk(2)))
    told = ds("openai-chat", folder, status=1).output
    assert "30 files look like a session of Claude Code each, such as" in told
    assert f"use: ds import claude-code {folder}\n" in told
    assert "30 files refused: nothing was imported" in told
    assert len(told.splitlines()) == 2


def test_an_unreadable_file_that_is_named_stops_no_other(ds: Any, client: Client, tmp_path: Path) -> None:
    good = place("gemini", tmp_path / "sample")
    (chat,) = (path for path in good.rglob("*.json"))
    half = tmp_path / "half.json"
    half.write_text('{"sessionId": "x", ')
    told = ds("gemini", half, chat, status=1).output
    assert f"{half} is not JSON, or half written" in told
    assert "1 session imported" in told


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("content", [b"", b" \n\n"])
def test_an_empty_file_that_is_named_is_refused(
    ds: Any, client: Client, tmp_path: Path, tool: str, content: bytes
) -> None:
    path = tmp_path / f"empty-{tool}.jsonl"
    path.write_bytes(content)
    before = {info.id for info in client.sessions.list()}
    for _ in range(2):
        refused = ds(tool, path, status=1).output
        assert str(path) in refused
        assert content or f"{path} is empty: there is nothing to import." in refused
    assert {info.id for info in client.sessions.list()} == before


def test_an_empty_file_in_a_folder_is_counted(ds: Any, client: Client, tmp_path: Path) -> None:
    (tmp_path / "chats").mkdir()
    (tmp_path / "chats" / "nothing.jsonl").write_bytes(b"")
    (tmp_path / "chats" / "something.jsonl").write_text('{"role":"user","content":"Hello"}\n')
    assert "1 session imported, 1 empty: 1 new event" in ds("openai-chat", tmp_path / "chats").output
    assert "openai-chat:nothing" not in {info.id for info in client.sessions.list()}


def test_an_export_without_events_is_a_session_with_a_title(ds: Any, client: Client, tmp_path: Path) -> None:
    path = tmp_path / "only-titled.jsonl"
    path.write_text('{"type":"export.session","session":"x","title":"Only a title","metadata":{}}\n')
    ds("jsonl", path)
    assert client.sessions.get("only-titled").title == "Only a title"


@pytest.mark.parametrize(
    ("tool", "content", "told"),
    [
        ("codex", lines(claude_code_talk(1)), "looks like a session of Claude Code"),
        ("pi", lines(claude_code_talk(1)), "looks like a session of Claude Code"),
        ("jsonl", b"", "is empty"),
        ("jsonl", b"<p>\n<p>\n", "is not JSON lines"),
        ("gemini", b"<p>\n", "Nothing was found"),
    ],
)
def test_with_json_a_failure_is_an_error_object(
    ds: Any, tmp_path: Path, tool: str, content: bytes, told: str
) -> None:
    path = tmp_path / "failing.jsonl"
    path.write_bytes(content)
    failed = ds(tool, path, "--json", status=1)
    (line,) = failed.stderr.splitlines()
    error = json.loads(line)["error"]
    assert error.keys() == {"type", "message", "exit_status"}
    assert (error["type"], error["exit_status"]) == ("failed", 1)
    assert told in error["message"]
    report = json.loads(failed.stdout)
    assert report["new_events"] == 0


def test_with_json_several_failures_are_one_error_and_all_in_the_report(ds: Any, tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.jsonl").write_bytes(lines(claude_code_talk(1)))
    failed = ds("pi", tmp_path / "a.jsonl", tmp_path / "b.jsonl", "--json", status=1)
    (line,) = failed.stderr.splitlines()
    assert "And 1 more problem" in json.loads(line)["error"]["message"]
    assert [Path(one["file"]).name for one in json.loads(failed.stdout)["refused_files"]] == [
        "a.jsonl",
        "b.jsonl",
    ]


def test_a_session_that_was_imported_with_its_secrets_is_not_called_redacted(
    ds: Any, client: Client, tmp_path: Path
) -> None:
    path = tmp_path / "with secrets.jsonl"
    path.write_text(json.dumps({"role": "user", "content": "Use ghp_" + "a1B2" * 9}) + "\n")
    ds("openai-chat", path)
    (name,) = (info.id for info in client.sessions.list() if "with-secrets" in info.id)
    before = client.sessions.get(name).raw
    command = f"ds delete {name} --yes && ds import openai-chat '{path}' --redact"
    for _ in range(2):
        refused = ds("openai-chat", path, "--redact", status=1).output
        assert f"{name} was imported without --redact: what is stored still has its secrets" in refused
        assert f"Replace it with: {command}" in refused
    after = client.sessions.get(name).raw
    kept = ("title", "metadata", "updated_at")
    assert [after[member] for member in kept] == [before[member] for member in kept]
    client.session(name).delete()
    ds("openai-chat", path, "--redact")
    assert "[redacted github-token " in (client.sessions.get(name).title or "")
    ds("openai-chat", path, "--redact")


def test_several_sessions_with_secrets_are_told_at_once(ds: Any, client: Client, tmp_path: Path) -> None:
    for name in "ab":
        said = {"role": "user", "content": f"{name}: ghp_" + "a1B2" * 9}
        (tmp_path / f"{name}-secret.jsonl").write_text(json.dumps(said) + "\n")
    ds("openai-chat", tmp_path)
    refused = ds("openai-chat", tmp_path, "--redact", status=1)
    (line,) = refused.stderr.splitlines()
    assert line.startswith("ds: 2 sessions were imported without --redact")
    names = "openai-chat:a-secret openai-chat:b-secret"
    assert f"Replace them with: ds delete {names} --yes && ds import openai-chat {tmp_path} --redact" in line

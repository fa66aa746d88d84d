"""``ds import`` against a real server, and our own export there and back."""

import json
import re
from pathlib import Path
from typing import Any

import httpx2
import pytest
from click.testing import CliRunner, Result

from durable_sessions import testing
from durable_sessions.cli.main import cli
from durable_sessions.client import Client
from durable_sessions.importers.registry import TOOLS
from tests.importers.talks import claude_code_talk, lines

NAME = "11111111-2222-4333-8444-555555555555"
GROWN = "33333333-2222-4333-8444-555555555555"
COPIED = "22222222-2222-4333-8444-555555555555"
SERVERS_OWN = (
    "imported",
    "id",
    "offset",
    "created_at",
    "processed_at",
    "actor",
    "original_created_at",
    "original_actor",
)


@pytest.fixture
def ds(server: testing.BackgroundServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("DURABLE_SESSIONS_URL", server.url)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("HOME", str(tmp_path))

    def run(*arguments: object, ok: bool = True) -> Result:
        result = CliRunner().invoke(cli, ["import", *map(str, arguments)])
        assert (result.exit_code == 0) is ok, result.output
        return result

    return run


def exported(server: testing.BackgroundServer, session: str) -> bytes:
    url = f"{server.url}/v1/sessions/{session}/events"
    return httpx2.get(url, headers={"Accept": "application/x-ndjson"}).content


def test_import_and_import_again(ds: Any, client: Client, tmp_path: Path) -> None:
    folder = tmp_path / ".claude" / "projects" / "-srv-demo"
    folder.mkdir(parents=True)
    (folder / f"{NAME}.jsonl").write_bytes(lines(claude_code_talk(3)))
    first = json.loads(ds("claude-code", "--json").output)
    assert first["new_events"] == 30
    session = client.session(f"claude-code:{NAME}")
    info = session.info()
    assert info.title == "Question 0?"
    assert info.metadata["project"] == "demo"
    assert (info.usage.input_tokens, info.usage.output_tokens) == (60, 87)
    events = list(session.events())
    assert events[0]["original_created_at"] == "2026-11-15T00:00:00.000Z"
    for arguments in ((), ("--again",), ("--state", tmp_path / "other.db")):
        again = json.loads(ds("claude-code", "--json", *arguments).output)
        assert (again["new_events"], again["differ"]) == (0, 0)
    assert list(session.events()) == events
    told = ds("claude-code", "--again").output
    assert told == "1 session unchanged: nothing new\n"


def test_what_was_there_before_is_not_counted_again(ds: Any, tmp_path: Path) -> None:
    path = tmp_path / f"{GROWN}.jsonl"
    talk = claude_code_talk(4, GROWN)
    talk[1]["message"]["content"][0]["thinking"] = "The key is sk-ant-api03-" + "a1B2" * 20
    path.write_bytes(lines(talk[:18]))
    assert "redacted: 1 secret" in ds("claude-code", path, "--redact").output
    path.write_bytes(lines(talk))
    # Without the record of what was sent, everything is sent again, as when a file was rewritten.
    said = ds("claude-code", path, "--redact", "--state", tmp_path / "other.db").output.splitlines()
    assert said[0] == f"1 session imported as claude-code:{GROWN}: 10 new events from 24 records"
    assert said[1] == (
        "1 prompt, 2 answers, 1 thought, 1 tool call, 1 tool result, 2 model requests and 2 other events"
    )
    assert said[2] == "redacted: nothing, for nothing looks like a secret"


def test_what_brought_nothing_is_told_so(ds: Any, tmp_path: Path) -> None:
    (tmp_path / "one.jsonl").write_text('{"type":"note"}\n')
    (tmp_path / "none.jsonl").write_text("")
    assert ds("jsonl", tmp_path / "one.jsonl").output.startswith(
        "1 session imported as one: 1 new event from"
    )
    again = ds("jsonl", tmp_path / "one.jsonl", "--state", tmp_path / "other.db").output
    assert again.splitlines()[0] == "1 session unchanged: nothing new"
    empty = ds("jsonl", tmp_path / "none.jsonl", ok=False).output
    assert empty.splitlines()[-1] == "1 session empty: nothing was imported"


def test_what_is_told(ds: Any, tmp_path: Path) -> None:
    path = tmp_path / f"{NAME}.jsonl"
    path.write_bytes(lines(claude_code_talk(1)) + b"damaged\n" + b'{"half')
    dry = ds("claude-code", path, "--dry-run").output
    assert f"1 session would be imported as claude-code:{NAME}: 11 events from 7 records" in dry
    assert "1 prompt, 2 answers, 1 thought, 1 tool call, 1 tool result" in dry
    unfinished = "1 unfinished last line, imported when it is complete"
    assert f"1 damaged (not JSON) and kept as text, {unfinished}; --verbose tells all of it" in dry
    assert len(dry.splitlines()) <= 5
    assert "redacted" not in dry
    assert (
        "redacted: nothing, for nothing looks like a secret"
        in ds("claude-code", path, "--dry-run", "--redact").output
    )
    everything = ds("claude-code", path, "--dry-run", "--verbose").output
    assert "not JSON" in everything
    assert "unfinished last line, imported when it is complete" in everything
    assert not (tmp_path / "state" / "durable-sessions" / "imports.db").read_bytes().count(NAME.encode())
    assert "another project" in ds("claude-code", path, "--project", "/elsewhere").output
    assert "older than --since" in ds("claude-code", path, "--since", "2999-01-01").output
    for since in ("7d", "2h", "2020-01-01", "2020-01-01T12:00:00Z"):
        assert "older than --since" not in ds("claude-code", path, "--since", since, "--dry-run").output


def test_an_import_that_finds_nothing_says_where_it_looked(ds: Any, tmp_path: Path) -> None:
    told = ds("claude-code").output
    assert f"Looked for Claude Code sessions in: {tmp_path}/.claude/projects (not there)" in told
    (tmp_path / "page.html").write_text("<p>Hello</p>")
    for tool in ("gemini", "openhands", "pi", "openclaw", "aider"):
        refused = ds(tool, tmp_path / "page.html", ok=False)
        assert refused.exit_code == 1
        assert f"in: {tmp_path}/page.html" in refused.output


def test_what_is_refused(ds: Any, tmp_path: Path) -> None:
    assert "have no place of their own" in ds("swe-agent", ok=False).output
    refused = ds("codex", "--since", "yesterday", ok=False)
    assert refused.exit_code == 2
    assert "--since: 'yesterday' is not a time" in refused.output
    (tmp_path / "half.traj").write_text("{")
    assert "half.traj is not JSON" in ds("swe-agent", tmp_path / "half.traj", ok=False).output
    missing = ds(
        "codex",
        tmp_path,
        "--url",
        "http://127.0.0.1:9",
        ok=False,
    )
    assert missing.exit_code == 4
    assert "Nothing answers at http://127.0.0.1:9" in missing.output
    assert "Client(" not in missing.output


def test_redacted(ds: Any, client: Client, tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2" * 9
    (tmp_path / "secret-talk.jsonl").write_text(
        json.dumps({"role": "user", "content": f"Use {secret}"}) + "\n"
    )
    told = json.loads(ds("openai-chat", tmp_path / "secret-talk.jsonl", "--redact", "--json").output)
    assert told["redacted"] == {"github-token": 1}
    (event,) = client.session("openai-chat:secret-talk").events()
    assert "[redacted github-token " in event.text


@pytest.mark.parametrize("is_marked", [True, False])
def test_what_was_redacted_stays_so(ds: Any, client: Client, tmp_path: Path, is_marked: bool) -> None:
    """Also for sessions that only their title shows to be redacted, and for what is added later."""
    secret, name = "ghp_" + "a1B2" * 9, f"stays-redacted-{is_marked}"
    path = tmp_path / f"{name}.jsonl"
    path.write_text(json.dumps({"role": "user", "content": f"Use {secret}"}) + "\n")
    ds("openai-chat", path, "--redact")
    session = client.session(f"openai-chat:{name}")
    if not is_marked:
        session.update(metadata={"redacted": None})
    before = session.info()
    assert "[redacted github-token " in (before.title or "")
    again = json.loads(ds("openai-chat", path, "--json").output)
    after = session.info()
    assert after.title == before.title
    assert again["new_events"] == after.event_count - before.event_count
    assert again["differ"] == 0
    with path.open("a") as file:
        file.write(json.dumps({"role": "user", "content": f"And {secret}"}) + "\n")
    grown = ds("openai-chat", path)
    assert "redacted: 1 secret (1 github-token)" in grown.output
    assert secret not in str(list(session.events()))
    assert session.info().metadata["redacted"] == "yes"


def test_what_an_import_writes_is_counted(ds: Any, client: Client, tmp_path: Path) -> None:
    path = tmp_path / "counted.jsonl"
    path.write_text(json.dumps({"role": "user", "content": "Hello"}) + "\n")
    ds("openai-chat", path)
    session = client.session("openai-chat:counted")
    session.update(title="Another title")
    before = session.info().event_count
    told = json.loads(ds("openai-chat", path, "--again", "--json").output)
    assert session.info().event_count == before + 1
    assert told["new_events"] == 1
    assert told["events"]["session.updated"] == 1


def test_events_with_the_ids_of_others_are_told(ds: Any, client: Client, tmp_path: Path) -> None:
    path = tmp_path / "differing.jsonl"
    path.write_text('{"id":"a","type":"note","n":1}\n{"id":"b","type":"note","n":1}\n')
    assert "not imported" not in ds("jsonl", path).output
    path.write_text('{"id":"a","type":"note","n":1}\n{"id":"b","type":"note","n":2}\n')
    told = "not imported: 1 event (the id is that of another stored event)"
    assert told in ds("jsonl", path, "--again").output
    assert json.loads(ds("jsonl", path, "--again", "--json").output)["differ"] == 1
    assert "the id is that of another stored event" in ds("jsonl", path, "--again", "--verbose").output
    assert [event["n"] for event in client.session("differing").events()] == [1, 1]


def test_odd_members_are_imported_as_they_can_be_kept(ds: Any, client: Client, tmp_path: Path) -> None:
    path = tmp_path / "odd.jsonl"
    path.write_text(
        '{"id":"a","type":"note","created_at":"last week","n":1}\n'
        '{"id":"b","type":"draft","n":2,"type":"note"}\n'
        '{"id":"c","type":"note","created_at":1731844800,"processed_at":"x","actor":"m","actor":"n"}\n'
        '{"id":"d","type":"note","created_at":"2020-01-01T00:00:00Z","original_created_at":"y"}\n'
    )
    assert json.loads(ds("jsonl", path, "--json").output)["new_events"] == 4
    assert json.loads(ds("jsonl", path, "--again", "--json").output)["new_events"] == 0
    events = list(client.session("odd").events())
    assert [event.type for event in events] == ["note"] * 4
    assert [event.get("original_created_at") for event in events] == ["last week", None, 1731844800, "y"]
    assert [event.get("original_actor") for event in events] == [None, None, "n", None]


EXPORT = b"".join(
    b'{"id":"e%d","offset":"%016d_%016d","type":"user.message","content":[]}\n' % (n, 0, n) for n in range(30)
)
PAGE = b"<!doctype html>\n<html>\n<body>\n<p>Hello</p>\n</body>\n</html>\n"


@pytest.mark.parametrize("tool", ["jsonl", "claude-code", "codex", "openai-chat"])
@pytest.mark.parametrize(
    "page", [PAGE, b"# A title\n\nSome words.\n", b"words", PAGE.decode().encode("utf-16")]
)
def test_what_is_not_json_lines_is_refused(
    ds: Any, client: Client, tmp_path: Path, tool: str, page: bytes
) -> None:
    path = tmp_path / "rollout-page.jsonl"
    path.write_bytes(page)
    before = {info.id for info in client.sessions.list()}
    refused = ds(tool, path, ok=False)
    assert refused.exit_code == 1
    told = "rollout-page.jsonl is not JSON lines." in refused.output
    assert told or ("Nothing was found" in refused.output and page == b"words")
    assert {info.id for info in client.sessions.list()} == before


@pytest.mark.parametrize(
    "content", [EXPORT, b'{"type":"user.message","content":"Hi."}\n'], ids=["export", "own"]
)
@pytest.mark.parametrize("tool", ["claude-code", "codex", "openai-chat"])
def test_our_own_events_are_not_taken_for_another_tools(
    ds: Any, client: Client, tmp_path: Path, tool: str, content: bytes
) -> None:
    path = tmp_path / "rollout-own.jsonl"
    path.write_bytes(content)
    before = {info.id for info in client.sessions.list()}
    refused = ds(tool, path, ok=False)
    assert refused.exit_code == 1
    assert f"looks like an export of Durable Sessions; use: ds import jsonl {path}" in refused.output
    assert {info.id for info in client.sessions.list()} == before


def test_one_record_in_ten_is_enough(ds: Any, client: Client, tmp_path: Path) -> None:
    event, other = b'{"type":"note"}\n', b'{"a":1}\n'
    (tmp_path / "one-in-ten.jsonl").write_bytes(event + 9 * other)
    (tmp_path / "one-in-eleven.jsonl").write_bytes(event + 10 * other)
    assert "1 session imported" in ds("jsonl", tmp_path / "one-in-ten.jsonl").output
    refused = ds("jsonl", tmp_path / "one-in-eleven.jsonl", ok=False).output
    assert "holds no events: each line is an object with a type" in refused


def test_a_file_that_is_refused_stops_no_other(ds: Any, client: Client, tmp_path: Path) -> None:
    (tmp_path / "beside-page.jsonl").write_bytes(PAGE)
    (tmp_path / "beside-good.jsonl").write_bytes(EXPORT)
    told = ds("jsonl", tmp_path, ok=False).output
    assert "1 file refused" in told
    assert client.sessions.get("beside-good").event_count == 30


@pytest.mark.parametrize(
    ("tool", "session", "record"),
    [
        ("jsonl", "twice-jsonl", '{"id":"%s","type":"note"}'),
        (
            "claude-code",
            "claude-code:twice-claude-code",
            '{"type":"user","uuid":"%s","message":{"content":"x"}}',
        ),
        ("openai-chat", "openai-chat:twice-openai-chat", '{"role":"user","content":"%s"}'),
    ],
)
def test_two_files_never_become_one_session_unnoticed(
    ds: Any, client: Client, tmp_path: Path, tool: str, session: str, record: str
) -> None:
    paths = [tmp_path / folder / f"twice-{tool}.jsonl" for folder in "abc"]
    for path in paths:
        path.parent.mkdir()
        path.write_text(record % path.parent.name + "\n")
    refused = ds(tool, *paths[:2], ok=False)
    assert refused.exit_code == 2
    assert all(str(path) in refused.output for path in paths[:2])
    assert f"would both become the session {session}" in refused.output
    assert session not in {info.id for info in client.sessions.list()}
    paths[2].write_text(record % "a" + "\n" + record % "d" + "\n")
    told = ds(tool, paths[2], paths[0]).output
    assert re.search("1 session imported as [^ ]+: [0-9]+ new events from 2 records", told)
    assert "not imported: 1 session (a copy of a file that is imported)" in told


def test_a_line_that_is_still_being_written_is_told_and_taken_up_later(ds: Any, tmp_path: Path) -> None:
    path = tmp_path / "growing.jsonl"
    whole = [json.dumps({"type": "note", "n": number}) + "\n" for number in range(3)]
    path.write_text(whole[0][:9])
    refused = ds("jsonl", path, ok=False)
    assert refused.exit_code == 1
    assert f"There is nothing to import in {path} yet: it has no complete record." in refused.output
    path.write_text(whole[0] + whole[1] + whole[2][:9])
    told = ds("jsonl", path).output
    assert "1 session imported as growing: 2 new events from 2 records" in told
    assert "1 unfinished last line, imported when it is complete" in told
    path.write_text("".join(whole))
    told = ds("jsonl", path).output
    assert "1 session imported as growing: 1 new event from 3 records" in told
    assert "unfinished" not in told
    for again in ((), ("--again",)):
        assert ds("jsonl", path, *again).output == "1 session unchanged: nothing new\n"


def test_nothing_found_is_no_failure(ds: Any, tmp_path: Path) -> None:
    found = ds("claude-code", tmp_path)
    assert found.stdout == "no session was imported\n"
    assert found.stderr == f"Nothing was found. Looked for Claude Code sessions in: {tmp_path}\n"


def test_two_files_of_a_session_in_a_folder(ds: Any, client: Client, tmp_path: Path) -> None:
    """Our own exports are refused; what another tool keeps twice stops no import, and is told."""
    for folder in "ab":
        for tool, record in (("jsonl", {"type": folder}), ("chat", {"role": "user", "content": folder})):
            path = tmp_path / tool / folder / "in-folder.jsonl"
            path.parent.mkdir(parents=True)
            path.write_text(json.dumps(record) + "\n")
    assert ds("jsonl", tmp_path / "jsonl", ok=False).exit_code == 2
    told = ds("openai-chat", tmp_path / "chat").output
    assert "not imported: 1 session (another file of the same session)" in told


def test_a_session_that_was_deleted_comes_back(ds: Any, client: Client, tmp_path: Path) -> None:
    (tmp_path / "gone.jsonl").write_text(json.dumps({"role": "user", "content": "Hello"}) + "\n")
    ds("openai-chat", tmp_path / "gone.jsonl")
    client.session("openai-chat:gone").delete()
    assert json.loads(ds("openai-chat", tmp_path / "gone.jsonl", "--json").output)["new_events"] == 1


def test_a_session_that_takes_nothing_more_stops_no_other(ds: Any, client: Client, tmp_path: Path) -> None:
    for name in ("archived", "open"):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps({"role": "user", "content": "Hello"}) + "\n")
    ds("openai-chat", tmp_path / "archived.jsonl")
    client.session("openai-chat:archived").archive()
    with (tmp_path / "archived.jsonl").open("a") as file:
        file.write(json.dumps({"role": "user", "content": "More"}) + "\n")
    told = json.loads(ds("openai-chat", tmp_path, "--json", ok=False).stdout)
    statuses = {one["session"]: one["status"] for one in told["sessions"]}
    assert statuses["openai-chat:archived"] == "refused"
    assert statuses["openai-chat:open"] == "imported"


def test_our_own_export_comes_back_byte_for_byte(
    ds: Any, client: Client, server: testing.BackgroundServer, tmp_path: Path
) -> None:
    """Numbers, order and escapes: what a client said is the same after the round trip."""
    source = client.session("round-trip-source")
    source.append_body(
        b'[{"type":"a","n":1.0,"big":123456789012345678901234567890,"z":{"b":1,"a":[1e3,-0.0]},"s":"\\u00e9\\/"},'
        b'{"id":"mine","type":"b","created_at":"2020-01-01T00:00:00Z","t":"\\ud800"},{"type":"c"}]'
    )
    data = exported(server, "round-trip-source")
    copy = tmp_path / "round-trip-copy.jsonl"
    copy.write_bytes(data)
    assert json.loads(ds("jsonl", copy, "--json").output)["new_events"] == 3
    back = exported(server, "round-trip-copy")
    assert members(back) == members(data)
    again = tmp_path / "round-trip-again.jsonl"
    again.write_bytes(back)
    ds("jsonl", again)
    assert stable(exported(server, "round-trip-again")) == stable(back)
    assert json.loads(ds("jsonl", copy, "--again", "--json").output)["new_events"] == 0


def test_what_is_there_already_changes_nothing(ds: Any, client: Client, tmp_path: Path) -> None:
    path = tmp_path / "there-already.jsonl"
    path.write_text('{"id":"one","type":"note"}\n{"id":"two","type":"session.updated","title":"Named"}\n')
    ds("jsonl", path)
    session = client.session("there-already")
    before = session.info()
    assert json.loads(ds("jsonl", path, "--again", "--json").output)["new_events"] == 0
    after = session.info()
    assert (after.updated_at, after.event_count) == (before.updated_at, 2)
    session.append({"type": "note"})
    assert session.info().updated_at > before.updated_at


def test_a_copy_is_as_old_as_what_was_imported(
    ds: Any, client: Client, server: testing.BackgroundServer, tmp_path: Path
) -> None:
    """Records without a time of their own, and the server's word of a title, do not make it active."""
    folder = tmp_path / "talk"
    folder.mkdir()
    snapshot = {"type": "file-history-snapshot", "messageId": "m", "snapshot": {"trackedFileBackups": {}}}
    (folder / f"{COPIED}.jsonl").write_bytes(lines([*claude_code_talk(2, session=COPIED), snapshot]))
    ds("claude-code", folder)
    first = client.session(f"claude-code:{COPIED}")
    first.update(title="Renamed here")
    events = list(first.events())
    untimed = [one["id"] for one in events if "original_created_at" not in one]
    assert len(untimed) >= 2, "the snapshot and the change of the title"
    before = first.info()
    copy = tmp_path / "copied.jsonl"
    copy.write_bytes(exported(server, before.id))
    ds("jsonl", copy)
    info = client.session("copied").info()
    assert (info.started_at, info.last_activity_at) == (before.started_at, before.last_activity_at)
    copied = list(client.session("copied").events())
    assert [one["id"] for one in copied if "original_created_at" not in one] == untimed
    assert info.title == "Renamed here"


def test_what_happened_on_the_first_server_keeps_its_time(
    ds: Any, client: Client, server: testing.BackgroundServer, tmp_path: Path
) -> None:
    source = client.session("native-source")
    source.append([{"type": "note"}, {"type": "note", "source": {"tool": "claude-code", "hook": "Stop"}}])
    source.update(title="Mine")
    copy = tmp_path / "native-copy.jsonl"
    copy.write_bytes(exported(server, "native-source"))
    ds("jsonl", copy)
    times = [one["created_at"] for one in source.events()]
    assert [one["original_created_at"] for one in client.session("native-copy").events()] == times


def test_the_title_comes_with_the_events(
    ds: Any, client: Client, server: testing.BackgroundServer, tmp_path: Path
) -> None:
    source = client.session("titled-source")
    source.append({"type": "note"})
    source.update(title="First", metadata={"team": "infra", "n": 1})
    source.append([{"type": "note", "n": n} for n in range(600)])
    source.update(title="Second")
    count = source.info().event_count
    copy = tmp_path / "titled-copy.jsonl"
    copy.write_bytes(exported(server, "titled-source"))
    ds("jsonl", copy)
    session = client.session("titled-copy")
    info = session.info()
    assert (info.title, info.metadata) == ("Second", {"team": "infra"})
    assert info.event_count == count, "no event beside those that came"
    session.update(title="Mine now", metadata={"team": "web"})
    ds("jsonl", copy, "--again")
    assert (session.info().title, session.info().metadata) == ("Mine now", {"team": "web"})


@pytest.mark.parametrize("last", ['"title":null', '"title":5,"metadata":[]', '"metadata":null', '"x":'])
def test_a_session_whose_events_tell_no_title_has_none(
    ds: Any, client: Client, tmp_path: Path, last: str
) -> None:
    name = f"untitled-{len(last)}"
    update = '{"type":"session.updated",' + last + "}"
    (tmp_path / f"{name}.jsonl").write_text(update + '\n{"type":"note"}\n')
    ds("jsonl", tmp_path / f"{name}.jsonl")
    info = client.session(name).info()
    assert (info.title, info.metadata) == (None, {})


def members(data: bytes) -> list[list[tuple[str, str]]]:
    """What clients gave of each event, as it is written, in order."""
    return [
        [(name, str(value)) for name, value in pairs(line) if name not in SERVERS_OWN]
        for line in data.decode().splitlines()
    ]


def stable(data: bytes) -> list[list[tuple[str, str]]]:
    anew = ("offset", "created_at", "processed_at", "actor")
    return [
        [(name, str(value)) for name, value in pairs(line) if name not in anew]
        for line in data.decode().splitlines()
    ]


def pairs(line: str) -> list[tuple[str, object]]:
    return json.loads(line, object_pairs_hook=lambda found: found, parse_float=str, parse_int=str)  # type: ignore[no-any-return]


def test_every_tool_is_named_in_the_help(ds: Any) -> None:
    told = CliRunner().invoke(cli, ["import", "--help"]).output
    assert all(name in told for name in TOOLS)


def test_every_tool_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "importing.md").read_text()
    assert all(f"`{name}`" in page for name in TOOLS)

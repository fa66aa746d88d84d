"""The commands that change sessions, and what all commands share: prefixes, suggestions, errors as JSON."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from durable_sessions.cli.session_lookup import CANDIDATES_MAX
from durable_sessions.client import Client
from durable_sessions.client.errors import NotFoundError
from tests.support.commands import Commands, on_a_terminal
from tests.support.process import ServerProcess


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("server") / "data") as one:
        yield one


@pytest.fixture(scope="module")
def client(running: ServerProcess) -> Iterator[Client]:
    with Client(running.url) as client:
        yield client


@pytest.fixture(scope="module")
def ds(running: ServerProcess) -> Commands:
    return Commands(running.url)


def exists(client: Client, session: str) -> bool:
    try:
        client.sessions.get(session)
    except NotFoundError:
        return False
    return True


# What cannot be taken back ----------------------------------------------------------------


def test_delete_removes_sessions(ds: Commands, client: Client) -> None:
    for name in ("gone-1", "gone-2", "kept"):
        client.session(name).append({"type": "note"})
    assert "gone-2: deleted" in ds.run("delete", "gone-1", "gone-2", "--yes").stderr
    assert [exists(client, name) for name in ("gone-1", "gone-2", "kept")] == [False, False, True]
    assert ds.json("delete", "kept", "--yes") == {"id": "kept", "type": "session_deleted"}


def test_redact_erases_events(ds: Commands, client: Client) -> None:
    client.session("said").append([{"type": "note", "id": name, "text": "secret"} for name in ("a", "b")])
    asked = ds.run("redact", "said", "a", "--reason", "why", status=2)
    assert "Erase 1 event of said" in asked.stderr
    assert "--yes" in asked.stderr
    assert "text" in client.session("said").event("a")
    assert "said: 1 event redacted" in ds.run("redact", "said", "a", "--reason", "why", "--yes").stderr
    told = ds.json("redact", "said", "b", "--reason", "why", "--no-digest", "--yes")
    assert told["event"]["events"][0]["sha256"] is None
    assert "secret" not in ds.run("export", "said", "--format", "jsonl").stdout
    assert "secret" not in ds.run("export", "said", "--format", "html").stdout


def test_close_and_archive_say_what_became_of_the_session(ds: Commands, client: Client) -> None:
    client.session("ended").append({"type": "note"})
    assert ds.json("close", "ended", "--yes")["lifecycle"] == "closed"
    assert ds.json("archive", "ended", "--yes")["lifecycle"] == "archived"
    assert "ended" not in ds.run("sessions").stdout
    assert "ended" in ds.run("sessions", "--archived").stdout


@pytest.mark.parametrize("command", ["delete", "close", "archive"])
def test_nothing_is_done_where_nobody_can_be_asked(ds: Commands, client: Client, command: str) -> None:
    client.sessions.create("asked", title="Ask\x1b[31m first")
    said = ds.run(command, "asked", status=2, given=b"y\n").stderr
    assert "asked “Ask first” (0 events, 0 B)" in said
    assert "add --yes" in said
    assert client.sessions.get("asked").lifecycle == "open"


@pytest.mark.parametrize(
    ("typed", "status", "left"), [(b"n\n", 1, True), (b"\n", 1, True), (b"y\n", 0, False)]
)
def test_a_person_is_asked(
    running: ServerProcess, client: Client, typed: bytes, status: int, left: bool
) -> None:
    client.session("question").append({"type": "note"})
    seen = on_a_terminal(running.url, "delete", "question", typed=typed, status=status)
    assert "Delete question (" in seen
    assert "[y/N]" in seen
    assert exists(client, "question") is left


def test_all_sessions_must_exist_before_one_is_deleted(ds: Commands, client: Client) -> None:
    client.session("first").append({"type": "note"})
    ds.run("delete", "first", "nowhere", "--yes", status=3)
    assert exists(client, "first")


def test_a_title_is_given_and_taken_away(ds: Commands, client: Client) -> None:
    client.session("named").append({"type": "note"})
    ds.run("title", "named", "A better name")
    assert client.sessions.get("named").title == "A better name"
    assert ds.json("title", "named", "")["title"] is None


@pytest.mark.parametrize("command", ["delete", "close", "archive"])
@pytest.mark.parametrize("sure", [["--yes"], []])
def test_without_a_question_only_a_whole_id_will_do(
    ds: Commands, client: Client, command: str, sure: list[str]
) -> None:
    name = f"{command}-whole{len(sure)}-12"
    client.sessions.create(f"{name}3", title="Another job")
    client.sessions.create("whole-first")
    said = ds.run(command, "whole-first", name, *sure, status=2).stderr
    assert f"There is no session {name}; nothing was done." in said
    assert f"{name}3 “Another job”" in said
    assert f"whole id: ds {command} whole-first {name}3" in said
    assert client.sessions.get(f"{name}3").lifecycle == "open"
    assert client.sessions.get("whole-first").lifecycle == "open"


def test_a_person_may_give_a_prefix_and_is_asked_with_the_whole_id(
    running: ServerProcess, client: Client
) -> None:
    client.sessions.create("by-prefix-1234")
    seen = on_a_terminal(running.url, "delete", "by-prefix", typed=b"y\n")
    assert "Delete by-prefix-1234 (" in seen
    assert not exists(client, "by-prefix-1234")


# Prefixes ---------------------------------------------------------------------------------


def test_a_session_is_named_by_a_prefix_that_only_it_has(ds: Commands, client: Client) -> None:
    client.session("prefix-abc").append({"type": "note", "n": 1})
    client.session("prefix-abd").append({"type": "note", "n": 2})
    client.session("prefix").append({"type": "note", "n": 3})
    assert [event["n"] for event in ds.lines("events", "prefix-abc")] == [1]
    assert [event["n"] for event in ds.lines("events", "prefix-abd")] == [2]
    assert [event["n"] for event in ds.lines("events", "prefix")] == [3]  # a whole id is never a prefix
    said = ds.run("show", "prefix-a", status=2).stderr
    assert "prefix-abc" in said
    assert "prefix-abd" in said
    client.session("prefix-abd").archive()
    ds.run("show", "prefix-a", status=2)
    assert ds.json("title", "prefix-abc"[:-1] + "c", "x")["id"] == "prefix-abc"
    assert "none whose id begins like that" in ds.run("show", "prefix-x", status=3).stderr


def test_only_some_of_many_candidates_are_named(ds: Commands, client: Client) -> None:
    for number in range(CANDIDATES_MAX + 2):
        client.sessions.create(f"many-{number}")
    said = ds.run("tail", "many", status=2).stderr
    assert said.count("many-") == CANDIDATES_MAX
    assert "…" in said


def test_appending_never_takes_a_prefix(ds: Commands, client: Client) -> None:
    client.session("append-me-not").append({"type": "note"})
    ds.run("append", "append-me", '{"type":"note"}')
    assert client.sessions.get("append-me").event_count == 1


# Artifacts --------------------------------------------------------------------------------


def test_an_artifact_is_stored_and_fetched(ds: Commands, tmp_path: Path) -> None:
    source, target = tmp_path / "picture.png", tmp_path / "copy"
    source.write_bytes(bytes(range(256)) * 5_000)
    digest = hashlib.sha256(source.read_bytes()).hexdigest()
    assert ds.run("artifact", "put", str(source)).stdout.strip() == digest
    told = ds.json("artifact", "put", str(source))
    assert told == {
        "sha256": digest,
        "bytes": 1_280_000,
        "media_type": "image/png",
        "path": f"/v1/artifacts/{digest}",
    }
    ds.run("artifact", "get", digest, "-o", str(target))
    assert target.read_bytes() == source.read_bytes()
    assert ds.run("artifact", "get", told["path"]).stdout_bytes == source.read_bytes()


def test_an_artifact_comes_from_standard_input(ds: Commands) -> None:
    digest = ds.run("artifact", "put", "-", given=b"piped").stdout.strip()
    assert ds.run("artifact", "get", digest).stdout == "piped"


def test_an_artifact_is_deleted(ds: Commands, client: Client) -> None:
    stored = client.artifacts.put(b"away with it")
    assert "add --yes" in ds.run("artifact", "delete", stored.sha256, status=2).stderr
    assert ds.json("artifact", "delete", stored.path, "--yes") == {"sha256": stored.sha256, "deleted": True}
    assert not client.artifacts.exists(stored.sha256)
    ds.run("artifact", "delete", stored.sha256, "--yes", status=3)


def test_a_missing_artifact_leaves_the_file_as_it_was(ds: Commands, tmp_path: Path) -> None:
    target = tmp_path / "kept"
    target.write_text("before")
    missing = ds.run("artifact", "get", "0" * 64, "-o", str(target), status=3).stderr
    named = "Artifacts are named by the SHA-256 of their bytes."
    assert missing == f"ds: There is no artifact {'0' * 64}. {named}\n"
    assert target.read_text() == "before"
    assert "64 lower-case hex digits" in ds.run("artifact", "get", "nothing", status=2).stderr


# Suggestions, and errors for programs -------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("serv", "Did you mean serve"),
        ("sesions", "Did you mean sessions"),
        ("xyz", "See all of them with: ds --help"),
    ],
)
def test_a_mistyped_command_is_guessed(ds: Commands, given: str, said: str) -> None:
    assert said in ds.run(given, status=2).stderr


@pytest.mark.parametrize(
    ("arguments", "kind", "status"),
    [
        (("show", "nowhere"), "not_found", 3),
        (("sesions",), "usage", 2),
        (("sessions", "--limit", "no"), "usage", 2),
        (("delete", "nowhere", "--yes"), "not_found", 3),
        (("append", "x", "{"), "wrong_input", 2),
        (("sessions", "--url", "http://127.0.0.1:1"), "unreachable", 4),
        (("verify", "--data", "/nowhere/at/all"), "usage", 2),
    ],
)
def test_a_failure_is_json_for_programs(
    ds: Commands, arguments: tuple[str, ...], kind: str, status: int
) -> None:
    error = json.loads(ds.run(*arguments, "--json", status=status).stderr)["error"]
    assert (error["type"], error["exit_status"]) == (kind, status)
    assert error["message"]


def test_every_list_is_one_json_object_per_line(ds: Commands, client: Client) -> None:
    ds.run("append", "listed", '{"type":"note","text":"wombats"}', '{"type":"note","text":"more wombats"}')
    ds.run("append", "listed-2", '{"type":"note","slot":"head"}', '{"type":"note","slot":"tail"}')
    ds.run("facts", "listed", "--set", "one=1", "--set", "two=2")
    for command, least in (
        (("sessions", "-q", "listed"), 2),
        (("events", "listed"), 2),
        (("show", "listed"), 2),
        (("search", "wombats"), 1),
        (("slots", "listed-2"), 2),
        (("facts", "listed"), 2),
        (("keys", "list"), 0),
        (("memory", "scopes"), 0),
        (("memory", "get", "project:none"), 0),
        (("memory", "log", "project:none"), 0),
    ):
        found = ds.lines(*command, "--json")
        assert len(found) >= least, command
        assert all(isinstance(one, dict) for one in found), command


def test_what_follows_two_dashes_is_no_option(ds: Commands) -> None:
    assert not ds.run("show", "--", "--json", status=3).stderr.startswith("{")


def test_an_artifact_as_json_needs_a_file(ds: Commands, client: Client, tmp_path: Path) -> None:
    digest = client.artifacts.put(b"raw").sha256
    for more in ((), ("-o", "-")):
        done = ds.run("artifact", "get", digest, "--json", *more, status=2)
        assert "give -o FILE" in done.stderr
        assert done.stdout == ""
    assert ds.json("artifact", "get", digest, "-o", str(tmp_path / "raw"))["bytes"] == 3


def test_refusals_speak_to_the_command_line_too(ds: Commands) -> None:
    assert "PUT" not in ds.run("artifact", "get", "0" * 64, "-o", "x", status=3).stderr
    assert "GET" not in ds.run("keys", "revoke", "nope", status=3).stderr


def test_an_artifact_is_bytes_or_a_path(client: Client) -> None:
    with pytest.raises(TypeError, match="Path"):
        client.artifacts.put("/nofile")  # type: ignore[arg-type]

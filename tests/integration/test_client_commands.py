"""The client side of the command line, against a real server."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from durable_sessions.cli.event_writer import BATCH_EVENTS_MAX
from durable_sessions.cli.main import SECTIONS
from durable_sessions.cli.search import HITS_PER_SESSION_MAX, highlighted
from durable_sessions.client import Client, offsets
from durable_sessions.exporters import FORMATS
from durable_sessions.testing import BackgroundServer
from tests.support.commands import Commands, on_a_terminal
from tests.support.process import ServerProcess
from tests.support.waiting import PATIENCE_SECONDS, wait_until
from tests.unit.exporters.golden import sample

NOWHERE = "http://127.0.0.1:1"
SECONDS_MAX = 120.0


@pytest.fixture(scope="module")
def client(shared: BackgroundServer) -> Iterator[Client]:
    with Client(shared.url) as client:
        yield client


@pytest.fixture(scope="module")
def build(client: Client) -> str:
    """A session with the sample's events."""
    session = client.sessions.create("build-42", title="Make it \x1b[31mgreen", metadata={"ticket": "T-1"})
    session.append([_unstored(line) for line in sample()])
    return session.id


def _unstored(line: bytes) -> dict[str, Any]:
    event: dict[str, Any] = json.loads(line)
    return {name: value for name, value in event.items() if name not in ("offset", "processed_at", "actor")}


@pytest.fixture(scope="module")
def ds(shared: BackgroundServer) -> Commands:
    return Commands(shared.url)


# sessions -------------------------------------------------------------------------------


def test_sessions_are_listed_in_a_table(ds: Commands, build: str) -> None:
    head, *rows = ds.run("sessions").stdout.splitlines()
    assert head.split() == ["ID", "TITLE", "STATUS", "EVENTS", "STARTED", "ACTIVE"]
    row = next(row for row in rows if row.startswith(build))
    assert "Make it green" in row
    assert " 28 " in row
    assert "\x1b" not in row


def test_sessions_can_be_chosen(ds: Commands, client: Client, build: str) -> None:
    client.sessions.create("other", metadata={"ticket": "T-2"})
    assert [one["id"] for one in ds.lines("sessions", "--json", "--metadata", "ticket=T-1")] == [build]
    assert [one["id"] for one in ds.lines("sessions", "--json", "-q", "build-")] == [build]
    assert ds.lines("sessions", "--json", "--before", "2020-01-01") == []
    assert len(ds.lines("sessions", "--json", "--limit", "1")) == 1
    limited = ds.run("sessions", "--limit", "1")
    assert "There are more than this one; see them" in limited.stderr
    assert "No session matches" in ds.run("sessions", "-q", "nothing-like-it").stderr


def test_imported_sessions_without_times_are_shown_as_imported(ds: Commands, client: Client) -> None:
    source = {"tool": "swe-agent", "record_id": "M0"}
    client.session("untimed").append(
        {"id": "imp_1", "type": "user.message", "content": "Hi", "source": source}
    )
    (row,) = (line for line in ds.run("sessions").stdout.splitlines() if line.startswith("untimed "))
    assert "imported" in row
    assert "| Status | imported |" in ds.run("export", "untimed", "--format", "markdown").stdout
    assert ds.lines("events", "untimed", "--after", "2020-01-01") == []
    assert len(ds.lines("events", "untimed")) == 1


def test_imported_sessions_are_shown_and_chosen_by_when_they_happened(ds: Commands, client: Client) -> None:
    note = {"type": "user.message", "content": "okapi crossing", "created_at": "2019-05-01T10:00:00Z"}
    client.session("of-2019").append(note)
    (row,) = [line for line in ds.run("sessions").stdout.splitlines() if line.startswith("of-2019")]
    assert row.split()[-2:] == ["2019-05-01", "2019-05-01"]
    assert "imported" in row
    for arguments in (("--status", "idle"), ("--status", "idle", "--all")):
        assert "of-2019" not in ds.run("sessions", *arguments).stdout, "it is shown as imported"
    for bounds in (("--before", "2019-06-01"), ("--after", "2019-04-01", "--before", "2019-06-01")):
        assert [one["id"] for one in ds.lines("sessions", "--json", *bounds)] == ["of-2019"]
        assert "okapi" in ds.run("events", "of-2019", *bounds).stdout
        for where in ((), ("--session", "of-2019")):
            assert "okapi" in ds.run("search", "okapi", *where, *bounds).stdout
    assert "okapi" not in ds.run("search", "okapi", "--after", "2019-06-01").stdout
    later = [one["id"] for one in ds.lines("sessions", "--json", "--after", "2019-06-01", "--all")]
    assert "of-2019" not in later
    assert "okapi" not in ds.run("events", "of-2019", "--after", "2019-06-01").stdout


@pytest.mark.parametrize(
    "arguments", [("--before", "2018-01-01"), ("--agent", "nobody"), ("--after", "2200-01-01")]
)
def test_a_filter_that_fits_none_is_not_called_an_empty_server(
    ds: Commands, arguments: tuple[str, ...]
) -> None:
    assert "No session matches." in ds.run("sessions", *arguments).stderr


@pytest.mark.parametrize("arguments", [("--metadata", "x"), ("--after", "soon"), ("--lifecycle", "dead")])
def test_wrong_filters_are_wrong_use(ds: Commands, arguments: tuple[str, ...]) -> None:
    ds.run("sessions", *arguments, status=2)


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ("runing", "there are idle, running, rescheduling, terminated"),
        ("closed", "use --lifecycle closed"),
        ("archived", "use --lifecycle archived"),
        ("imported", "use --metadata tool="),
    ],
)
def test_what_is_no_status_is_refused(ds: Commands, status: str, said: str) -> None:
    assert said in ds.run("sessions", "--status", status, status=2).stderr


def test_archived_sessions_are_pointed_to(ds: Commands, client: Client) -> None:
    client.sessions.create("put-away", metadata={"shelf": "top"}).archive()
    said = ds.run("sessions", "--metadata", "shelf=top").stderr
    assert "Only archived sessions match; see them with --archived." in said
    assert "put-away" in ds.run("sessions", "--metadata", "shelf=top", "--archived").stdout


# append ---------------------------------------------------------------------------------


def test_an_event_is_appended_by_its_parts(ds: Commands, client: Client) -> None:
    arguments = ("--type", "user.message", "--text", "hello", "--field", "n:=[1]", "--field", "who=me=you")
    answer = ds.json("append", "parts", *arguments)
    counts = {"appended": 1, "repeated": 0, "differ": 0}
    assert answer == {"session": "parts", **counts, "next_offset": "0000000000000000_0000000000000001"}
    event = next(client.session("parts").events())
    assert event["content"] == [{"type": "text", "text": "hello"}]
    assert (event["n"], event["who"]) == ([1], "me=you")


def test_a_type_that_is_nearly_a_known_one_is_stored_and_doubted(ds: Commands) -> None:
    doubted = ds.run("append", "doubted", "--type", "user.mesage", "--text", "hello").stderr
    assert doubted.endswith("user.mesage is a type of your own. Did you mean user.message?\n")
    for kind in ("note", "my.message", "user.message"):
        assert "Did you mean" not in ds.run("append", "doubted", "--type", kind).stderr
    assert ds.lines("events", "doubted")[0]["type"] == "user.mesage"


def test_the_text_may_come_from_standard_input(ds: Commands, client: Client) -> None:
    ds.run("append", "stdin-text", "--type", "note", "--text", "-", given="größer\n".encode())
    assert next(client.session("stdin-text").events()).text == "größer\n"


def test_events_are_appended_as_json(ds: Commands, client: Client) -> None:
    ds.run("append", "json", '{"type":"a"}', '{"type":"b"}')
    assert [event.type for event in client.session("json").events()] == ["a", "b"]


def test_no_lines_append_nothing_and_say_so(ds: Commands) -> None:
    assert "Nothing was appended to nobody" in ds.run("append", "nobody").stderr
    assert ds.json("append", "nobody")["next_offset"] is None
    ds.run("show", "nobody", status=3)


def test_lines_are_appended_byte_for_byte(ds: Commands) -> None:
    lines = [b'{"type":"n", "n": %d.00e1, "half":"\\ud800"}' % number for number in range(1_201)]
    answer = ds.json("append", "lines", given=b"\n".join(lines) + b"\n\n")
    assert answer["appended"] == 1_201
    stored = ds.run("events", "lines").stdout_bytes.splitlines()
    assert [line[line.index(b'"type"') :] for line in stored] == [line[1:] for line in lines]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("{",), "ds: This is not an event: it is not JSON. It is: {"),
        (("[]",), "an object with a type"),
        (('{"type":"x"}', '{"typ":1}'), "Event 2"),
        (("--text", "x"), "say which with --type"),
        (("--type", "x", '{"type":"y"}'), "not both"),
        (("--type", "x", "--field", "n:=oops"), "is not JSON"),
        (('{"type":""}',), "type"),
    ],
)
def test_what_is_no_event_is_wrong_use(ds: Commands, arguments: tuple[str, ...], said: str) -> None:
    assert said in ds.run("append", "wrong", *arguments, status=2).stderr
    ds.run("events", "wrong", status=3)


def test_a_bad_line_is_named_and_what_came_before_is_stored(ds: Commands, client: Client) -> None:
    done = ds.run("append", "half", given=b'{"type":"a"}\n{"type":"b"}\nnope\n', status=2)
    assert "Line 3 is not an event" in done.stderr
    assert "It is: nope\nThe 2 events before it are stored." in done.stderr
    assert len(list(client.session("half").events())) == 2
    done = ds.run("append", "half", given=b'{"type":"c"}\nbad\n', status=2)
    assert (
        "Line 2 is not an event: it is not JSON. It is: bad\nThe 1 event before it is stored." in done.stderr
    )


def test_a_line_that_the_server_refuses_is_named_and_those_before_it_count(ds: Commands) -> None:
    done = ds.run("append", "refused", given=b'{"type":"a"}\n\n{"type":"b"}\n{"type":""}\n', status=2)
    assert 'Line 4: Give a "type"' in done.stderr
    assert "The 2 events before it are stored." in done.stderr
    assert [event["type"] for event in ds.lines("events", "refused", "--json")] == ["a", "b"]
    assert "Event" not in ds.run("append", "refused", given=b'{"type":""}\n', status=2).stderr


def test_an_argument_that_the_server_refuses_is_counted_from_one(ds: Commands) -> None:
    said = ds.run("append", "none", '{"type":"a"}', '{"type":""}', status=2).stderr
    assert 'Event 2: Give a "type"' in said
    assert "There is no session none" in ds.run("events", "none", status=3).stderr


def test_what_is_no_json_is_said_of_its_line(ds: Commands) -> None:
    done = ds.run("append", "nan", given=b'{"type":"a"}\n{"type":"b","n":NaN}\n', status=2)
    assert "Line 2 is not an event: it is not JSON." in done.stderr
    assert "1 event appended" in ds.run("append", "bom", given=b'\xef\xbb\xbf{"type":"a"}\n').stderr


def test_closing_is_told(ds: Commands) -> None:
    assert "it is closed now" in ds.run("append", "over", '{"type":"a"}', "--close").stderr
    ds.run("append", "ending", '{"type":"a"}')
    assert "no event on standard input; it is closed now." in ds.run("append", "ending", "--close").stderr


def test_an_append_tells_what_was_there_already(ds: Commands, client: Client) -> None:
    one, two, three = (f'{{"id":"{name}","type":"note"}}' for name in ("one", "two", "three"))
    other = '{"id":"one","type":"note","n":1}'
    assert "1 event appended to known; it ends" in ds.run("append", "known", one).stderr
    assert "0 events appended to known, 1 was there already; it ends" in ds.run("append", "known", one).stderr
    said = ds.run("append", "known", two, other).stderr
    assert "1 event appended to known, 1 was there already and differs: the first one stays; it ends" in said
    said = ds.run("append", "known", other, two, three).stderr
    assert "1 event appended to known, 2 were there already, of which 1 differs" in said
    told = ds.json("append", "known", given="\n".join((other, two, three, '{"type":"note"}')).encode())
    assert (told["appended"], told["repeated"], told["differ"]) == (1, 3, 1)
    assert len(list(client.session("known").events())) == 4


@pytest.mark.parametrize("there", [(0,), (0, 1), (1, 2)], ids=str)
def test_what_was_appended_is_counted_truly_also_if_it_alternates(
    ds: Commands, there: tuple[int, ...]
) -> None:
    period = max(len(there) + 1, 2)
    events = [f'{{"id":"e{number}","type":"note"}}' for number in range(BATCH_EVENTS_MAX * 2)]
    known = [event for number, event in enumerate(events) if number % period in there]
    session = "alternating-" + "-".join(map(str, there))
    ds.run("append", session, given="\n".join(known).encode())
    told = ds.json("append", session, given="\n".join(events).encode())
    counts = (len(events) - len(known), len(known), 0)
    assert (told["appended"], told["repeated"], told["differ"]) == counts


def test_an_append_can_depend_on_the_end_and_close_the_session(ds: Commands) -> None:
    end = ds.json("append", "guarded", '{"type":"a"}')["next_offset"]
    ds.run("append", "guarded", "--if-match", end, '{"type":"b"}', "--close")
    ds.run("append", "guarded", "--if-match", end, '{"type":"c"}', status=6)
    said = ds.run("append", "guarded", '{"type":"d"}', status=6).stderr
    assert "guarded is closed and takes no more events" in said
    assert "To go on, fork it: ds fork guarded" in said
    assert len(ds.lines("events", "guarded")) == 2


# events and show ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "positions"),
    [
        (("--from", "25"), [25, 26, 27]),
        (("--offset", "0000000000000000_0000000000000026"), [26, 27]),
        (("--tail", "2"), [26, 27]),
        (("--tail", "2", "--order", "desc"), [27, 26]),
        (("--around", "10", "--window", "1"), [9, 10, 11]),
        (("--limit", "2"), [0, 1]),
        (("--type", "user.*", "--type", "session.error"), [1, 11, 16, 25]),
        (("--order", "desc", "--limit", "1"), [27]),
        (("--before", "2020-01-01T00:00:00Z"), []),
        (("--from", "10", "--limit", "1", "--pairs"), [6, 10]),
    ],
)
def test_events_are_chosen_as_in_the_api(
    ds: Commands, build: str, arguments: tuple[str, ...], positions: list[int]
) -> None:
    assert [int(event["offset"][17:]) for event in ds.lines("events", build, *arguments)] == positions


@pytest.mark.parametrize("arguments", [("--from", "1", "--tail", "1"), ("--window", "1"), ("--from", "-1")])
def test_places_that_do_not_go_together(ds: Commands, build: str, arguments: tuple[str, ...]) -> None:
    ds.run("events", build, *arguments, status=2)


def test_show_pairs_calls_with_results_and_shortens(ds: Commands, build: str) -> None:
    text = ds.run("show", build).stdout
    assert "✗ bash  make test  11s  failed\n    FAILED test_cache.py::test_get\n" in text
    assert "lines left out" in text
    assert "▸ ask_person  Shall I push?" in text
    assert "+    return CACHE[key]" in text
    assert "line 20" not in text
    assert "tool calls: 5, 1 failed" in text
    assert "Today is Saturday" not in text
    assert "\x1b" not in text


def test_show_in_full_leaves_nothing_out(ds: Commands, build: str) -> None:
    text = ds.run("show", build, "--full").stdout
    assert all(f"line {number}\n" in text for number in range(1, 41))
    assert "Today is Saturday" in text
    assert "left out" not in text


def test_show_the_last_events_with_whole_calls(ds: Commands, build: str) -> None:
    text = ds.run("show", build, "--last", "18").stdout
    assert "✗ bash  make test" in text
    assert "Make the tests green" not in text
    assert len(ds.run("show", build, "--last", "1", "--json").stdout.splitlines()) == 1


# tail -----------------------------------------------------------------------------------


def test_tail_follows_until_the_session_is_closed(ds: Commands, client: Client) -> None:
    session = client.session("tailed")
    session.append([{"type": "agent.tool_use", "id": "c", "name": "bash", "input": {"command": "make"}}])
    session.append([{"type": "agent.tool_result", "tool_use_id": "c", "content": "ok\x1b[31m"}])
    session.close()
    done = ds.run("tail", "tailed", "--last", "2")
    assert "▸ bash  make" in done.stdout
    assert "✓ bash: result" in done.stdout
    assert "\x1b" not in done.stdout
    assert "is closed" in done.stderr
    assert [event["type"] for event in ds.lines("tail", "tailed", "--json", "--from", "1")] == [
        "agent.tool_result"
    ]
    assert ds.lines("tail", "tailed", "--json", "--type", "user.*", "--from", "0") == []


class Process:
    """A command in a process of its own."""

    def __init__(self, url: str, *arguments: str, **more: Any) -> None:
        environment = {**os.environ, "DURABLE_SESSIONS_URL": url, "PYTHONUNBUFFERED": "1"}
        command = [sys.executable, "-m", "durable_sessions", *arguments]
        self.popen = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more
        )

    def __enter__(self) -> "Process":
        return self

    def __exit__(self, *_: object) -> None:
        self.popen.kill()
        with self.popen:
            pass

    def line(self) -> bytes:
        assert self.popen.stdout is not None
        return bytes(self.popen.stdout.readline())

    def end(self) -> tuple[int, bytes]:
        _, errors = self.popen.communicate(timeout=SECONDS_MAX)
        return self.popen.returncode, errors


def test_tail_outlives_the_server_and_ends_cleanly(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as one, Client(one.url) as client:
        client.session("s").append({"type": "n", "n": 0})
        with Process(one.url, "tail", "s", "--json") as following:
            assert json.loads(following.line())["n"] == 0
            one.kill()
            one.start()
            client.session("s").append({"type": "n", "n": 1})
            assert json.loads(following.line())["n"] == 1
            following.popen.send_signal(signal.SIGINT)
            assert following.end() == (0, b"")


def test_append_waits_for_a_server_that_restarts_and_repeats_nothing(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as one, Client(one.url) as client:
        with Process(one.url, "append", "s", "--wait", "300", stdin=subprocess.PIPE) as writing:
            assert writing.popen.stdin is not None
            writing.popen.stdin.write(b'{"type":"first"}\n')
            writing.popen.stdin.flush()
            _until_there(client, "s")
            one.kill()
            writing.popen.stdin.write(b'{"type":"second"}\n')
            writing.popen.stdin.flush()
            assert writing.popen.stderr is not None
            said = writing.popen.stderr.readline().decode()
            assert f"{one.url} does not answer" in said
            assert "trying again for up to " in said
            one.start()
            status, errors = writing.end()
        assert status == 0
        assert f"{one.url} answers again." in errors.decode()
        assert [event.type for event in client.session("s").events()] == ["first", "second"]


def test_append_gives_up_in_time_and_says_nothing_else_to_programs() -> None:
    said = Commands(NOWHERE).run("append", "s", '{"type":"a"}', "--wait", "0.5", "--json", status=4).stderr
    assert json.loads(said)["error"]["type"] == "unreachable"


def test_slow_lines_are_appended_as_they_come(shared: BackgroundServer, client: Client) -> None:
    with Process(shared.url, "append", "slow", stdin=subprocess.PIPE) as writing:
        assert writing.popen.stdin is not None
        writing.popen.stdin.write(b'{"type":"first"}\n')
        writing.popen.stdin.flush()
        assert [event.type for event in _until_there(client, "slow")] == ["first"]
        writing.popen.stdin.write(b'{"type":"second"}')
        assert writing.end()[0] == 0
    assert [event.type for event in client.session("slow").events()] == ["first", "second"]


def _until_there(client: Client, session: str) -> list[Any]:
    wait_until(lambda: any(info.id == session for info in client.sessions.list(q=session)))
    return list(client.session(session).events())


# export and fork ------------------------------------------------------------------------


@pytest.mark.parametrize("name", FORMATS)
def test_export_to_a_file_and_to_standard_output(ds: Commands, build: str, tmp_path: Path, name: str) -> None:
    path = tmp_path / f"out{FORMATS[name].suffix}"
    path.write_text("old")
    answer = ds.json("export", build, "--format", name, "-o", str(path))
    assert answer["bytes"] == path.stat().st_size
    assert answer["events"] == 28
    assert ds.run("export", build, "--format", name).stdout_bytes == path.read_bytes()
    assert ds.run("export", build, "--format", name, "-o", "-").stdout_bytes == path.read_bytes()
    assert [one.name for one in tmp_path.iterdir()] == [path.name]


def test_jsonl_is_what_events_prints_and_can_be_appended_again(ds: Commands, build: str) -> None:
    written = ds.run("export", build, "--format", "jsonl").stdout_bytes
    head, *lines = written.splitlines(keepends=True)
    assert json.loads(head)["type"] == "export.session"
    assert b"".join(lines) == ds.run("events", build).stdout_bytes
    ds.run("append", "again", given=written)
    again = ds.lines("events", "again")
    assert [event["id"] for event in again] == [json.loads(line)["id"] for line in lines]


@pytest.mark.parametrize("events", [0, 3])
def test_title_and_metadata_come_back_with_an_export(
    ds: Commands, client: Client, tmp_path: Path, events: int
) -> None:
    metadata = {"team": "shop", "n": 7, "nested": {"a": [1, None]}}
    source = client.sessions.create(f"carried-{events}", title="Only “here”\n\x00", metadata=metadata)
    if events:
        source.append([{"type": "note", "n": n} for n in range(events)])
    path = tmp_path / f"carried-{events}-copy.jsonl"
    ds.run("export", source.id, "--format", "jsonl", "-o", str(path))
    state = str(tmp_path / "state.db")
    told = ds.json("import", "jsonl", str(path), "--state", state)
    assert told["new_events"] == events
    copy = client.session(path.stem)
    info = copy.info()
    assert (info.title, info.metadata, info.event_count) == (source.info().title, metadata, events)
    assert ds.json("import", "jsonl", str(path), "--state", state, "--again")["new_events"] == 0
    copy.update(title="Mine now", metadata={"team": "web"})
    ds.run("import", "jsonl", str(path), "--state", state, "--again")
    assert (copy.info().title, copy.info().metadata) == ("Mine now", metadata | {"team": "web"})


@pytest.mark.parametrize("name", ["told", "told-copy"])
def test_importing_a_copy_again_adds_nothing(ds: Commands, client: Client, tmp_path: Path, name: str) -> None:
    source = client.session("told")
    source.append({"id": "one", "type": "note"})
    source.update(title="First", metadata={"cwd": "/work/shop", "team": "web"})
    source.update(title="Second", metadata={"team": None})
    path = tmp_path / f"{name}.jsonl"
    ds.run("export", source.id, "--format", "jsonl", "-o", str(path))
    arguments = ("import", "jsonl", str(path), "--state", str(tmp_path / "state.db"), "--again")
    ds.run(*arguments)
    copy = client.session(name)
    info = copy.info()
    assert (info.title, info.metadata, info.event_count) == ("Second", {"cwd": "/work/shop"}, 3)
    for _ in range(2):
        assert ds.json(*arguments)["new_events"] == 0
    copy.update(title=None, metadata={"cwd": None})
    assert ds.json(*arguments)["new_events"] == 0
    assert (copy.info().title, copy.info().metadata, copy.info().event_count) == (None, {}, 4)
    source.delete()


def test_the_title_that_counts_is_the_last_one(ds: Commands, client: Client, tmp_path: Path) -> None:
    source = client.sessions.create("renamed", title="First")
    source.append({"type": "note"})
    before, after = tmp_path / "a" / "renamed-copy.jsonl", tmp_path / "b" / "renamed-copy.jsonl"
    for path in (before, after):
        path.parent.mkdir()
        ds.run("export", source.id, "--format", "jsonl", "-o", str(path))
        source.update(title="A second one, which is longer")
    state = str(tmp_path / "state.db")
    ds.run("import", "jsonl", str(before), str(after), "--state", state)
    info = client.session("renamed-copy").info()
    assert (info.title, info.event_count) == ("A second one, which is longer", 2)


def test_secrets_in_the_metadata_of_an_export_are_redacted(
    ds: Commands, client: Client, tmp_path: Path
) -> None:
    secret = "ghp_" + "a1B2" * 9
    client.sessions.create("secretive", title=f"use {secret}", metadata={"env": {"token": [secret]}})
    path = tmp_path / "secretive-copy.jsonl"
    ds.run("export", "secretive", "--format", "jsonl", "-o", str(path))
    ds.run("import", "jsonl", str(path), "--redact", "--state", str(tmp_path / "state.db"))
    info = client.session("secretive-copy").info()
    assert secret not in str(info.raw)
    assert "redacted github-token" in str(info.title)
    assert "redacted github-token" in str(info.metadata["env"])


def test_a_failed_export_leaves_the_old_file(ds: Commands, tmp_path: Path) -> None:
    path = tmp_path / "out.html"
    path.write_text("old")
    ds.run("export", "missing", "--format", "html", "-o", str(path), status=3)
    assert path.read_text() == "old"
    ds.run("export", "missing", "--format", "html", "-o", str(tmp_path / "no" / "x.html"), status=3)


def test_a_page_shows_images_from_artifacts(ds: Commands, client: Client) -> None:
    stored = client.artifacts.put(b"\x89PNG\r\n\x1a\n" + bytes(9), "image/png")
    image = {"type": "image", "source": {"type": "url", "url": stored.path}}
    client.session("pictures").append({"type": "user.message", "content": [image]})
    assert "data:image/png;base64," in ds.run("export", "pictures", "-f", "html").stdout


@pytest.mark.parametrize(
    ("at", "count"),
    [((), 28), (("--at", "3"), 3), (("--at", "sevt_0005"), 5), (("--at", f"{0:016d}_{7:016d}"), 7)],
)
def test_fork_shares_the_events_before_a_point(
    ds: Commands, client: Client, build: str, at: tuple[str, ...], count: int
) -> None:
    name = ds.run("fork", build, *at).stdout.strip()
    assert client.sessions.get(name).event_count == count


def test_a_fork_that_has_its_sources_title_is_told_apart_in_the_list(ds: Commands, build: str) -> None:
    name = ds.run("fork", build).stdout.strip()
    titled = next(line for line in ds.run("sessions").stdout.splitlines() if line.startswith(f"{build} "))
    forked = next(line for line in ds.run("sessions").stdout.splitlines() if line.startswith(name))
    assert f"(fork of {build})" in forked
    assert "fork of" not in titled
    assert f"fork of: {build}, from #" in ds.run("show", name).stdout
    assert "fork of" not in ds.run("show", build).stdout
    assert f"| Fork of | {build}, from " in ds.run("export", name, "-f", "markdown").stdout
    assert f"(fork of {build})" in ds.run("delete", name, status=2).stderr


def test_forks_are_told_apart_from_their_source_by_prefix_and_in_a_search(
    ds: Commands, client: Client
) -> None:
    source = client.sessions.create("quokka-1", title="Same")
    source.append({"type": "note", "text": "before"})
    ds.run("fork", "quokka-1", "quokka-2")
    client.session("quokka-2").append({"type": "note", "text": "quokkas behind the fork"})
    assert "quokka-2  Same (fork of quokka-1)\n" in ds.run("show", "quokka", status=2).stderr
    assert "quokka-2  Same (fork of quokka-1)\n" in ds.run("search", "quokkas").stdout


def test_fork_says_what_it_made(ds: Commands, build: str) -> None:
    made = ds.json("fork", build, "named", "--at", "2", "--title", "Another way")
    assert (made["id"], made["title"], made["event_count"]) == ("named", "Another way", 2)
    ds.run("fork", build, "named", "--at", "1", status=6)
    ds.run("fork", build, "--at", "sevt_none", status=3)


# search ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def found(client: Client) -> None:
    """Two sessions in which something is to be found."""
    said = [
        {"type": "note", "content": [{"type": "text", "text": f"the zebra\x1b[31m number {n}"}]}
        for n in range(9)
    ]
    client.sessions.create("zoo-1", title="A \x1b[31mzoo").append(said[:6])
    client.session("zoo-2").append(said[6:])


def test_search_shows_hits_by_session(ds: Commands, found: None) -> None:
    done = ds.run("search", "zebra", "number", "--limit", "4")
    assert {"zoo-1  A zoo", "zoo-2"} & {done.stdout.splitlines()[0]}
    assert "zebra number" in done.stdout
    assert "\x1b" not in done.stdout
    assert "9 hits in 2 sessions; 4 shown, more with --limit" in done.stderr


def test_a_search_that_can_show_no_more_does_not_offer_it(ds: Commands, client: Client) -> None:
    said = [{"type": "note", "content": f"the okapi number {n}"} for n in range(HITS_PER_SESSION_MAX + 5)]
    client.session("zoo-3").append(said)
    assert "more with --limit" not in ds.run("search", "okapi", "--limit", "1000").stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("type:agnet.message",),
            "No event of the type agnet.message was found. Did you mean type:agent.message?",
        ),
        (("x", "--type", "user.mesage"), "Did you mean user.message?"),
    ],
)
def test_a_misspelt_filter_is_told_the_nearest(ds: Commands, arguments: tuple[str, ...], said: str) -> None:
    assert said in ds.run("search", *arguments).stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("search", "is:eror"), "the only filter of this kind is is:error"),
        (("search", "typ:note"), "did you mean type:note?"),
        (("search", "role:agent"), "--role agent"),
        (("search", '""'), 'There is no word in the query "": signs alone find nothing.'),
        (("search", "+"), "Give words to look for, such as timeout"),
        (("search", "x", "--after", "2026-02-01", "--before", "2026-01-01"), "give --after the earlier time"),
    ],
)
def test_what_can_find_nothing_is_wrong_use(ds: Commands, arguments: tuple[str, ...], told: str) -> None:
    assert told in ds.run(*arguments, status=2).stderr


@pytest.mark.parametrize("query", ["is:error", "type:agent.*", "what type:agent.message is", "type:my.own"])
def test_a_filter_that_there_is_needs_no_hint(ds: Commands, query: str) -> None:
    said = ds.run("search", query).stderr
    assert "no filter" not in said
    assert "Did you mean" not in said


def test_a_query_may_begin_with_a_dash_behind_two(ds: Commands, found: None) -> None:
    assert "hit" in ds.run("search", "--", "-nothing").stderr


def test_hits_are_shown_without_the_markup_of_tools(ds: Commands, client: Client) -> None:
    typed = "<command-name>/wombat</command-name>\n<command-args>now</command-args>"
    client.session("typed").append({"type": "user.message", "content": typed})
    shown = ds.run("search", "wombat").stdout
    assert "Command  /wombat now" in shown
    assert "<command" not in shown + ds.run("search", "command-name").stdout


def test_events_of_the_work_are_shown_as_what_they_say(ds: Commands, client: Client) -> None:
    client.session("worked").append(
        [
            {"type": "ds.fact", "key": "goal", "value": "Make it green.", "kind": "goal"},
            {"type": "ds.outcome.defined", "features": [{"id": "tests", "text": "All pass."}]},
        ]
    )
    shown = ds.run("show", "worked").stdout
    assert "Goal  Make it green." in shown
    assert "Outcome wanted  1 feature to pass: tests" in shown
    assert "tests: All pass." in ds.run("show", "worked", "--full").stdout
    assert "{" not in shown


def test_an_empty_search_is_wrong_use(ds: Commands) -> None:
    said = ds.run("search", " ", status=2).stderr
    assert "Give words to look for" in said
    assert "q=" not in said


def test_what_the_system_said_is_searched(ds: Commands, client: Client) -> None:
    client.session("ruled").append({"type": "system.message", "content": "Never touch zanzibar."})
    client.session("ruled").append({"type": "user.message", "content": "What of zanzibar?"})
    (group,) = ds.lines("search", "zanzibar", "--role", "system", "--json")
    assert [hit["type"] for hit in group["hits"]] == ["system.message"]


@pytest.mark.parametrize("limit", [1, 4, 9, 50])
def test_the_limit_of_a_search_counts_hits(ds: Commands, found: None, limit: int) -> None:
    groups = ds.lines("search", "zebra", "--limit", str(limit), "--json")
    assert sum(len(group["hits"]) for group in groups) == min(limit, 9)
    assert {group["session"]["id"] for group in groups} <= {"zoo-1", "zoo-2"}


def test_one_session_is_searched_in_the_order_that_is_asked_for(ds: Commands, found: None) -> None:
    for order, positions in (("asc", [0, 1, 2]), ("desc", [5, 4, 3])):
        (group,) = ds.lines(
            "search", "zebra", "--session", "zoo-1", "--order", order, "--limit", "3", "--json"
        )
        assert [int(hit["offset"][-16:]) for hit in group["hits"]] == positions
    assert ds.lines("search", "zebra", "--session", "zoo-1", "--type", "other", "--json") == []
    assert "--order goes with --session" in ds.run("search", "x", "--order", "asc", status=2).stderr
    assert (
        "--metadata choose"
        in ds.run("search", "x", "--session", "zoo-1", "--metadata", "a=b", status=2).stderr
    )


def test_highlights_are_spans_of_the_snippet() -> None:
    text = highlighted("the cache\nis \x1b[1mcold", [(17, 21), [4, 9], "words", (2, 5), (90, 99), None])
    assert text.plain == "the cache is cold"
    assert [text.plain[span.start : span.end] for span in text.spans] == ["e c", "cold"]


# what all of them share -----------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ("show", "x"),
        ("events", "x"),
        ("tail", "x"),
        ("export", "x", "-f", "html"),
        ("fork", "x", "y"),
        ("fork", "x"),
    ],
)
def test_a_missing_session_is_not_found(ds: Commands, arguments: tuple[str, ...]) -> None:
    done = ds.run(*arguments, status=3)
    assert done.stdout == ""
    assert "x" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("sessions",),
        ("show", "x"),
        ("append", "x", '{"type":"a"}', "--wait", "0"),
        ("search", "x"),
        ("tail", "x"),
    ],
)
def test_a_server_that_is_not_there_is_said_how_to_start(arguments: tuple[str, ...]) -> None:
    done = Commands(NOWHERE).run(*arguments, status=4)
    assert "Start a server with: ds serve --port 1\n" in done.stderr
    assert "DURABLE_SESSIONS_URL" in done.stderr


def test_an_address_that_is_none_is_wrong_use() -> None:
    Commands("localhost:1").run("sessions", status=2)


def test_an_end_that_was_passed_is_told_in_the_words_of_the_option(ds: Commands) -> None:
    ds.run("append", "moved", '{"type":"a"}')
    ds.run("append", "moved", "--if-match", "1", '{"type":"b"}')
    said = ds.run("append", "moved", "--if-match", "1", '{"type":"c"}', status=6).stderr
    assert f"moved ends at {offsets.of(2)}, and --if-match says {offsets.of(1)}. Nothing more" in said
    assert "If-Match" not in said
    said = ds.run("append", "nowhere", "--if-match", "7", '{"type":"c"}', status=6).stderr
    assert "There is no session nowhere, and --if-match says" in said


@pytest.mark.parametrize(
    "arguments", [("sessions",), ("keys", "list"), ("flush",), ("reindex",), ("append", "s", '{"type":"a"}')]
)
def test_a_missing_key_is_asked_for_in_the_words_of_the_command_line(
    guarded: BackgroundServer, arguments: tuple[str, ...]
) -> None:
    for key in ((), ("--api-key", "wrong")):
        said = Commands(guarded.url).run(*arguments, *key, status=5).stderr
        assert "Give a key with --api-key, or better in DURABLE_SESSIONS_API_KEY." in said
        assert not any(word in said for word in ("Bearer", "x-api-key", "answered", "http://"))
        as_json = Commands(guarded.url).run(*arguments, *key, "--json", status=5).stderr
        assert json.loads(as_json)["error"]["code"] == "authentication_error"


def test_keys_are_shown_and_refusals_explained(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as one:
        ds = Commands(one.url)
        first = ("keys", "create", "--principal", "a", "--role", "admin", "--data", str(one.data))
        secret = ds.json(*first)["secret"]
        create = ("keys", "create", "--principal", "r", "--role", "reader", "--api-key", secret)
        read = ds.json(*create)["secret"]
        assert "DURABLE_SESSIONS_API_KEY" in ds.run("sessions", status=5).stderr
        ds.run("sessions", "--api-key", "wrong", status=5)
        ds.run("append", "s", '{"type":"a"}', "--api-key", secret)
        ds.run("append", "s", '{"type":"a"}', "--api-key", read, status=5)
        assert len(ds.lines("events", "s", "--api-key", read)) == 1


def test_a_broken_pipe_ends_quietly(shared: BackgroundServer, client: Client) -> None:
    client.session("long").append([{"type": "n", "text": "x" * 1_000} for _ in range(900)])
    for command in ("events", "show"):
        with Process(shared.url, command, "long") as reading:
            assert reading.line()
            assert reading.popen.stdout is not None
            assert reading.popen.stderr is not None
            reading.popen.stdout.close()
            reading.popen.wait(SECONDS_MAX)
            assert reading.popen.stderr.read() == b""


def test_a_terminal_gets_colours_unless_it_does_not_want_them(
    shared: BackgroundServer, client: Client, build: str
) -> None:
    ended = client.session("ended-in-colour")
    ended.append({"id": "only", "type": "user.message", "content": "Tail me."})
    ended.close()  # so that tail ends
    for arguments in (("show", build), ("sessions",), ("tail", ended.id)):
        assert "\x1b[1" in on_a_terminal(shared.url, *arguments)
        assert "\x1b[3" not in on_a_terminal(shared.url, *arguments, NO_COLOR="1")


def test_on_a_narrow_terminal_the_title_gives_way(shared: BackgroundServer, client: Client) -> None:
    name = client.sessions.create("claude-code:ef958aa1-0e93-49f0-bb71", title="a rather long title " * 3).id
    seen = on_a_terminal(shared.url, "sessions", "-q", "ef958aa1", COLUMNS="80").splitlines()
    assert len(seen) == 2
    assert name in seen[1]
    assert "a rat" in seen[1]
    assert "…" in seen[1]
    assert "now" in seen[1] or "ago" in seen[1]


def test_long_work_shows_its_progress_on_a_terminal(
    shared: BackgroundServer, build: str, tmp_path: Path
) -> None:
    path = tmp_path / "out.jsonl"
    seen = on_a_terminal(shared.url, "export", build, "--format", "jsonl", "-o", str(path))
    assert "exporting" in seen
    assert "28 events" in seen
    assert len(path.read_bytes().splitlines()) == 1 + 28
    assert "exporting" not in on_a_terminal(shared.url, "export", build, "--format", "jsonl")


def test_nothing_in_an_event_reaches_a_terminal_as_a_command(
    shared: BackgroundServer, client: Client
) -> None:
    attack = "\x1b]0;owned\x07\x1b[2J\x9b2J\x07\u202e"
    client.session("attack").append(
        [
            {"type": "user.message", "content": f"a{attack}"},
            {"type": "own\u202e", "text": attack, attack: attack},
            {"type": "agent.message", "content": f"[link](http://e.example/{attack}) `{attack}`"},
            {"type": "agent.tool_use", "name": attack, "input": {attack: attack, "command": attack}},
            {"type": "session.error", "error": {"type": attack, "message": attack}},
        ]
    )
    client.session("attack").update(title=f"t{attack}")
    client.session("attack").close()
    for arguments in (("show", "attack", "--full"), ("events", "attack"), ("tail", "attack"), ("sessions",)):
        seen = on_a_terminal(shared.url, *arguments)
        assert not set(seen) & {"\x07", "\x9b", "\u202e"}, arguments
        assert "\x1b]" not in seen
        assert "\x1b[2J" not in seen


# the command line itself ----------------------------------------------------------------


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script_for_both_names(ds: Commands, shell: str) -> None:
    script = ds.run("completion", shell).stdout
    assert "_DS_COMPLETE" in script
    assert "_DURABLE_SESSIONS_COMPLETE" in script


def complete(url: str, *words: str) -> list[str]:
    variables = {
        **os.environ,
        "DURABLE_SESSIONS_URL": url,
        "_DS_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(("ds", *words)),
        "COMP_CWORD": str(len(words)),
    }
    program = "from durable_sessions.cli.main import cli; cli(prog_name='ds')"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    assert done.stderr == ""
    return [line.partition(",")[2] for line in done.stdout.splitlines() if line]


def test_session_ids_complete_from_the_server(shared: BackgroundServer, build: str) -> None:
    assert complete(shared.url, "show", "build-") == [build]
    assert complete(shared.url, "search", "x", "--session", "build-") == [build]
    assert complete(shared.url, "se") == ["sessions", "search", "serve"]
    assert complete(NOWHERE, "show", "build-") == []


def test_every_command_has_help_and_is_documented(ds: Commands) -> None:
    pages = "".join(
        (Path(__file__).parents[2] / "docs" / name).read_text()
        for name in ("cli.md", "tools.md", "keys.md", "running.md")
    )
    for names in SECTIONS.values():
        for name in names:
            ds.run(name, "--help")
            assert f"`{name}" in pages or f"durable-sessions {name}" in pages, name

"""Refusals of the server in the words of the command line: options and arguments, nothing of HTTP or JSON."""

import re
from pathlib import Path

import pytest

from durable_sessions.client import Client
from durable_sessions.testing import BackgroundServer
from tests.support.commands import Commands

API_WORDS = re.compile(
    r"\b(send|Send|body|header|parameter|expires_at|requests_per_second|PUT|POST|/v1/|stream)\b"
)


@pytest.fixture(scope="module")
def ds(shared: BackgroundServer) -> Commands:
    with Client(shared.url) as client:
        for name in ("a-1", "b-1"):
            client.session(name).append({"type": "note"})
        client.session("over-1").append({"type": "note"})
        client.session("over-1").close()
        client.session("gone-1").append({"type": "note"})
        client.session("gone-1").archive()
        client.session("asks-1").append(
            {"type": "ds.approval.requested", "question": "May I?", "options": ["approve"]}
        )
        goal = [{"id": "tests", "text": "It works."}]
        client.sessions.create("job-1", outcome=goal, goal="Mend it").fork("job-2")
        for name in ("job-1", "job-2"):
            client.session(name).append({"type": "ds.fact", "key": "cause", "value": name})
        learned = {"scope": "project:calc", "key": "k", "value": 1, "why": "reflection"}
        client.session("job-1").append(
            [
                {"type": "user.message", "id": "ask", "content": "No."},
                {
                    "type": "ds.memory.written",
                    "id": "w",
                    "refs": [{"rel": "because", "id": "ask"}],
                    **learned,
                },
            ]
        )
    return Commands(shared.url)


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("fork", "a-1", "--at", "9"), 2, "a-1 has 1 event, and --at 9 is beyond its end."),
        (("fork", "a-1", "b-1"), 6, "There is another session b-1 already. Give another id, or none"),
        (("fork", "a-1", "--at", "sevt_x"), 3, "a-1 has no event sevt_x. Give --at a position"),
        (
            ("fork", "a-1", "--title", "x" * 1_001),
            2,
            "--title is too long; give a text of at most 1000 characters.",
        ),
        (("title", "a-1", "x" * 1_001), 2, "TITLE is too long; give a text of at most 1000 characters."),
        (("events", "a-1", "--type", ""), 2, "--type is empty; give it a value or leave it out."),
        (("append", "a-1", "--type", ""), 2, 'The event: Give a "type": 1 to 128 characters'),
        (
            ("append", "a-1", "--type", "n", "--field", "n:=abc"),
            2,
            "n:=abc is not JSON, as := wants it; n=… takes",
        ),
        (
            ("append", "a-1", "--type", "n", "--field", "a=1", "--field", "a:=2"),
            2,
            "--field a is given twice",
        ),
        (
            ("append", "a-1", "--type", "n", "--field", "type=m"),
            2,
            "--field type is given twice: --type has it",
        ),
        (("state", "a-1", "--at", "9"), 2, "a-1 has 1 event, and --at 9 is beyond its end."),
        (("facts", "a-1", "--at", "9"), 2, "a-1 has 1 event, and --at 9 is beyond its end."),
        (("slots", "a-1", "--at", "9"), 2, "a-1 has 1 event, and --at 9 is beyond its end."),
        (("context", "a-1", "--at", "9"), 2, "a-1 has 1 event, and --at 9 is beyond its end."),
        (
            ("diff", "a-1", "b-1", "--other-at", "9"),
            2,
            "b-1 has 1 event, and --other-at 9 is beyond its end.",
        ),
        (("adopt", "a-1", "b-1", "--at", "9"), 2, "b-1 has 1 event, and --at 9 is beyond its end."),
        (("adopt", "job-1", "job-2"), 6, "Both sides have changed cause; say with --on-conflict whose value"),
        (("dossier", "a-1", "--at", "9"), 2, "a-1 has 1 event, and --at 9 is beyond its end."),
        (("slots", "a-1", "head"), 3, "No event of a-1 holds the slot head."),
        (("facts", "job-1", "--retract", "cuase"), 3, "job-1 knows no fact cuase. Did you mean cause?"),
        (("facts", "job-1", "cause=x"), 3, "To make it known: ds facts job-1 --set cause=x"),
        (
            ("wake", "over-1"),
            6,
            "over-1 is closed and takes no more events. To go on, fork it: ds fork over-1",
        ),
        (("cancel", "over-1", "--yes"), 6, "over-1 is closed and takes no more events. To go on, fork it:"),
        (
            ("close", "over-1", "--outcome", "failed", "--yes"),
            6,
            "over-1 is closed and takes no more events.",
        ),
        (("pause", "over-1", "--reason", "r"), 6, "over-1 is closed and takes no more events."),
        (
            ("wake", "a-1", "--seconds", "4000"),
            2,
            "'4000' is not accepted; give a whole number from 5 to 3600.",
        ),
        (
            ("evaluate", "job-1", "tests", "pass", "--because", "x"),
            3,
            "--because x: job-1 has no such event.",
        ),
        (
            ("evaluate", "job-1", "tests", "pass", "--because", "ask", "--file", "nofile"),
            2,
            "nofile cannot be",
        ),
        (
            ("redact", "a-1", "0", "--reason", "r", "--yes"),
            3,
            "has no event 0. EVENT is the id of an event; see",
        ),
        (("memory", "get", "foo"), 2, "SCOPE foo is no scope; give user:, agent:, project:"),
        (
            ("memory", "get", "project:calc", "-q", ""),
            2,
            "--query is empty: give words to look for, such as tim",
        ),
        (
            ("memory", "get", "project:calc", "--at", "999"),
            2,
            "--at 999 is beyond the end of the scope; give 0 to",
        ),
        (("memory", "get", "project:calc", "--key", "x"), 3, "project:calc has no entry x."),
        (
            ("memory", "roll-back", "job-1", "ask", "--reason", "r"),
            3,
            "job-1 wrote nothing to memory with the",
        ),
        (("memory", "roll-back", "job-9", "w", "--reason", "r"), 3, "There is no session job-9"),
        (("events", "a-1", "--around", "sevt_x"), 3, "has no event sevt_x."),
        (("events", "a-1", "--around", "9"), 2, "a-1 has 1 event, and --around 9 is beyond its end."),
        (
            ("memory", "log", "project:calc", "--from", "9"),
            2,
            "--from 9 is beyond the end of the scope; give 0 to 1.",
        ),
        (("graph", "a-1", "--at", "9"), 2, "a-1 has 1 event, and --at 9 is beyond its end."),
        (
            ("why", "a-1", "sevt_x"),
            3,
            "a-1 has no event sevt_x. Give the id of an event, or its position; see",
        ),
        (
            ("why", "a-1", "1"),
            3,
            "a-1 has no event 1. Give the id of an event, or its position; see the last",
        ),
        (("impact", "a-1", "9"), 2, "a-1 has 1 event, and EVENT 9 is beyond its end."),
        (("append", "a-1", '{"type":"ds.fact"}'), 2, "ds: The event: ds.fact: key is missing."),
        (("append", "a-1", "n"), 2, "ds: This is not an event: it is not JSON. It is: n"),
        (("append", "a-1", '{"type":"n"}', '{"type":"ds.fact"}'), 2, "ds: Event 2: ds.fact: key is missing."),
        (
            ("adopt", "over-1", "a-1"),
            6,
            "over-1 is closed and takes no more events. To go on, fork it: ds fork",
        ),
        (
            ("title", "gone-1", "x"),
            6,
            "gone-1 is archived and takes no more events. To go on, fork it: ds fork",
        ),
        (("release", "over-1", "--epoch", "1"), 6, "over-1 is closed and takes no more events."),
        (("memory", "roll-back", "over-1", "w", "--of", "job-1", "--reason", "r"), 6, "over-1 is closed"),
        (("pause", "a-1", "--reason", ""), 2, "ds: --reason is empty; give a text of 1 to 4000 characters."),
        (("approve", "asks-1", "--reason", ""), 2, "ds: --reason is empty; give a text of 1 to 4000 char"),
        (
            ("approve", "asks-1", "--reason", "r", "--payload", "{"),
            2,
            "--payload is not JSON: it ends too early, at line 1, column 2; give all of it.",
        ),
        (("facts", "a-1", "--set", "k" * 201 + "=1"), 2, "ds: KEY is too long; give a text of 1 to 200 char"),
        (("route", "a-1", "", "--reason", "r"), 2, "ds: TO is empty; give a text of 1 to 128 characters."),
        (("route", "a-1", " x", "--reason", "r"), 2, "ds: TO is no principal; give a printable name without"),
        (
            ("route", "job-1", "x", "--reason", "r", "--needs", "a b"),
            2,
            "ds: --needs is not usable; give 1 to 100",
        ),
        (
            ("evaluate", "job-1", "tests", "pass", "--because", "ask", "--score", "2"),
            2,
            "give a number from 0 to 1.",
        ),
        (
            ("evaluate", "job-1", "tests", "pass", "--because", "sha256:" + "0" * 64),
            3,
            "there is no such artifact. Store it first with: ds artifact put FILE",
        ),
        (
            ("artifact", "put", __file__, "--media-type", "a\nb"),
            2,
            "'a\\nb' is no media type; give one such as",
        ),
        (("dossier", "verify", __file__), 1, "proves nothing: It is no zip file of a dossier."),
        (
            ("keys", "revoke", "nix", "--yes"),
            3,
            "There is no key nix. See those that there are with: ds keys list",
        ),
        (
            ("dump", "--data", "x"),
            2,
            "It is an option of ds dump checkpoint and ds dump layout and ds dump log",
        ),
        (
            ("search", "x", "--after", "2026-11-18T12:00:00"),
            2,
            "'2026-11-18T12:00:00' has no time zone; add Z or an offset, such as 2026-11-18T12:00:00Z.",
        ),
        (("search", "x", "--after", "2026-11-18T12:00"), 2, "'2026-11-18T12:00' is not a time; give one"),
        (
            ("keys", "create", "--principal", "x", "--role", "reader", "--expires", "2036-01-01T12:00:00"),
            2,
            "'2036-01-01T12:00:00' has no time zone; add Z or an offset",
        ),
        (("sessions", "--all", "--limit", "3"), 2, "Give one of --all and --limit, not both."),
        (("sessions", "--url", "127.0.0.1:4437"), 2, "give one such as http://127.0.0.1:4437."),
    ],
)
def test_a_refusal_speaks_of_what_was_typed(
    ds: Commands, arguments: tuple[str, ...], status: int, said: str
) -> None:
    stderr = ds.run(*arguments, status=status).stderr
    assert said in stderr
    assert not API_WORDS.search(stderr)


HELD = ("--principal", "bob")
OTHER = ("--principal", "carl")


def test_who_holds_a_session_and_what_to_type_is_said(ds: Commands) -> None:
    ds.run("append", "held-1", '{"type":"ds.session.paused","reason":"r"}')
    ds.run("resume", "held-1")
    ds.run("wake", "held-1", "--worker", "w1", *HELD)
    message = ("append", "held-1", "--type", "agent.message", "--text", "x")
    taken = ds.run("wake", "held-1", *OTHER, status=6).stderr
    assert (
        ", or take it, which needs the role evaluator, with: ds wake held-1 --force --principal carl" in taken
    )
    assert (
        "w1 holds this session alone (epoch 1) until it is released or woken again, also when the time of "
        "the lease is over: agent.message is taken from it only. If that is you"
    ) in ds.run(*message, *OTHER, status=6).stderr
    released = ds.run("release", "held-1", *OTHER, status=6).stderr
    assert released == (
        "ds: The lease of epoch 1 is that of bob, who alone can give it back. Wait for it, or take the "
        "session, which needs the role evaluator, with: ds wake held-1 --force --principal carl\n"
    )
    assert "The lease of epoch 7 is over: the session's epoch is 1. Stop" in (
        ds.run("release", "held-1", "--epoch", "7", *HELD, status=6).stderr
    )
    ds.run("release", "held-1", *HELD)
    assert "The lease of epoch 1 is over: it was released." in (
        ds.run("release", "held-1", "--epoch", "1", *HELD, status=6).stderr
    )


def test_what_stops_a_session_is_said_with_the_command_that_lifts_it(ds: Commands) -> None:
    ds.run("append", "stop-1", *HELD, '{"type":"agent.message","content":"x"}')
    message = ("append", "stop-1", "--type", "agent.message", "--text", "x", *HELD)
    ds.run("pause", "stop-1", "--reason", "r")
    assert ds.run(*message, status=6).stderr == (
        "ds: The session is paused and takes no agent.message now. To go on: "
        "ds resume stop-1 --principal bob\n"
    )
    ds.run("resume", "stop-1")
    ds.run(
        "append",
        "stop-1",
        '{"type":"ds.approval.requested","question":"May I?","options":["approve"]}',
        *HELD,
    )
    assert (
        "waits for a decision and takes no worker now. See what is to be decided with: ds approve stop-1"
        in (ds.run("wake", "stop-1", *HELD, status=6).stderr)
    )
    assert "cannot judge it. Let another principal do it: give its name with --principal" in (
        ds.run("approve", "stop-1", "--reason", "r", *HELD, status=5).stderr
    )
    ds.run("approve", "stop-1", "--reason", "r", *OTHER)
    ds.run("append", "stop-1", "--type", "ds.budget.set", "--field", "tool_calls:=1")
    call = '{"type":"agent.tool_use","name":"t","input":{}}'
    ds.run("append", "stop-1", call, *HELD)
    assert ds.run("append", "stop-1", call, *HELD, status=6).stderr.endswith(
        "A judge can raise it with: ds append stop-1 --type ds.budget.set --field tool_calls:=NUMBER\n"
    )


def test_a_route_to_nobody_is_doubted(ds: Commands, guarded: BackgroundServer) -> None:
    ds.run("append", "way-1", "--type", "note")
    assert ds.run("route", "way-1", "ann", "--reason", "r").stderr == "way-1: routed to ann\n"
    assert (
        "To let anybody have it: ds route way-1 --anyone --reason" in ds.run("wake", "way-1", status=6).stderr
    )
    said = ds.run("route", "way-1", "ann smith", "--reason", "r").stderr
    assert "Nobody can wake it under this name while the server has no keys." in said
    keyed, key = Commands(guarded.url), ("--api-key", "secret")
    keyed.run("append", "way-1", "--type", "note", *key)
    said = keyed.run("route", "way-1", "nobody", "--reason", "r", *key).stderr
    assert "No valid key is nobody's, so nobody can wake it until there is one: ds keys create" in said
    keyed.run("keys", "create", "--principal", "nobody", "--role", "writer", *key)
    assert keyed.run("route", "way-1", "nobody", "--reason", "r", *key).stderr == "way-1: routed to nobody\n"
    mismatch = keyed.run("wake", "way-1", "--principal", "x", *key, status=5).stderr
    assert "--principal says x, but the key is bootstrap's. The key says who you are: leave" in mismatch


def test_why_takes_a_position(ds: Commands) -> None:
    ds.run("append", "why-1", '{"type":"note","id":"first"}', '{"type":"note","id":"7"}')
    assert "[why-1/first]" in ds.run("why", "why-1", "0").stdout
    assert "[why-1/7]" in ds.run("why", "why-1", "7").stdout  # an id counts before a position
    assert "[why-1/first]" in ds.run("impact", "why-1", "0").stdout


def test_a_typo_in_a_scope_is_noticed(ds: Commands) -> None:
    assert ds.run("memory", "get", "project:cal").stderr == (
        "There is no scope project:cal. Did you mean project:calc?\n"
    )
    assert ds.run("memory", "log", "project:calc").stdout.startswith("POSITION  WHAT")


def test_what_is_done_again_is_not_done_twice(ds: Commands) -> None:
    ds.run("append", "again", '{"type":"n","id":"n"}', '{"type":"user.message","id":"why","content":"No."}')
    refs = '[{"rel":"because","id":"why"}]'
    event = (
        f'{{"type":"ds.memory.written","id":"m","scope":"project:again","key":"k","value":1,"refs":{refs},'
    )
    ds.run("append", "again", event + '"why":"reflection"}')
    undo = ("memory", "roll-back", "again", "m", "--reason", "r")
    assert [ds.run(*undo).stderr for _ in range(2)] == ["m: rolled back\n", "m: rolled back already\n"]
    kinds = [line.split()[1] for line in ds.run("memory", "log", "project:again").stdout.splitlines()]
    assert kinds == ["WHAT", "written", "rolled_back"]
    erase = ("redact", "again", "n", "--reason", "r", "--yes")
    assert ds.run(*erase).stderr == "again: 1 event redacted\n"
    assert ds.run(*erase).stderr == "again: 1 event redacted already\n"
    ds.run("fork", "again", "again-2")
    assert ds.run("adopt", "again", "again-2").stderr == "again: there is nothing new to adopt from again-2\n"


def test_a_limit_may_be_any_number(ds: Commands) -> None:
    ds.run("sessions", "--limit", "9" * 30)
    ds.run("search", "mend", "--limit", "9" * 30)
    ds.run("sessions", "--lifecycle", "resumed")


def test_an_artifact_is_found_as_it_is_named_elsewhere(ds: Commands, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"x")
    digest = ds.run("artifact", "put", str(tmp_path / "x")).stdout.strip()
    for name in (digest, digest.upper(), f"sha256:{digest}", f"/v1/artifacts/{digest}"):
        assert ds.run("artifact", "get", name).stdout == "x"


def test_files_that_are_no_text_are_not_read_back(ds: Commands, tmp_path: Path) -> None:
    ds.run("handoff", "job-1", "--write", str(tmp_path))
    (tmp_path / "progress.txt").write_bytes(b"\xff\xfe")
    read = ("handoff", "job-1", "--read", str(tmp_path))
    assert "progress.txt is not a text in UTF-8. Nothing was written." in ds.run(*read, status=2).stderr
    (tmp_path / "progress.txt").write_bytes(b"a\0b")
    assert "it has null characters. Nothing was written." in ds.run(*read, status=2).stderr
    (tmp_path / "feature-list.json").write_text("[\n{,")
    assert "is not JSON: look at line 2, column 2." in ds.run(*read, status=2).stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--expires", "2020-01-01"), "--expires has passed; give a time to come, or leave it out"),
        (("--principal", ""), "--principal is not usable; give a name of 1 to 128 printable characters."),
        (("--workspace", "A b"), "--workspace is not usable; give 1 to 63 of a-z"),
        (("--requests-per-second", "1e300"), "--requests-per-second is not usable; give a number above 0"),
    ],
)
def test_a_key_is_refused_in_the_words_of_its_options(
    guarded: BackgroundServer, options: tuple[str, ...], said: str
) -> None:
    given = ("--principal", "p", "--role", "reader", "--api-key", "secret", *options)
    stderr = Commands(guarded.url).run("keys", "create", *given, status=2).stderr
    assert said in stderr
    assert not API_WORDS.search(stderr)


def test_a_list_without_keys_says_so(ds: Commands) -> None:
    done = ds.run("keys", "list")
    assert done.stdout == ""
    assert "has no keys yet" in done.stderr
    assert "ds keys create --principal admin --role admin" in done.stderr
    assert ds.run("keys", "list", "--json").output == ""


def test_an_id_of_a_key_can_be_any_text(ds: Commands) -> None:
    assert "There is no key a/b c." in ds.run("keys", "revoke", "a/b c", "--yes", status=3).stderr


@pytest.mark.parametrize(
    ("name", "begins"), [("x.html", b"<!doctype html>"), ("x.md", b"# a-1"), ("x.jsonl", b"{"), ("x", b"{")]
)
def test_the_name_of_a_file_says_its_format(ds: Commands, tmp_path: Path, name: str, begins: bytes) -> None:
    ds.run("export", "a-1", "-o", str(tmp_path / name))
    assert ds.run("export", "a-1", "--format", "md").stdout.startswith("# a-1")
    assert (tmp_path / name).read_bytes()[: len(begins)].lower() == begins
    said = ds.run("export", "a-1", "-o", str(tmp_path / "x.json"), status=2).stderr
    assert "x.json can be managed-agents or atif or otlp or prov or inspect: say which with --format." in said
    assert ds.run("export", "a-1").stdout_bytes == ds.run("export", "a-1", "-f", "jsonl").stdout_bytes


def test_a_name_that_says_no_format_is_told_which_it_got(ds: Commands, tmp_path: Path) -> None:
    assert " as jsonl, " in ds.run("export", "a-1", "-o", str(tmp_path / "x.docx")).stderr
    assert " as jsonl" not in ds.run("export", "a-1", "-o", str(tmp_path / "x.jsonl")).stderr

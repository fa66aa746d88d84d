"""Which events ``events``, ``show`` and ``tail`` print, and what they say when there are none."""

import json
from collections.abc import Iterator

import pytest

from durable_sessions.cli.shown_events import FIRST_EVENTS
from durable_sessions.client import Client
from durable_sessions.testing import BackgroundServer
from tests.support.commands import Commands

BOOKKEEPING = 2 * FIRST_EVENTS
"""More than are read at first."""


@pytest.fixture(scope="module")
def ds(shared: BackgroundServer) -> Commands:
    """Commands on a server with a closed session that ends in bookkeeping, and an empty one."""
    with Client(shared.url) as client:
        kept = client.session("kept")
        kept.append([{"type": "user.message", "content": f"Message {n}."} for n in range(4)])
        kept.append([{"type": "session.updated", "title": f"t{n}"} for n in range(BOOKKEEPING)])
        kept.close()
        client.sessions.create("empty")
    return Commands(shared.url)


def messages(text: str) -> list[str]:
    return [f"Message {n}." for n in range(4) if f"Message {n}." in text]


def test_the_last_events_are_those_that_are_shown(ds: Commands) -> None:
    assert messages(ds.run("show", "kept", "--last", "2").stdout) == ["Message 2.", "Message 3."]
    assert messages(ds.run("tail", "kept", "--last", "3").stdout) == [
        "Message 1.",
        "Message 2.",
        "Message 3.",
    ]
    assert len(messages(ds.run("show", "kept", "--last", "99").stdout)) == 4
    assert messages(ds.run("tail", "kept", "--last", "0").stdout) == []
    assert messages(ds.run("show", "kept", "--last", "5", "--full").stdout) == []
    assert len(ds.run("show", "kept", "--last", "5", "--json").stdout.splitlines()) == 5
    assert len(ds.run("tail", "kept", "--last", "5", "--json").stdout.splitlines()) == 5


@pytest.mark.parametrize("option", ["--tail", "--last"])
def test_the_last_events_are_those_that_match(ds: Commands, option: str) -> None:
    def positions(*more: str) -> list[int]:
        return [int(one["offset"][-16:]) for one in ds.lines("events", "kept", option, "2", *more)]

    assert positions() == [BOOKKEEPING + 2, BOOKKEEPING + 3]
    assert positions("--type", "user.*") == [2, 3]
    assert positions("--type", "user.*", "--order", "desc") == [3, 2]
    assert positions("--type", "user.*", "--limit", "1") == [3]
    assert positions("--after", "1d", "--type", "user.message") == [2, 3]
    assert len(ds.lines("events", "kept", option, "99999999")) == BOOKKEEPING + 4
    assert ds.run("events", "kept", option, "0").stderr == ""
    lines = ds.run("tail", "kept", "--type", "user.*", "--last", "1", "--json").stdout.splitlines()
    assert [json.loads(line)["content"] for line in lines] == ["Message 3."]


@pytest.mark.parametrize("command", ["events", "tail"])
@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("user.mesage", "has the type user.mesage, and it is none that is known. Did you mean user.message?"),
        ("usr.*", "Did you mean user.*?"),
        ("xyz", "has the type xyz, and it is none that is known."),
    ],
)
def test_a_type_that_nobody_knows_is_told(ds: Commands, command: str, kind: str, said: str) -> None:
    done = ds.run(command, "kept", "--type", kind)
    assert done.stdout == ""
    assert said in done.stderr


def test_a_type_that_is_only_known_here_is_no_mistake(ds: Commands, client: Client) -> None:
    client.session("own").append({"type": "usr.message"})
    client.session("own").close()
    assert "known" not in ds.run("tail", "own", "--type", "usr.message").stderr
    assert ds.run("events", "own", "--type", "usr.message").stderr == ""
    assert ds.run("events", "kept", "--type", "session.error").stderr == "No event of kept matches.\n"


@pytest.fixture(scope="module")
def client(shared: BackgroundServer) -> Iterator[Client]:
    with Client(shared.url) as client:
        yield client


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("events", "kept", "--from", "999"), 2, "204 events, and --from 999 is beyond its end"),
        (("events", "kept", "--offset", "999"), 2, "--offset 999 is beyond its end"),
        (("events", "kept", "--around", "999"), 2, "--around 999 is beyond its end"),
        (("tail", "kept", "--from", "999"), 2, "--from 999 is beyond its end"),
        (("tail", "kept", "--offset", "999"), 2, "--offset 999 is beyond its end"),
        (("events", "kept", "--from", "204"), 0, "No event of kept matches."),
        (("events", "empty"), 0, "empty has no events yet."),
        (("events", "kept", "--after", "1h", "--before", "2h"), 2, "Nothing is both after "),
        (("sessions", "--after", "2026-11-15", "--before", "2026-11-14"), 2, "give --after the earlier time"),
        (("search", "x", "--after", "1h", "--before", "2h"), 2, "give --after the earlier time"),
        (("search", "zzz-none"), 0, "0 hits in 0 sessions"),
        (("sessions", "-q", "zzz-none"), 0, "No session matches."),
        (("tail", "kept", "--last", "3", "--from", "0"), 2, "Give one of --last and --from, not both"),
        (("tail", "kept", "--offset", "3", "--from", "0"), 2, "Give one of --from and --offset, not both"),
    ],
)
def test_an_empty_range_is_told(ds: Commands, arguments: tuple[str, ...], status: int, said: str) -> None:
    done = ds.run(*arguments, status=status)
    assert done.stdout == ""
    assert said in done.stderr
    assert ("ds: " in done.stderr) == (status != 0), "only failures begin with the name of the program"
    assert "stream" not in done.stderr

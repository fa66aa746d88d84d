"""Refusals of the server in the words of the command line: options and arguments, nothing of HTTP or JSON."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from durable_sessions.client import Client
from durable_sessions.testing import BackgroundServer, server
from tests.support.commands import Commands

API_WORDS = re.compile(
    r"\b(send|Send|body|header|parameter|expires_at|requests_per_second|PUT|POST|/v1/|stream)\b"
)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BackgroundServer]:
    with server(tmp_path_factory.mktemp("server")) as one:
        yield one


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BackgroundServer]:
    with server(tmp_path_factory.mktemp("guarded"), api_key="secret") as one:
        yield one


@pytest.fixture(scope="module")
def ds(running: BackgroundServer) -> Commands:
    with Client(running.url) as client:
        for name in ("a-1", "b-1"):
            client.session(name).append({"type": "note"})
    return Commands(running.url)


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("fork", "a-1", "--at", "9"), 2, "a-1 has 1 event, and --at 9 is beyond its end."),
        (("fork", "a-1", "b-1"), 6, "There is another session b-1 already. Give another id, or none"),
        (("fork", "a-1", "--at", "sevt_x"), 3, "a-1 has no event sevt_x. Give --at a position"),
        (("fork", "a-1", "--title", "x" * 1_001), 2, "--title is too long; give at most 1000 characters."),
        (("title", "a-1", "x" * 1_001), 2, "TITLE is too long; give at most 1000 characters."),
        (("events", "a-1", "--type", ""), 2, "--type is empty; give it a value or leave it out."),
        (("append", "a-1", "--type", ""), 2, 'The event: give a "type": 1 to 128 characters'),
    ],
)
def test_a_refusal_speaks_of_what_was_typed(
    ds: Commands, arguments: tuple[str, ...], status: int, said: str
) -> None:
    stderr = ds.run(*arguments, status=status).stderr
    assert said in stderr
    assert not API_WORDS.search(stderr)


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
    assert (tmp_path / name).read_bytes()[: len(begins)].lower() == begins
    said = ds.run("export", "a-1", "-o", str(tmp_path / "x.json"), status=2).stderr
    assert "x.json can be managed-agents or atif: say which with --format." in said
    assert ds.run("export", "a-1").stdout_bytes == ds.run("export", "a-1", "-f", "jsonl").stdout_bytes

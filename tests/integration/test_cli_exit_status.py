"""Exit statuses of whole classes of commands: what is not there is 3, what a key may not do is 5."""

import hashlib
import os
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import httpx2
import pytest
from click.testing import CliRunner, Result

from durable_sessions.cli.main import cli
from durable_sessions.testing import server
from tests.support.keys import BOOTSTRAP, bearer
from tests.unit.cli.test_examples import COMMANDS, shown

FILE = b"a plot"
DIGEST = hashlib.sha256(FILE).hexdigest()
REQUEST = {
    "type": "ds.approval.requested",
    "id": "may-i",
    "question": "May I?",
    "options": ["approve", "reject"],
}
NAMES_A_SESSION = [
    words
    for words, command in COMMANDS.items()
    if any(isinstance(one, click.Argument) and one.name == "session" for one in command.params)
]
WRITING = [
    ("append", "s", "--type", "note"),
    ("fork", "s"),
    ("memory", "remember", "s", "project:calc", "a=1", "--why", "reflection", "--because", "one"),
    ("memory", "roll-back", "s", "one", "--reason", "wrong"),
    ("wake", "s"),
    ("release", "s", "--epoch", "1"),
    ("facts", "s", "--set", "a=1"),
    ("route", "s", "ann", "--reason", "it is ready"),
    ("evaluate", "s", "tests", "pass", "--because", "one"),
    ("approve", "s", "may-i", "--reason", "it is sound"),
    ("adopt", "s", "b"),
    ("pause", "s", "--reason", "later"),
    ("resume", "s"),
    ("cancel", "s", "--yes"),
    ("title", "s", "A title"),
    ("close", "s", "--yes"),
    ("archive", "s", "--yes"),
    ("delete", "s", "--yes"),
    ("redact", "s", "one", "--reason", "a password", "--yes"),
    ("artifact", "put", "plot.png"),
    ("artifact", "delete", DIGEST, "--yes"),
    ("keys", "create", "--principal", "ann", "--role", "reader"),
    ("keys", "list"),
    ("keys", "revoke", "key_1", "--yes"),
    ("flush",),
    ("reindex",),
]
"""Every command that changes what a server has, as a reader would call it."""
_READING = """
    sessions, show, events, tail, outline, search, slots, export, state, context, handoff, graph, why, impact,
    diff, dossier, memory get, memory log, memory recall, memory scopes, artifact get
"""
READING = {words.strip() for words in _READING.split(",")}
_ELSEWHERE = "serve mcp import cluster dump capture verify repair gc repartition completion help"
ELSEWHERE = frozenset(_ELSEWHERE.split())
"""Commands that need no server, start one, or have tests of their own."""


class Keyed:
    """Runs commands with the keys of a server."""

    def __init__(self, url: str, secrets: dict[str, str]) -> None:
        self._url = url
        self._secrets = secrets

    def run(self, role: str, *arguments: str) -> Result:
        environment = {"DURABLE_SESSIONS_URL": self._url, "DURABLE_SESSIONS_API_KEY": self._secrets[role]}
        return CliRunner().invoke(cli, arguments, env=environment)


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keyed]:
    with server(tmp_path_factory.mktemp("data"), api_key=BOOTSTRAP) as one:
        with httpx2.Client(base_url=one.url + "/v1", headers=bearer(BOOTSTRAP)) as api:
            said = {"principal": "reader", "role": "reader"}
            reader = api.post("/keys", json=said).raise_for_status().json()["secret"]
            outcome = {"features": [{"id": "tests", "text": "All pass."}]}
            api.put("/sessions/s", json={"outcome": outcome}).raise_for_status()
            events = [{"type": "note", "id": "one"}, REQUEST]
            api.post("/sessions/s/events", json=events).raise_for_status()
            fork = {"Stream-Forked-From": "/v1/sessions/s"}
            api.put("/sessions/b", headers=fork).raise_for_status()
            api.put(f"/artifacts/{DIGEST}", content=FILE).raise_for_status()
        yield Keyed(one.url, {"admin": BOOTSTRAP, "reader": reader})


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(tmp_path)
    for name in ("plot.png", "issue-7.zip"):
        (tmp_path / name).write_bytes(FILE)
    yield
    os.chdir(before)


@pytest.mark.parametrize("words", [words for words in NAMES_A_SESSION if words != "append"])
def test_a_session_that_is_not_there_is_status_3(keyed: Keyed, words: str) -> None:
    known = CliRunner().invoke(cli, [*words.split(), "--help"], env={"COLUMNS": "200"}).output
    given = shlex.split(shown(words, known)[0])[1:]
    if "--principal" in given:  # with keys nobody declares one
        at = given.index("--principal")
        del given[at : at + 2]
    if any("--yes" in one.opts for one in COMMANDS[words].params):
        given.append("--yes")
    done = keyed.run("admin", *given)
    assert done.exit_code == 3, done.output
    assert "There is no session" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("why", "s", "nothing"),
        ("impact", "s", "nothing"),
        ("redact", "s", "nothing", "--reason", "x", "--yes"),
        ("fork", "s", "--at", "nothing"),
        ("approve", "s", "nothing"),
        ("slots", "s", "nothing"),
        ("facts", "s", "--retract", "nothing"),
        ("artifact", "get", "0" * 64),
        ("artifact", "delete", "0" * 64, "--yes"),
        ("keys", "revoke", "key_nothing", "--yes"),
    ],
    ids=" ".join,
)
def test_what_is_named_and_not_there_is_status_3(keyed: Keyed, arguments: tuple[str, ...]) -> None:
    done = keyed.run("admin", *arguments)
    assert done.exit_code == 3, done.output
    assert done.stderr.startswith("ds: ")


@pytest.mark.parametrize("arguments", WRITING, ids=lambda one: " ".join(one[:2]))
def test_what_a_reader_may_not_do_is_status_5(keyed: Keyed, arguments: tuple[str, ...]) -> None:
    done = keyed.run("reader", *arguments)
    assert done.exit_code == 5, done.output
    assert "This needs a key with the role" in done.stderr


def test_every_command_is_in_one_of_the_classes() -> None:
    writing = {words for words in COMMANDS for one in WRITING if " ".join(one).startswith(words)}
    elsewhere = {words for words in COMMANDS if words.split()[0] in ELSEWHERE}
    assert writing | elsewhere | READING == set(COMMANDS)
    assert not writing & READING

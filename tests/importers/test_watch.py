"""Live capture: a watching importer that is killed again and again loses nothing and repeats nothing."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from durable_sessions import testing
from durable_sessions.client import Client
from durable_sessions.client.errors import NotFoundError
from durable_sessions.importers.claude_code.store import discover
from durable_sessions.importers.destination import ServerDestination
from durable_sessions.importers.engine import ImportEngine
from durable_sessions.importers.live_capture import Watcher
from durable_sessions.importers.registry import TOOLS
from durable_sessions.importers.state import ImportState
from tests.importers.talks import claude_code_talk, lines
from tests.support import waiting

KILLS = int(os.environ.get("DURABLE_SESSIONS_IMPORT_KILLS", "12"))
SESSION = "claude-code:11111111-2222-4333-8444-555555555555"
ROOT = Path(__file__).parents[2]


@pytest.fixture
def server() -> Iterator[testing.BackgroundServer]:
    with testing.server() as running:
        yield running


class Growing:
    """A session file that somebody writes to, in pieces that end anywhere."""

    def __init__(self, path: Path, data: bytes, chance: random.Random) -> None:
        self.path = path
        self._data = data
        self._chance = chance
        self._at = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write)

    def __enter__(self) -> "Growing":
        self.path.touch()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._append(len(self._data))

    def _write(self) -> None:
        while not self._stop.wait(self._chance.uniform(0.001, 0.02)) and self._at < len(self._data):
            self._append(self._chance.randint(1, 1_000))

    def _append(self, size: int) -> None:
        with self.path.open("ab") as file:
            file.write(self._data[self._at : self._at + size])
        self._at += size


def watching(path: Path, url: str, state: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.importers.watching_process", str(path), url, str(state)]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return process


def kill(process: subprocess.Popen[bytes], number: int = signal.SIGKILL) -> None:
    process.send_signal(number)
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def stored(client: Client) -> list[str]:
    return [event.id for event in client.session(SESSION).events() if event.id.startswith("imp_")]


def test_killed_at_random_moments(tmp_path: Path, server: testing.BackgroundServer) -> None:
    chance = random.Random(KILLS)
    folder, state = tmp_path / "projects", tmp_path / "state.db"
    folder.mkdir()
    talk = lines(claude_code_talk(15 * KILLS))
    file = folder / f"{SESSION.partition(':')[2]}.jsonl"
    heights = [0]

    def height() -> int:
        try:
            return client.session(SESSION).info().event_count
        except NotFoundError:
            return 0

    def has_grown() -> bool:
        return height() > heights[-1] or file.stat().st_size == len(talk)

    with Client(server.url) as client:
        with Growing(file, talk, chance):
            for number in range(KILLS):
                process = watching(folder, server.url, state)
                if number % 3 == 0:  # on a busy machine the others may be killed before they begin
                    wait_until(has_grown)
                time.sleep(chance.uniform(0, 0.7))
                kill(process)
                heights.append(height())
                if chance.random() < 0.1:
                    state.unlink(missing_ok=True)
        engine = ImportEngine(ServerDestination(client), ImportState(state, server.url))
        engine.run(discover([folder]))
        found = stored(client)
    expected = [event["id"] for part in discover([folder])[0].parts for event in part.read(ending=True)]
    assert found == expected
    assert heights == sorted(heights)
    assert len(set(heights)) > 1


def test_follows_new_files(tmp_path: Path, server: testing.BackgroundServer) -> None:
    folder = tmp_path / "projects"
    folder.mkdir()
    process = watching(folder, server.url, tmp_path / "state.db")
    talk = claude_code_talk(3)
    (folder / f"{SESSION.partition(':')[2]}.jsonl").write_bytes(lines(talk[:-1]))
    with Client(server.url) as client:
        wait_for(client, "Question 2?")
        with (folder / f"{SESSION.partition(':')[2]}.jsonl").open("ab") as file:
            file.write(lines(talk[-1:]))
        wait_for(client, "Answer 2.")
    kill(process, signal.SIGKILL)


def test_the_command_follows_and_ends_when_asked(tmp_path: Path, server: testing.BackgroundServer) -> None:
    folder = tmp_path / "projects"
    folder.mkdir()
    command = [
        sys.executable,
        "-m",
        "durable_sessions",
        "import",
        "claude-code",
        str(folder),
        "--watch",
        "--json",
    ]
    variables = {
        "DURABLE_SESSIONS_URL": server.url,
        "XDG_STATE_HOME": str(tmp_path),
        "PYTHONPATH": str(ROOT / "src"),
    }
    with subprocess.Popen(command, env={**os.environ, **variables}, stdout=subprocess.PIPE) as process:
        (folder / f"{SESSION.partition(':')[2]}.jsonl").write_bytes(lines(claude_code_talk(2)))
        with Client(server.url) as client:
            wait_for(client, "Answer 1.")
        process.send_signal(signal.SIGTERM)
        assert process.stdout is not None
        told = [json.loads(line) for line in process.stdout]
        assert process.wait() == 0
    assert sum(one["new_events"] for one in told) == 19


class Watching:
    """A watcher in a thread of this process."""

    def __init__(self, tool: str, folder: Path, url: str, **more: Any) -> None:
        self.troubles: list[str] = []
        self._stop = threading.Event()
        self._made = (tool, folder, url, more)
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        tool, folder, url, more = self._made
        with Client(url, retries=0) as client:
            engine = ImportEngine(ServerDestination(client), ImportState(None, ""))
            Watcher(
                engine,
                lambda: TOOLS[tool].discover([folder]),
                [folder],
                lambda report: None,
                self.troubles.append,
                stop=self._stop,
                **more,
            ).run()

    def __enter__(self) -> "Watching":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


def test_subagents_quiet_and_a_server_that_comes_back(
    tmp_path: Path, server: testing.BackgroundServer
) -> None:
    name = SESSION.partition(":")[2]
    talk = claude_code_talk(2)
    with (
        Client(server.url) as client,
        Watching("claude-code", tmp_path, server.url, quiet_seconds=0.5) as one,
    ):
        (tmp_path / f"{name}.jsonl").write_bytes(lines(talk[:6]))
        wait_for(client, "Answer 0.")
        wait_until(lambda: client.session(SESSION).info().usage.output_tokens == 29)
        folder = tmp_path / name / "subagents"
        folder.mkdir(parents=True)
        below = {**talk[0], "uuid": "x", "isSidechain": True, "agentId": "a1"}
        (folder / "agent-a1.jsonl").write_bytes(lines([below]))
        wait_until(
            lambda: any(event.type == "session.thread_created" for event in client.session(SESSION).events())
        )
        server.restart()
        with (tmp_path / f"{name}.jsonl").open("ab") as file:
            file.write(lines(talk[6:]))
        wait_for(client, "Answer 1.")
        wait_until(lambda: client.session(SESSION).info().usage.output_tokens == 58)
        found = stored(client)
        assert len(found) == len(set(found))
        assert all("No answer" in trouble for trouble in one.troubles)


def test_without_the_help_of_the_system(
    tmp_path: Path, server: testing.BackgroundServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError("too many watches")

    monkeypatch.setattr("durable_sessions.importers.live_capture.watch", refuse)
    with Client(server.url) as client, Watching("claude-code", tmp_path, server.url) as one:
        (tmp_path / f"{SESSION.partition(':')[2]}.jsonl").write_bytes(lines(claude_code_talk(1)))
        wait_for(client, "Answer 0.")
        wait_until(lambda: bool(one.troubles))
    assert "too many watches" in one.troubles[0]


def test_a_document_that_is_rewritten(tmp_path: Path, server: testing.BackgroundServer) -> None:
    def written(*texts: str) -> None:
        messages = [{"id": str(n), "type": "user", "content": text} for n, text in enumerate(texts)]
        document = {"sessionId": "g", "projectHash": "h", "messages": messages}
        (tmp_path / "new.tmp").write_text(json.dumps(document))
        (tmp_path / "new.tmp").replace(tmp_path / "session-g.json")

    def texts() -> list[str]:
        return [event.text for event in client.session("gemini:g").events(types="user.message")]

    with Client(server.url) as client, Watching("gemini", tmp_path, server.url):
        written("one")
        wait_until(lambda: texts() == ["one"])
        written("one", "two")
        wait_until(lambda: texts() == ["one", "two"])


def wait_for(client: Client, words: str) -> None:
    wait_until(lambda: any(words in event.text for event in client.session(SESSION).events()))


def wait_until(holds: Callable[[], bool]) -> None:
    def holds_now() -> bool:
        try:
            return holds()
        except NotFoundError:
            return False

    waiting.wait_until(holds_now)

"""``kill -9`` of the server under the client: a writer, appends, and a tail."""

import random
import threading
import time
from pathlib import Path

import pytest

from durable_sessions import Client
from durable_sessions.client import Event, Pending, Session, retry
from tests.support.process import ServerProcess

pytestmark = pytest.mark.chaos

KILLS = 3
PATIENT = 1_000


def test_what_is_acknowledged_is_there_once_and_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry, "PAUSE_SECONDS_MAX", 0.05)
    over = threading.Event()
    followed: list[Event] = []
    with ServerProcess(tmp_path / "data") as server, Client(server.url, retries=PATIENT) as client:
        session = client.session("s")
        session.append({"type": "first"})
        written: list[Pending] = []
        threads = [
            threading.Thread(target=lambda: followed.extend(session.tail())),
            threading.Thread(target=write, args=(session, over, written)),
            threading.Thread(target=append, args=(Client(server.url, retries=PATIENT), over)),
        ]
        for thread in threads:
            thread.start()
        for _ in range(KILLS):
            time.sleep(random.uniform(0.2, 0.8))
            server.kill()
            server.start()
        over.set()
        for thread in threads[1:]:
            thread.join()
        assert all(pending.result() for pending in written)
        session.close()
        threads[0].join()
        stored = list(session.events())
    assert [event.id for event in followed] == [event.id for event in stored]
    assert [event["n"] for event in stored if event.type == "written"] == list(range(len(written)))
    appended = [event["n"] for event in stored if event.type == "appended"]
    assert appended == list(range(len(appended)))
    assert len(appended) > KILLS


def write(session: Session, over: threading.Event, written: list[Pending]) -> None:
    with session.writer(batch_events=50, linger_seconds=0.001, queue_events=200) as writer:
        while not over.is_set():
            written.append(writer.append({"type": "written", "n": len(written)}))


def append(client: Client, over: threading.Event) -> None:
    number = 0
    with client:
        while not over.is_set():
            client.session("s").append({"type": "appended", "n": number})
            number += 1

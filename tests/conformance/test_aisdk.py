"""The AI SDK's transport for durable streams, unmodified: on a plain stream, and on a session."""

import json
import subprocess
from pathlib import Path

import pytest

from durable_sessions import Client
from tests.support.npm import installed, node_22
from tests.support.process import ServerProcess
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.conformance
PROJECT = Path(__file__).parent / "aisdk"
WHAT = "the AI SDK's transport"
ENVELOPE = {"Stream-Envelope": "ai.chunk"}


def chat(write: str, read: str, headers: dict[str, str]) -> tuple[dict[str, object], str]:
    node, folder = node_22(WHAT), installed(PROJECT, "aisdk", "chat.mjs", missing=WHAT)
    command = [node, "chat.mjs", write, read, json.dumps(headers)]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found, done.stderr


def test_a_reader_that_left_has_every_chunk(server: ServerProcess) -> None:
    whole = {"idle": None, "left": 10, "seen": 44, "same": True}
    plain = f"{server.url}/v1/stream/chats/1"
    assert chat(plain, plain, {})[0] == whole
    session = f"{server.url}/v1/stream/sessions/chat-1"
    assert chat(session, f"{session}?envelope=ai.chunk", ENVELOPE)[0] == whole
    with Client(server.url) as client:
        assert [event.type for event in client.session("chat-1").events()] == ["ai.chunk"] * 44
    # Without the header nothing is lost silently: the first repeated id is refused, and the writer told.
    bare = f"{server.url}/v1/stream/sessions/chat-2"
    found, told = chat(bare, bare, {})
    assert found["same"] is False
    assert "belongs to another event already" in told

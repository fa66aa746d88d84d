"""Following the list of sessions: every connection begins with a gap, and what is no list is noticed."""

import json
from typing import Any

import httpx2
import pytest

from durable_sessions.client import retry
from durable_sessions.client.errors import ConnectionFailedError
from durable_sessions.client.info import SessionInfo
from durable_sessions.client.session_changes import SessionChanges
from tests.unit.client.shells import Shell
from tests.unit.client.stub import LOST, Stub, said

pytestmark = pytest.mark.anyio

INFO: dict[str, Any] = {
    "id": "a",
    "title": None,
    "metadata": {},
    "lifecycle": "active",
    "status": "idle",
    "event_count": 1,
    "next_offset": "0000000000000000_0000000000000001",
    "created_at": "2026-11-15T12:00:00.000Z",
    "updated_at": "2026-11-15T12:00:00.000Z",
}
CONTROL = 'event: control\ndata: {"upToDate":true}\n\n'


def frames(*parts: str) -> httpx2.Response:
    return httpx2.Response(200, content="".join(parts).encode())


def changed(*ids: str, gone: tuple[str, ...] = ()) -> str:
    value = {"changed": [INFO | {"id": one} for one in ids], "gone": list(gone), "more": False}
    return f"event: sessions\ndata: {json.dumps(value)}\n\n"


def seen(changes: SessionChanges) -> tuple[bool, list[str], list[str]]:
    assert all(isinstance(one, SessionInfo) for one in changes.changed)
    return changes.gap, [one.id for one in changes.changed], changes.gone


async def follow(shell: Shell, stub: Stub, count: int) -> list[Any]:
    client = shell.client(stub)
    following = client.sessions.follow()
    try:
        return [seen(await shell.first(following)) for _ in range(count)]
    finally:
        await shell.leave(following)
        await shell.run(client.close)


async def test_each_connection_begins_with_a_gap_and_changes_follow_in_order(shell: Shell) -> None:
    stub = Stub(
        frames(CONTROL, changed("a", "b"), CONTROL, changed("a", gone=("b",))),
        LOST,
        frames(CONTROL, changed("c")),
    )
    assert await follow(shell, stub, 5) == [
        (True, [], []),
        (False, ["a", "b"], []),
        (False, ["a"], ["b"]),
        (True, [], []),
        (False, ["c"], []),
    ]
    assert {str(request.url) for request in stub.requests} == {"http://stub/v1/sessions?live=sse"}


async def test_a_change_in_the_first_frame_of_a_connection_still_comes_after_its_gap(shell: Shell) -> None:
    assert await follow(shell, Stub(frames(changed("a"))), 2) == [(True, [], []), (False, ["a"], [])]


@pytest.mark.parametrize("body", ["data: no json\n\n", 'data: {"changed":[{}],"gone":[]}\n\n', "data: 5\n\n"])
async def test_what_is_no_live_list_is_an_error_in_the_end(shell: Shell, body: str) -> None:
    with pytest.raises(ConnectionFailedError, match="no live list"):
        await follow(shell, Stub(frames(body)), 50)


async def test_a_server_that_ends_connections_at_once_is_not_asked_in_a_tight_loop(
    shell: Shell, pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry, "FIRST_PAUSE_SECONDS", 1.0)
    stub = Stub(said(200), said(200), frames(CONTROL))
    assert await follow(shell, stub, 1) == [(True, [], [])]
    assert len(pauses) == 2
    assert min(pauses) > 0

"""A worker dies with a request: whoever sent it is told that nobody knows, and may send it again."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from durable_sessions.errors import DurableSessionsError, LinkDownError, LinkLostError
from durable_sessions.http.api.artifact_owner import CHANGE, FOLDER
from durable_sessions.http.api.internal import FLUSH
from durable_sessions.http.carrier.message import Answer, Request
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.managed_agents.claude_code_hooks import SESSION_PREFIX
from durable_sessions.node.link import NodeLink
from durable_sessions.node.worker_group import WorkerGroup
from durable_sessions.node.worker_id import WorkerId
from durable_sessions.sessions.record import path_of
from durable_sessions.streams.partition_map import home_partition
from durable_sessions.testing.server import local_server
from tests.support.keys import code_of
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.anyio

LIMITS = replace(DEFAULT_LIMITS, event_bytes_max=2_000)
HOOK = "/v1/ingest/claude-code"
UNKNOWN, AWAY = (503, "outcome_unknown"), (503, "partition_unavailable")
OWNER = home_partition("default", FOLDER, 2)
"""The partition, and so the worker, that has the artifacts."""


def elsewhere(prefix: str = "") -> str:
    """Return a name whose session is not where the artifacts are."""
    return next(
        name
        for name in map("s{}".format, range(100))
        if home_partition("default", path_of(prefix + name), 2) != OWNER
    )


class FaultyLinks:
    """Links that lose the next answers to requests of one path, or never send the requests."""

    def __init__(self) -> None:
        self.path = b""
        self.reaches = True

    def lose(self, path: bytes, *, reaches: bool = True) -> None:
        """Let the owner die with requests of a path: after it carried them out, or before they were sent."""
        self.path, self.reaches = path, reaches

    def mend(self) -> None:
        self.path = b""

    def patch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        ask = NodeLink.ask

        def faulty(link: NodeLink, partition: int, request: Request) -> "asyncio.Future[Answer]":
            if not self.path or request.path != self.path:
                return ask(link, partition, request)
            lost: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

            def fail(error: DurableSessionsError) -> None:
                if not lost.done():
                    lost.set_exception(error)

            if self.reaches:
                asked = ask(link, partition, request)
                asked.add_done_callback(lambda _: fail(LinkLostError(reason="the peer closed it")))
            else:
                fail(LinkDownError(reason="it cannot be reached"))
            return lost

        monkeypatch.setattr(NodeLink, "ask", faulty)


@pytest.fixture
def links(monkeypatch: pytest.MonkeyPatch) -> FaultyLinks:
    links = FaultyLinks()
    links.patch(monkeypatch)
    return links


@pytest.fixture
async def clients(links: FaultyLinks, tmp_path: Path) -> AsyncIterator[list[httpx2.AsyncClient]]:
    """Give a client of each worker; its connection ends with each answer, so that none moves."""

    def group(number: int) -> WorkerGroup:
        return WorkerGroup(WorkerId(number, of=2), tmp_path, b"a secret that both of them share")

    def client(url: str) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(base_url=url, timeout=PATIENCE_SECONDS, headers={"Connection": "close"})

    data = tmp_path / "data"
    async with (
        local_server(data, partitions=2, group=group(0), limits=LIMITS) as zero,
        local_server(data, partitions=2, group=group(1), limits=LIMITS) as one,
        client(zero.url) as first,
        client(one.url) as second,
    ):
        yield [first, second]


def refusal(answer: httpx2.Response) -> tuple[int, str]:
    return answer.status_code, code_of(answer)


async def events_of(client: httpx2.AsyncClient, session: str) -> list[dict[str, Any]]:
    answer = await client.get(f"/v1/sessions/{session}/events")
    return list(answer.json()["data"]) if answer.status_code == 200 else []


async def test_a_redaction_that_was_lost_is_sent_again(
    clients: list[httpx2.AsyncClient], links: FaultyLinks
) -> None:
    session, here, there = elsewhere(), clients[OWNER], clients[1 - OWNER]
    event = {"type": "user.message", "content": [{"type": "text", "text": "secret"}], "id": "one"}
    assert (await there.post(f"/v1/sessions/{session}/events", json={"events": [event]})).is_success
    path = f"/v1/sessions/{session}/redact"
    body = {"events": ["one"], "reason": "it was private"}
    links.lose(path.encode(), reaches=False)
    assert refusal(await here.post(path, json=body)) == AWAY
    assert "secret" in str(await events_of(there, session)), "nothing was done"
    links.lose(path.encode())
    assert refusal(await here.post(path, json=body)) == UNKNOWN
    assert "secret" not in str((await events_of(there, session))[0]), "it was carried out"
    links.mend()
    assert (await here.post(path, json=body)).status_code == 200


async def test_a_redaction_whose_artifacts_were_lost_is_sent_again(
    clients: list[httpx2.AsyncClient], links: FaultyLinks
) -> None:
    session, there = elsewhere(), clients[1 - OWNER]
    for number, reaches in enumerate((False, True)):
        data = b"bytes %d" % number
        digest = hashlib.sha256(data).hexdigest()
        artifact = f"/v1/artifacts/{digest}"
        assert (await there.put(artifact, content=data)).is_success
        event = {"type": "user.message", "content": [{"type": "text", "text": "secret"}], "id": f"e{number}"}
        assert (await there.post(f"/v1/sessions/{session}/events", json={"events": [event]})).is_success
        body = {"events": [event["id"]], "reason": "it was private", "artifacts": [digest]}
        links.lose(CHANGE, reaches=reaches)
        refused = await there.post(f"/v1/sessions/{session}/redact", json=body)
        assert refusal(refused) == UNKNOWN, "the events are erased, whatever became of the artifacts"
        links.mend()
        assert "secret" not in str(
            [one for one in await events_of(there, session) if one["id"] == event["id"]]
        )
        assert (await there.get(artifact)).status_code == (410 if reaches else 200)
        assert (await there.post(f"/v1/sessions/{session}/redact", json=body)).status_code == 200
        assert (await there.get(artifact)).status_code == 410


async def test_a_flush_that_some_partitions_may_have_done_is_sent_again(
    clients: list[httpx2.AsyncClient], links: FaultyLinks
) -> None:
    for client in clients:
        for reaches in (False, True):
            links.lose(FLUSH, reaches=reaches)
            assert refusal(await client.post("/v1/admin/flush")) == UNKNOWN
            links.mend()
            assert set((await client.post("/v1/admin/flush")).json()["partitions"]) == {"00", "01", "sys"}


async def test_a_hook_that_was_lost_is_stored_once_when_it_is_sent_again(
    clients: list[httpx2.AsyncClient], links: FaultyLinks
) -> None:
    name, here = elsewhere(SESSION_PREFIX), clients[OWNER]
    session = SESSION_PREFIX + name
    hook = {"hook_event_name": "UserPromptSubmit", "session_id": name, "prompt": "Find out why."}
    links.lose(HOOK.encode(), reaches=False)
    assert refusal(await here.post(HOOK, json=hook)) == AWAY
    assert await events_of(here, session) == []
    links.lose(HOOK.encode())
    assert refusal(await here.post(HOOK, json=hook)) == UNKNOWN
    stored = await events_of(here, session)
    assert stored
    links.mend()
    assert (await here.post(HOOK, json=hook)).status_code == 200
    assert await events_of(here, session) == stored


async def test_a_hook_whose_artifact_was_lost_has_stored_no_event(
    clients: list[httpx2.AsyncClient], links: FaultyLinks
) -> None:
    name, there = elsewhere(SESSION_PREFIX), clients[1 - OWNER]
    session = SESSION_PREFIX + name
    hook = {"hook_event_name": "UserPromptSubmit", "session_id": name, "prompt": "x" * 3_000}
    for reaches, expected in ((False, AWAY), (True, UNKNOWN)):
        links.lose(CHANGE, reaches=reaches)
        assert refusal(await there.post(HOOK, json=hook)) == expected
        assert await events_of(there, session) == []
    links.mend()
    assert (await there.post(HOOK, json=hook)).status_code == 200
    assert "artifact" in (await events_of(there, session))[0]

"""The queue of a self-hosted environment, by the official SDK: its worker, its poller, and each call."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest
from anthropic import (
    APIStatusError,
    AsyncAnthropic,
    BadRequestError,
    ConflictError,
    NotFoundError,
    PermissionDeniedError,
    beta_async_tool,
)

from tests.anthropic.conftest import Account
from tests.anthropic.harness import END_TURN, RUNNING, Harness, waits_for

pytestmark = pytest.mark.anyio


class Queue:
    """An environment of a test, with a client whose key is that of its workers."""

    def __init__(self, client: AsyncAnthropic, harness: Harness, environment: str) -> None:
        self.client = client
        self.harness = harness
        self.environment = environment
        self.work: Any = client.beta.environments.work

    async def session(self, *, routed: bool = True) -> str:
        """Make a session, which its harness hands over to the environment."""
        made = await self.client.beta.sessions.create(agent="a", environment_id=self.environment)
        if routed:
            await self.route(made.id)
        return made.id

    async def route(self, session: str) -> None:
        await self.harness.append(session, {"type": "ds.routed", "to": self.environment, "reason": "tools"})

    async def poll(self, **options: Any) -> Any:
        return await self.work.poll(self.environment, **options)


@pytest.fixture
async def queue(account: Account, harness: Harness) -> AsyncIterator[Queue]:
    owner = AsyncAnthropic(base_url=account.url, api_key=account.key)
    made = await owner.beta.environments.create(name="ours", config={"type": "self_hosted"})
    await owner.close()
    key = account.new_key("writer", principal=made.id)
    client = AsyncAnthropic(base_url=account.url, auth_token=key, api_key=None, max_retries=0, timeout=12)
    yield Queue(client, harness, made.id)
    await client.close()


async def test_the_worker_of_the_sdk_runs_the_tools_of_a_session(queue: Queue) -> None:
    ran: list[str] = []

    @beta_async_tool(name="weather")
    async def weather(place: str) -> str:
        """Tell the weather."""
        ran.append(place)
        return f"rain in {place}"

    session = await queue.session()
    key = str(queue.client.auth_token)
    worker = queue.work.worker(
        environment_id=queue.environment, environment_key=key, tools=[weather], max_idle=0.5
    )
    running = asyncio.create_task(worker.run())
    try:
        call = {
            "id": "call-1",
            "type": "agent.custom_tool_use",
            "name": "weather",
            "input": {"place": "Turin"},
        }
        await queue.harness.append(session, RUNNING, call, waits_for("call-1"))
        [result] = await queue.harness.wait_for(session, "user.custom_tool_result")
        assert result["content"][0]["text"] == "rain in Turin"
        assert result["custom_tool_use_id"] == "call-1"
        await queue.harness.append(session, RUNNING, END_TURN)
        # The worker ends what it has finished, and goes on polling.
        await queue.harness.wait_for(session, "ds.lease.released")
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
    assert ran == ["Turin"]
    assert (await queue.work.stats(queue.environment)).depth == 0
    assert await queue.poll() is None
    await queue.route(session)  # the next calls are the next work
    assert (await queue.poll()).data.id == session


async def test_a_work_goes_through_all_its_states(queue: Queue) -> None:
    assert await queue.poll() is None
    first, second = await queue.session(), await queue.session()
    await queue.session(routed=False)
    stats = await queue.work.stats(queue.environment)
    assert (stats.depth, stats.pending) == (2, 0)
    assert stats.oldest_queued_at is not None
    listed = [one async for one in await queue.work.list(queue.environment, limit=1)]
    assert [(one.data.id, one.state) for one in listed] == [(first, "queued"), (second, "queued")]

    claimed = await queue.poll(anthropic_worker_id="worker-7", block_ms=50)
    assert (claimed.data.id, claimed.state, claimed.environment_id) == (first, "starting", queue.environment)
    assert claimed.secret is not None
    lease = (await queue.harness.get(f"/v1/sessions/{first}"))["lease"]
    assert (lease["worker"], lease["principal"], lease["exclusive"]) == ("worker-7", queue.environment, False)
    place = {"environment_id": queue.environment}
    acknowledged = await queue.work.ack(claimed.id, **place)
    assert acknowledged.state == "active"
    assert acknowledged.secret is None
    assert acknowledged.created_at <= acknowledged.started_at
    beat = await queue.work.heartbeat(claimed.id, **place, expected_last_heartbeat="NO_HEARTBEAT")
    assert (beat.state, beat.lease_extended, beat.ttl_seconds) == ("active", True, 90)
    again = await queue.work.heartbeat(claimed.id, **place, expected_last_heartbeat=beat.last_heartbeat)
    assert again.last_heartbeat >= beat.last_heartbeat
    for stale in ("NO_HEARTBEAT", beat.last_heartbeat):  # a second worker with the same claim
        with pytest.raises(APIStatusError) as refused:
            await queue.work.heartbeat(claimed.id, **place, expected_last_heartbeat=stale)
        assert refused.value.status_code == 412
        assert (
            refused.value.response.json()["error"]["details"]["error_code"] == "heartbeat_precondition_failed"
        )
    again = await queue.work.heartbeat(claimed.id, **place, expected_last_heartbeat=again.last_heartbeat)
    again = await queue.work.heartbeat(claimed.id, **place)
    changed = await queue.work.update(claimed.id, **place, metadata={"rack": "7"})
    assert changed.metadata == {"rack": "7"}
    stats = await queue.work.stats(queue.environment)
    assert (stats.depth, stats.pending) == (1, 1)

    stopped = await queue.work.stop(claimed.id, **place, force=True)
    assert stopped.state == "stopped"
    assert stopped.stopped_at is not None
    assert (await queue.work.retrieve(claimed.id, **place)).state == "stopped"
    beat = await queue.work.heartbeat(claimed.id, **place, expected_last_heartbeat=again.last_heartbeat)
    assert (beat.state, beat.lease_extended) == ("stopped", False)
    for late in (queue.work.stop, queue.work.ack):
        with pytest.raises(ConflictError, match="was stopped"):
            await late(claimed.id, **place)
    [left] = [one async for one in await queue.work.list(queue.environment)]
    assert (left.data.id, left.state) == (second, "queued")
    await queue.work.stop(left.id, **place)  # by whoever wants it out of the queue
    assert await queue.poll() is None


async def test_a_worker_that_was_overtaken_is_told(queue: Queue) -> None:
    session = await queue.session()
    place = {"environment_id": queue.environment}
    first = await queue.poll()
    assert await queue.poll() is None
    assert await queue.poll(reclaim_older_than_ms=60_000) is None
    second = await queue.poll(reclaim_older_than_ms=1, block_ms=500)
    assert second.data.id == session
    assert second.id != first.id
    for late in (queue.work.heartbeat, queue.work.ack, queue.work.stop):
        with pytest.raises(APIStatusError) as refused:
            await late(first.id, **place)
        assert refused.value.status_code == 412
    beat = await queue.work.heartbeat(second.id, **place, expected_last_heartbeat="NO_HEARTBEAT")
    assert beat.lease_extended
    # The lease fences nobody out who works beside it: the harness goes on.
    await queue.harness.append(session, RUNNING)


async def test_polls_at_once_get_each_work_once(queue: Queue) -> None:
    sessions = {await queue.session() for _ in range(5)}
    found = [one for one in await asyncio.gather(*(queue.poll() for _ in range(8))) if one is not None]
    assert sorted(one.data.id for one in found) == sorted(sessions)
    for one in found:
        assert (await queue.work.ack(one.id, environment_id=queue.environment)).state == "active"


async def test_what_has_no_queue_is_refused_with_a_reason(queue: Queue, account: Account) -> None:
    await queue.session()
    other = AsyncAnthropic(base_url=account.url, api_key=account.key, max_retries=0)
    with pytest.raises(PermissionDeniedError, match="routed to"):
        await other.beta.environments.work.poll(queue.environment)
    cloud = await other.beta.environments.create(name="theirs")
    with pytest.raises(BadRequestError, match="only one of the type self_hosted"):
        await other.beta.environments.work.poll(cloud.id)
    with pytest.raises(NotFoundError):
        await other.beta.environments.work.poll("env_missing")
    for name in ("work_missing", "work_WyJhIiwiYiIsMF0", "☃"):
        with pytest.raises(NotFoundError, match="no work"):
            await queue.work.retrieve(name, environment_id=queue.environment)
    reader = AsyncAnthropic(base_url=account.url, api_key=account.new_key("reader"), max_retries=0)
    assert (await reader.beta.environments.work.stats(queue.environment)).depth == 1
    with pytest.raises(PermissionDeniedError):
        await reader.beta.environments.work.poll(queue.environment)
    for client in (other, reader):
        await client.close()

"""Refs to events of sessions that live in another partition."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from durable_sessions.http.api.neighbours import Neighbours
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.node.worker_group import WorkerGroup
from durable_sessions.node.worker_id import WorkerId
from durable_sessions.streams.partition_map import home_partition
from durable_sessions.testing.server import LocalServer, local_server
from tests.support.keys import code_of
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.anyio

LIMITS = replace(DEFAULT_LIMITS, link_hold_seconds_max=0.5)


def name_in(partition: int, prefix: str) -> str:
    """Return a name of a session whose home is a partition of two."""
    names = (f"{prefix}-{number}" for number in range(100))
    return next(name for name in names if home_partition("default", f"sessions/{name}", 2) == partition)


HERE, THERE, FORK = name_in(0, "here"), name_in(1, "there"), name_in(0, "fork")


@pytest.fixture
async def workers(tmp_path: Path) -> AsyncIterator[list[LocalServer]]:
    def group(number: int) -> WorkerGroup:
        return WorkerGroup(WorkerId(number, of=2), tmp_path, b"a secret that both of them share")

    data = tmp_path / "data"
    async with (
        local_server(data, partitions=2, group=group(0), limits=LIMITS) as zero,
        local_server(data, partitions=2, group=group(1), limits=LIMITS) as one,
    ):
        yield [zero, one]


@pytest.fixture
async def api(workers: list[LocalServer]) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=workers[0].url + "/v1", timeout=PATIENCE_SECONDS) as client:
        yield client


async def note(api: httpx2.AsyncClient, session: str, event: str) -> str:
    """Append an event, and return the incarnation of its session."""
    answer = await api.post(f"/sessions/{session}/events", json={"events": [{"type": "note", "id": event}]})
    assert answer.is_success, answer.text
    return str((await api.get(f"/sessions/{session}")).headers["session-incarnation"])


async def refer(api: httpx2.AsyncClient, *targets: tuple[str, str], session: str = HERE) -> httpx2.Response:
    refs = [{"rel": "because", "id": event, "session": target} for target, event in targets]
    fact: dict[str, Any] = {"type": "ds.fact", "key": "k", "value": 1, "refs": refs}
    return await api.post(f"/sessions/{session}/events", json={"events": [fact]})


async def stored(api: httpx2.AsyncClient, session: str = HERE) -> list[dict[str, Any]]:
    data: list[dict[str, Any]] = (await api.get(f"/sessions/{session}/events")).json()["data"]
    return [event for event in data if event["type"] == "ds.fact"]


async def test_a_ref_leads_to_a_session_of_another_partition(api: httpx2.AsyncClient) -> None:
    here, there = await note(api, HERE, "one"), await note(api, THERE, "two")
    await note(api, THERE, "three")
    answer = await refer(api, (THERE, "two"), (HERE, "one"), (THERE, "three"))
    assert answer.is_success, answer.text
    (fact,) = await stored(api)
    assert fact["ref_incarnations"] == [there, None, there]
    assert (await refer(api, (HERE, "one"), session=THERE)).is_success, "and the other way"
    assert (await stored(api, THERE))[0]["ref_incarnations"] == [here]


@pytest.mark.parametrize("target", [(THERE, "none"), (name_in(1, "nowhere"), "two"), (FORK, "two")], ids=str)
async def test_a_ref_that_leads_nowhere_is_refused(api: httpx2.AsyncClient, target: tuple[str, str]) -> None:
    await note(api, HERE, "one")
    await note(api, THERE, "two")
    refused = await refer(api, (THERE, "two"), target)
    assert (refused.status_code, code_of(refused)) == (400, "unresolved_reference")
    details = refused.json()["error"]["details"]
    assert (details["index"], details["path"]) == (0, "refs[1]")
    assert await stored(api) == []


async def test_a_ref_leads_to_a_fork_that_lives_away_from_its_home(api: httpx2.AsyncClient) -> None:
    await note(api, HERE, "one")
    await note(api, THERE, "two")
    source = {"Stream-Forked-From": f"/v1/sessions/{THERE}"}
    assert (await api.put(f"/sessions/{FORK}", headers=source, json={})).status_code == 201
    life = await note(api, FORK, "three")
    assert (await refer(api, (FORK, "two"), (FORK, "three"))).is_success, "inherited events are its own, too"
    (fact,) = await stored(api)
    assert fact["ref_incarnations"] == [life, life]
    assert (await api.delete(f"/sessions/{FORK}")).is_success
    assert code_of(await refer(api, (FORK, "three"))) == "unresolved_reference", "the note stays, it does not"


async def test_a_ref_means_one_life_of_a_session(api: httpx2.AsyncClient) -> None:
    first = await note(api, THERE, "two")
    assert (await refer(api, (THERE, "two"))).is_success
    assert (await api.delete(f"/sessions/{THERE}")).is_success
    assert code_of(await refer(api, (THERE, "two"))) == "unresolved_reference"
    second = await note(api, THERE, "two")
    assert (await refer(api, (THERE, "two"))).is_success
    assert [fact["ref_incarnations"] for fact in await stored(api)] == [[first], [second]]
    assert first != second


async def test_while_the_other_partition_is_away_nothing_is_stored(
    workers: list[LocalServer], api: httpx2.AsyncClient
) -> None:
    await note(api, HERE, "one")
    await note(api, THERE, "two")
    await workers[1].stop()
    try:
        refused = await refer(api, (THERE, "two"))
        assert (refused.status_code, code_of(refused)) == (503, "partition_unavailable")
        assert refused.headers["retry-after"]
        assert (await refer(api, (HERE, "one"))).is_success, "what is here needs nobody else"
        assert len(await stored(api)) == 1
    finally:
        await workers[1].start()
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not (answer := await refer(api, (THERE, "two"))).is_success:
            assert code_of(answer) == "partition_unavailable", answer.text
    assert len(await stored(api)) == 2


async def test_very_many_refs_are_asked_for_together(
    api: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = [f"event-{number}" for number in range(60)]
    body = {"events": [{"type": "note", "id": event} for event in events]}
    assert (await api.post(f"/sessions/{THERE}/events", json=body)).is_success
    asked: list[bytes] = []
    read = Neighbours.read

    async def counted(self: Neighbours, partition: int, path: bytes, *given: Any) -> Any:
        asked.append(path)
        return await read(self, partition, path, *given)

    monkeypatch.setattr(Neighbours, "read", counted)
    assert (await refer(api, *((THERE, event) for event in events))).is_success
    assert asked == [b"/internal/known-events"]


async def test_while_the_other_partition_is_away_there_is_no_smaller_graph(
    workers: list[LocalServer], api: httpx2.AsyncClient
) -> None:
    await note(api, HERE, "one")
    await note(api, THERE, "two")
    assert (await refer(api, (THERE, "two"))).is_success
    (fact,) = await stored(api)
    paths = ("graph", f"events/{fact['id']}/why", "events/one/impact")
    for path in paths:
        assert (await api.get(f"/sessions/{HERE}/{path}")).is_success
    await workers[1].stop()
    try:
        for path in paths:
            answer = await api.get(f"/sessions/{HERE}/{path}")
            assert (answer.status_code, code_of(answer)) == (503, "view_unavailable"), path
    finally:
        await workers[1].start()

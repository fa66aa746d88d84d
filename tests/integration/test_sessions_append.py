"""Appending events: what is added, what is answered, and what happens when it is done twice."""

import asyncio
from typing import Any

import httpx2
import pytest

from durable_sessions.testing.server import LocalServer
from tests.support.sessions import START, append, at, notes, numbers, position, read, read_all

pytestmark = pytest.mark.anyio

EVENTS = "/sessions/s/events"
FULL = {"Prefer": "return=representation"}


def producer(epoch: int, seq: int, name: str = "p") -> dict[str, str]:
    return {"Producer-Id": name, "Producer-Epoch": str(epoch), "Producer-Seq": str(seq)}


# The event ------------------------------------------------------------------------------


async def test_any_type_goes_and_the_server_adds_its_own_in_front(api: httpx2.AsyncClient) -> None:
    types = [
        "user.message",
        "agent.tool_use",
        "session.anything",
        "span.x",
        "my own / type é",
        "x" * 128,
        "*",
    ]
    await append(api, "s", *[{"type": kind, "a": 1} for kind in types])
    events = await read(api, "s")
    assert [event["type"] for event in events] == types
    for number, event in enumerate(events):
        assert list(event) == [
            "id",
            "offset",
            "created_at",
            "processed_at",
            "actor",
            "type",
            "a",
        ]
        assert event["id"].startswith("sevt_")
        assert event["id"].endswith(f"{number:010x}"), "the position follows from the id"
        assert (event["offset"], event["actor"]) == (at(number), "local")
        assert event["processed_at"] == event["created_at"]
    assert len({event["id"] for event in events}) == len(types)


async def test_one_event_is_found_by_its_id(api: httpx2.AsyncClient) -> None:
    await append(api, "s", {"type": "a"}, {"type": "b", "id": "mine é"}, {"type": "c"})
    for event in await read(api, "s"):
        found = await api.get(f"{EVENTS}/{event['id']}")
        assert (found.status_code, found.json()) == (200, event)
    await append(api, "t", {"type": "a"})
    (foreign,) = await read(api, "t")
    for name in ("nothing", foreign["id"], foreign["id"][:-1] + "9", "sevt_", "%00"):
        assert (await api.get(f"{EVENTS}/{name}")).status_code == 404


async def test_the_three_shapes_of_a_body(api: httpx2.AsyncClient) -> None:
    one = {"type": "x", "events": [1]}
    for body in (one, [one], {"events": [one]}):
        answer = await api.post(EVENTS, json=body)
        assert (answer.status_code, answer.content) == (204, b"")
    events = await read(api, "s")
    assert [(event["type"], event["events"]) for event in events] == [("x", [1])] * 3


async def test_the_answer_is_204_or_the_events_as_stored(api: httpx2.AsyncClient) -> None:
    short = await api.post(EVENTS, json=notes(range(2)))
    assert (short.status_code, short.headers["stream-next-offset"]) == (204, at(2))
    full = await api.post(EVENTS, json=notes(range(2, 4)), headers=FULL)
    assert (full.status_code, full.headers["stream-next-offset"]) == (200, at(4))
    stored = await api.get(EVENTS, params={"from": 2})
    assert full.json()["data"] == stored.json()["data"]
    assert full.content[8:-1] == stored.content[8 : 8 + len(full.content) - 9]


# Ids of clients --------------------------------------------------------------------------


async def test_an_id_of_the_client_makes_an_append_repeatable(
    server: LocalServer, api: httpx2.AsyncClient
) -> None:
    first = await api.post(EVENTS, json={"type": "a", "id": "mine", "n": 1}, headers=FULL)
    for restart in (False, True):
        if restart:
            await server.restart()
        again = await api.post(EVENTS, json={"type": "other", "id": "mine", "n": 2}, headers=FULL)
        assert (again.status_code, again.json()) == (200, first.json())
        assert again.headers["stream-next-offset"] == at(1)
    assert first.json()["data"][0]["id"] == "mine"
    batch = [{"type": "b"}, {"type": "c", "id": "mine"}, {"type": "d", "id": "x"}, {"type": "e", "id": "x"}]
    answer = await api.post(EVENTS, json=batch, headers=FULL)
    assert [event["type"] for event in answer.json()["data"]] == ["b", "a", "d", "d"]
    assert [event["type"] for event in await read(api, "s")] == ["a", "b", "d"]


async def test_an_exported_event_can_be_appended_again_anywhere(api: httpx2.AsyncClient) -> None:
    await append(api, "a", *notes(range(3)))
    exported = await read(api, "a")
    for session in ("a", "b"):
        for _ in range(2):
            assert await append(api, session, *exported) == 3
    copied = await read(api, "b")
    assert [event["id"] for event in copied] == [event["id"] for event in exported]
    assert [event["original_created_at"] for event in copied] == [event["created_at"] for event in exported]
    assert (await api.get(f"/sessions/b/events/{exported[1]['id']}")).json() == copied[1]


async def test_a_copy_of_a_copy_tells_when_it_first_happened(api: httpx2.AsyncClient) -> None:
    first = "2025-03-01T12:00:00.000Z"
    await append(api, "a", {"type": "note", "id": "n", "created_at": first, "actor": "ann"})
    for source, target in (("a", "b"), ("b", "c")):
        lines = (
            await api.get(f"/sessions/{source}/events", headers={"Accept": "application/x-ndjson"})
        ).content
        answer = await api.post(f"/sessions/{target}/events", content=lines)
        assert answer.status_code == 204
        stored = (await api.get(f"/sessions/{target}/events")).content
        for name in (b"created_at", b"actor", b"offset"):
            assert stored.count(b'"original_%b"' % name) == 1
        # When a server stored a copy says nothing of the original.
        assert b'"original_processed_at"' not in stored
        (event,) = await read(api, target)
        assert (event["original_created_at"], event["original_actor"]) == (first, "ann")


async def test_a_fork_knows_the_ids_that_it_inherits(api: httpx2.AsyncClient) -> None:
    await append(api, "a", {"type": "x", "id": "mine"}, {"type": "y"}, {"type": "z", "id": "later"})
    first, second, third = await read(api, "a")
    await api.put(
        "/sessions/b", headers={"Stream-Forked-From": "/v1/sessions/a", "Stream-Fork-Offset": at(2)}
    )
    assert await append(api, "b", first, second) == 2, "they are there already"
    assert await append(api, "b", third) == 3, "this one is not inherited"
    assert [event["id"] for event in await read(api, "b")] == ["mine", second["id"], "later"]


async def test_ids_that_only_the_server_gives_are_refused(api: httpx2.AsyncClient) -> None:
    await append(api, "s", {"type": "a"})
    (event,) = await read(api, "s")
    future = event["id"][:-1] + "7"
    answer = await api.post(EVENTS, json=[{"type": "b"}, {"type": "c", "id": future}])
    assert (answer.status_code, answer.json()["error"]["details"]["index"]) == (400, 1)
    assert len(await read(api, "s")) == 1


# Idempotency-Key ---------------------------------------------------------------------------


async def test_the_same_key_and_body_are_carried_out_once(
    server: LocalServer, api: httpx2.AsyncClient
) -> None:
    await append(api, "s", {"type": "before", "id": "known"})
    body = [{"type": "b", "id": "known"}, {"type": "c"}, {"type": "d", "id": "mine"}]
    headers = {**FULL, "Idempotency-Key": "k 1"}
    first = await api.post(EVENTS, json=body, headers=headers)
    assert (first.status_code, first.headers["stream-next-offset"]) == (200, at(3))
    assert "idempotent-replayed" not in first.headers
    await append(api, "s", {"type": "between"})
    for step in ("now", "restart", "flushed", "without catalog"):
        if step == "flushed":
            while await server.node.engine.partition.flush():
                pass
        if step == "restart":
            await server.restart()
        if step == "without catalog":
            await server.stop()
            (server.data / "catalog.sqlite").unlink()
            await server.start()
        again = await api.post(EVENTS, json=body, headers=headers)
        assert again.json() == first.json(), step
        assert again.headers["stream-next-offset"] == at(3)
        assert again.headers["idempotent-replayed"] == "true"
        other = await api.post(EVENTS, json=[{"type": "x"}], headers=headers)
        assert (other.status_code, other.headers["x-should-retry"]) == (409, "false")
    assert len(await read(api, "s")) == 4
    assert (await api.post("/sessions/t/events", json=body, headers=headers)).status_code == 200


async def test_a_key_repeats_what_closed_the_session(api: httpx2.AsyncClient) -> None:
    headers = {"Idempotency-Key": "k", "Stream-Closed": "true"}
    for replayed in (False, True):
        answer = await api.post(EVENTS, json={"type": "last"}, headers=headers)
        assert (answer.status_code, answer.headers["stream-closed"]) == (204, "true")
        assert ("idempotent-replayed" in answer.headers) == replayed


async def test_keys_that_cannot_be_used(api: httpx2.AsyncClient) -> None:
    for key in ("", "k" * 257):
        answer = await api.post(EVENTS, json={"type": "a"}, headers={"Idempotency-Key": key})
        assert answer.status_code == 400


# Producers ----------------------------------------------------------------------------------


async def test_a_producer_appends_exactly_once_and_is_fenced(
    server: LocalServer, api: httpx2.AsyncClient
) -> None:
    gap = await api.post(EVENTS, json={"type": "a"}, headers=producer(0, 1))
    assert (gap.status_code, gap.headers["producer-expected-seq"]) == (409, "0")
    assert (await api.get(EVENTS)).status_code == 404, "a refused append creates nothing"
    for seq in range(3):
        answer = await api.post(EVENTS, json={"type": "a", "n": seq}, headers=producer(0, seq))
        assert (answer.status_code, answer.headers["producer-seq"]) == (204, str(seq))
    await server.restart()
    again = await api.post(EVENTS, json={"type": "a", "n": 9}, headers={**producer(0, 2), **FULL})
    assert (again.status_code, again.headers["stream-next-offset"]) == (204, at(3))
    assert (await api.post(EVENTS, json={"type": "b"}, headers=producer(1, 0))).status_code == 204
    fenced = await api.post(EVENTS, json={"type": "a"}, headers=producer(0, 3))
    assert (fenced.status_code, fenced.headers["producer-epoch"]) == (403, "1")
    assert (await api.post(EVENTS, json={"type": "a"}, headers={"Producer-Id": "p"})).status_code == 400
    assert [event["type"] for event in await read(api, "s")] == ["a", "a", "a", "b"]


async def test_a_producer_counts_on_when_all_its_events_were_known(api: httpx2.AsyncClient) -> None:
    await append(api, "s", {"type": "a", "id": "mine"})
    assert (
        await api.post(EVENTS, json={"type": "a", "id": "mine"}, headers=producer(0, 0))
    ).status_code == 204
    assert (await api.post(EVENTS, json={"type": "b"}, headers=producer(0, 1))).status_code == 204
    assert len(await read(api, "s")) == 2


# Conditions -----------------------------------------------------------------------------------


async def test_if_match_appends_only_at_the_expected_end(api: httpx2.AsyncClient) -> None:
    first = await api.post(EVENTS, json={"type": "a"}, headers={"If-Match": f'"{START}"'})
    assert first.status_code == 204
    late = await api.post(EVENTS, json={"type": "b"}, headers={"If-Match": f'"{START}"'})
    assert (late.status_code, late.headers["stream-next-offset"]) == (412, at(1))
    assert at(1) in late.json()["error"]["message"]
    assert late.headers["x-should-retry"] == "false"
    tail = first.headers["stream-next-offset"]
    assert (await api.post(EVENTS, json={"type": "c"}, headers={"If-Match": f'"{tail}"'})).status_code == 204
    assert (await api.post(EVENTS, json={"type": "d"}, headers={"If-Match": "*"})).status_code == 204
    assert (await api.post(EVENTS, json={"type": "e"}, headers={"If-Match": tail})).status_code == 400
    assert [event["type"] for event in await read(api, "s")] == ["a", "c", "d"]


async def test_of_two_who_go_on_from_the_same_end_one_wins(api: httpx2.AsyncClient) -> None:
    await append(api, "s", {"type": "a"})

    async def attempt(number: int) -> int:
        answer = await api.post(EVENTS, json={"type": "b", "n": number}, headers={"If-Match": f'"{at(1)}"'})
        return answer.status_code

    statuses = await asyncio.gather(*[attempt(number) for number in range(8)])
    assert sorted(statuses) == [204] + [412] * 7


async def test_stream_seq_must_grow(api: httpx2.AsyncClient) -> None:
    assert (await api.post(EVENTS, json={"type": "a"}, headers={"Stream-Seq": "b"})).status_code == 204
    answer = await api.post(EVENTS, json={"type": "a"}, headers={"Stream-Seq": "a"})
    assert (answer.status_code, answer.headers["x-should-retry"]) == (409, "false")
    assert (await api.post(EVENTS, json={"type": "a"}, headers={"Stream-Seq": "c"})).status_code == 204


# Many at once ----------------------------------------------------------------------------------


async def test_concurrent_appends_are_whole_and_each_is_told_its_place(api: httpx2.AsyncClient) -> None:
    async def write(number: int) -> tuple[int, int]:
        events: list[dict[str, Any]] = [{"type": "w", "n": number * 10 + step} for step in range(5)]
        answer = await api.post(EVENTS, json=events)
        return number, position(answer.headers["stream-next-offset"])

    told = await asyncio.gather(*[write(number) for number in range(40)])
    stored = numbers(await read_all(api, "s", limit=37))
    assert len(stored) == 200
    for number, end in told:
        assert stored[end - 5 : end] == [number * 10 + step for step in range(5)]

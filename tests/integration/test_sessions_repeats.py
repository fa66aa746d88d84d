"""Ids that come again: what is told of them, on both faces and in both dialects; and what is confirmed."""

from typing import Any

import httpx2
import pytest

from durable_sessions.http.api.sessions.event_indexes import written
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.testing.server import LocalServer
from tests.support.sessions import append, at, code, read

pytestmark = pytest.mark.anyio

JSON = {"Content-Type": "application/json"}
THEIRS = {"anthropic-version": "2026-10-21"}
EVENTS = "/sessions/s/events"


def told(answer: httpx2.Response) -> tuple[str | None, str | None]:
    return answer.headers.get("events-repeated"), answer.headers.get("events-differ")


async def test_the_answer_tells_what_was_there_and_what_is_another(api: httpx2.AsyncClient) -> None:
    first = await api.post(EVENTS, json=[{"type": "a", "id": str(n), "n": n} for n in range(5)])
    assert (first.status_code, told(first)) == (204, (None, None))
    again = [{"type": "a", "id": str(n), "n": n} for n in (0, 1, 2)]
    again += [{"type": "b"}, {"type": "a", "id": "3", "n": 7}, {"type": "a", "id": "4", "n": 8}]
    answer = await api.post(EVENTS, json=again)
    assert (answer.status_code, told(answer)) == (204, ("0-2,4,5", "4,5"))
    assert answer.headers["stream-next-offset"] == at(6)
    shown = await api.post(EVENTS, json=again, headers={"Prefer": "return=representation"})
    assert (shown.status_code, told(shown)) == (200, ("0-2,4,5", "4,5"))
    assert [event.get("n") for event in shown.json()["data"]] == [0, 1, 2, None, 3, 4], "the first ones"
    events = [{"type": "agent.message", "id": "3", "content": []}]
    theirs = await api.post(EVENTS, json={"events": events}, headers=THEIRS)
    assert (theirs.status_code, told(theirs)) == (200, ("0", "0"))
    assert theirs.json()["data"][0]["type"] == "a"


async def test_what_is_told_is_bounded(api: httpx2.AsyncClient) -> None:
    await api.post(EVENTS, json=[{"type": "a", "id": str(n)} for n in range(0, 1_000, 2)])
    answer = await api.post(EVENTS, json=[{"type": "b", "id": str(n)} for n in range(1_000)])
    assert answer.headers["stream-next-offset"] == at(1_000)
    for header in told(answer):
        assert header is not None
        assert 1_000 < len(header) <= DEFAULT_LIMITS.event_indexes_bytes_max
        assert header.startswith("0,2,4,")
        assert header.endswith(",...")


async def test_within_one_request_and_at_creation_too(api: httpx2.AsyncClient) -> None:
    twice = [{"type": "a", "id": "x"}, {"type": "a", "id": "x"}, {"type": "b", "id": "x"}]
    assert told(await api.post(EVENTS, json=twice)) == ("1,2", "2")
    made = await api.put("/sessions/t", json={"initial_events": twice})
    assert (made.status_code, told(made)) == (201, ("1,2", "2"))
    assert len(await read(api, "t")) == 1


async def test_it_is_known_after_a_flush_a_restart_and_without_the_catalog(
    server: LocalServer, api: httpx2.AsyncClient
) -> None:
    await append(api, "s", {"type": "a", "id": "x", "n": 1}, {"type": "b"})
    await api.put("/sessions/f", headers={"Stream-Forked-From": "/v1/sessions/s"})
    given = (await read(api, "s"))[1]
    for step in ("now", "restart", "flushed", "without catalog"):
        if step == "flushed":
            while await server.node.engine.partition.flush():
                pass
        if step != "now":
            await server.stop()
            if step == "without catalog":
                (server.data / "catalog.sqlite").unlink()
            await server.start()
        same, other = {"type": "a", "id": "x", "n": 1}, {"type": "a", "id": "x", "n": 2}
        assert told(await api.post(EVENTS, json=same)) == ("0", None), step
        assert told(await api.post(EVENTS, json=other)) == ("0", "0"), step
        assert told(await api.post(EVENTS, json=given)) == ("0", None), step
        assert told(await api.post(EVENTS, json={**given, "n": 3})) == ("0", "0"), step
        strict = await api.post("/stream/sessions/s", json=[{**given, "n": 3}])
        assert (strict.status_code, strict.json()["error"]["code"]) == (409, "event_id_conflict"), step
        assert (await api.post("/stream/sessions/s", json=[given, same])).status_code == 204, step
        assert told(await api.post("/sessions/f/events", json=other)) == ("0", "0"), "what a fork inherits"


@pytest.mark.parametrize("end", ["close", "archive"])
async def test_a_repeat_is_harmless_after_the_end(api: httpx2.AsyncClient, end: str) -> None:
    events = [{"type": "a", "id": "x"}, {"type": "b", "id": "y"}]
    await api.post(EVENTS, json=events, headers={"Idempotency-Key": "k"})
    await api.post(f"/sessions/s/{end}")
    count = len(await read(api, "s"))
    for headers in (
        {},
        {"Producer-Id": "p", "Producer-Epoch": "0", "Producer-Seq": "0"},
        {"Idempotency-Key": "k"},
    ):
        answer = await api.post(EVENTS, json=events, headers=headers)
        assert (answer.status_code, told(answer)) == (204, ("0,1", None)), headers
        assert answer.headers["idempotent-replayed"] == "true"
    assert (await api.post("/stream/sessions/s", json=events)).status_code == 204
    for refused in (
        await api.post(EVENTS, json=[*events, {"type": "c"}]),
        await api.post(EVENTS, json=[{"type": "c", "id": "z"}]),
        await api.post("/stream/sessions/s", json=[{"type": "c", "id": "x"}]),
    ):
        assert refused.status_code == 409
    assert len(await read(api, "s")) == count


async def test_a_session_is_confirmed_only_as_it_was_made(api: httpx2.AsyncClient) -> None:
    body = {"title": "t", "metadata": {"a": 1}, "initial_events": [{"type": "a"}]}
    assert (await api.put("/sessions/s", json=body)).status_code == 201
    await api.post("/sessions/s", json={"metadata": {"b": 2}})
    assert (await api.put("/sessions/s", json=body)).status_code == 200, "somebody added a key"
    assert (await api.put("/sessions/s", json={"metadata": {"a": 1}})).status_code == 200
    for other in ({"metadata": {"a": 2}}, {"metadata": {"c": 1}}, {"initial_events": [{"type": "b"}]}):
        refused = await api.put("/sessions/s", json=other)
        assert (refused.status_code, code(refused)) == (409, "session_exists"), other
    assert [event["type"] for event in await read(api, "s")] == ["a", "session.updated"]
    strict = await api.put("/stream/sessions/s", json=[{"type": "b"}])
    assert (strict.status_code, strict.json()["error"]["code"]) == (409, "session_exists")
    assert (await api.put("/stream/sessions/s", json=[{"type": "a"}])).status_code == 200


@pytest.mark.parametrize(
    ("indexes", "bytes_max", "expected"),
    [
        ([0], 10, "0"),
        ([0, 1], 10, "0,1"),
        ([0, 1, 2, 4, 5], 20, "0-2,4,5"),
        (list(range(1000)), 10, "0-999"),
        ([1, 3, 5, 7], 7, "1,3,5,7"),
        ([1, 3, 5, 7], 6, "1,..."),
        ([1, 3, 5, 7, 9], 7, "1,3,..."),
        ([1000], 3, "..."),
    ],
)
def test_indexes_are_written_within_a_bound(indexes: list[int], bytes_max: int, expected: str) -> None:
    assert written(indexes, bytes_max) == expected
    assert len(expected) <= bytes_max


@pytest.mark.parametrize(
    ("headers", "problem"),
    [
        ({"Stream-TTL": "0"}, "at least 1"),
        ({"Stream-Expires-At": "2001-01-01T00:00:00Z"}, "2001-01-01T00:00:00.000Z is past"),
    ],
)
async def test_a_session_that_would_be_gone_at_once_says_so(
    api: httpx2.AsyncClient, headers: dict[str, str], problem: str
) -> None:
    refused = await api.put("/sessions/s", headers=headers)
    assert (refused.status_code, code(refused)) == (400, "invalid_header")
    assert problem in refused.json()["error"]["message"]
    assert (await api.put("/stream/sessions/s", headers={**JSON, **headers})).status_code == 400


@pytest.mark.parametrize(
    "budget",
    [
        5,
        {},
        {"max": 1},
        {"tokens": 0},
        {"tokens": "5"},
        {"tokens": True},
        {"usd": -1},
        {"usd": 1e300},
        {"type": "limit"},
        {"type": "limit", "max_list_cost": 5},
        {"type": "limit", "max_list_cost": {"amount": 5, "currency": "USD"}},
        {"type": "limit", "max_list_cost": {"amount": "5.0", "currency": "USD"}},
        {"type": "limit", "max_list_cost": {"amount": "0", "currency": "USD"}},
        {"type": "limit", "max_list_cost": {"amount": "5", "currency": "EUR"}},
        {"type": "other", "max_list_cost": {"amount": "5", "currency": "USD"}},
    ],
)
async def test_a_budget_that_nobody_could_keep_is_refused(api: httpx2.AsyncClient, budget: Any) -> None:
    refused = await api.put("/sessions/s", json={"budget": budget})
    assert (refused.status_code, code(refused)) == (400, "invalid_session")
    assert "budget" in refused.json()["error"]["message"]
    assert (await api.get("/sessions/s")).status_code == 404
    await api.put("/sessions/t")
    assert (await api.post("/sessions/t", json={"budget": budget})).status_code == 400


@pytest.mark.parametrize("number", ["1e999999", "1" * 5_000])
async def test_a_budget_beyond_all_numbers_is_refused(api: httpx2.AsyncClient, number: str) -> None:
    body = b'{"budget":{"tokens":%b}}' % number.encode()
    assert (await api.put("/sessions/s", content=body)).status_code == 400


async def test_a_native_limit_on_cost_is_shown_as_theirs(api: httpx2.AsyncClient) -> None:
    made = await api.put("/sessions/s", json={"budget": {"usd": 0.5}})
    shown = {"type": "limit", "max_list_cost": {"amount": "50", "currency": "USD"}}
    assert (made.status_code, made.json()["budget"]) == (201, shown)


@pytest.mark.parametrize(
    "budget",
    [
        None,
        {
            "tokens": 5,
            "seconds": 9,
            "tool_calls": 1,
            "consecutive_errors": 2,
            "repeated_calls": 3,
        },
        {"type": "limit", "max_list_cost": {"amount": "2500", "currency": "USD"}},
    ],
)
async def test_budgets_are_kept(api: httpx2.AsyncClient, budget: Any) -> None:
    made = await api.put("/sessions/s", json={"budget": budget})
    assert (made.status_code, made.json()["budget"]) == (201, budget)


@pytest.mark.parametrize("kind", ["agents", "environments"])
async def test_an_archived_agent_or_environment_begins_nothing_in_their_dialect(
    api: httpx2.AsyncClient, kind: str
) -> None:
    made = (await api.post(f"/{kind}", json={"name": "n", "model": "m"}, headers=THEIRS)).json()
    body = {"agent": "agent_1", "environment_id": "env_1"}
    body |= {"agent": made["id"]} if kind == "agents" else {"environment_id": made["id"]}
    assert (await api.post("/sessions", json=body, headers=THEIRS)).status_code == 200
    await api.post(f"/{kind}/{made['id']}/archive")
    refused = await api.post("/sessions", json=body, headers=THEIRS)
    assert refused.status_code == 400
    assert "is archived" in refused.json()["error"]["message"]
    assert (await api.post("/sessions", json=body)).status_code == 201, "natively it is only a name"

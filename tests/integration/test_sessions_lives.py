"""Lives: a session that takes the id of one that was deleted is another, and everybody can tell."""

import asyncio

import httpx2
import pytest

from durable_sessions.testing.server import LocalServer
from tests.support.sessions import append, at, code, read

pytestmark = pytest.mark.anyio

THEIRS = {"anthropic-version": "2026-10-21"}
READS = [
    "",
    "/events",
    "/events?tail=1",
    "/events?order=desc",
    "/events?type=a",
    "/events?q=a",
    "/events?offset=-1&live=long-poll",
    "/events?offset=-1&live=sse",
    "/events/stream",
    "/stream",
    "/events/x",
    "/threads",
    "/resources",
]


async def life_of(api: httpx2.AsyncClient) -> str:
    answer = await api.get("/sessions/s")
    life: str = answer.json()["incarnation"]
    assert answer.headers["session-incarnation"] == life
    return life


async def replaced(api: httpx2.AsyncClient) -> tuple[str, str]:
    """Return the incarnations of a session that was deleted, and of the one that has its id now."""
    await append(api, "s", {"type": "a", "id": "x"}, {"type": "old"})
    old = await life_of(api)
    deleted = await api.delete("/sessions/s")
    assert deleted.headers["session-incarnation"] == old
    await append(api, "s", {"type": "a", "id": "x"})
    return old, await life_of(api)


@pytest.mark.parametrize("path", READS)
async def test_a_read_can_be_meant_for_one_life_only(api: httpx2.AsyncClient, path: str) -> None:
    old, new = await replaced(api)
    assert old != new
    joined = f"/sessions/s{path}{'&' if '?' in path else '?'}incarnation="
    for method in ("GET", "HEAD") if path in ("", "/events") else ("GET",):
        answer = await api.request(method, joined + old)
        assert (answer.status_code, answer.headers["session-incarnation"]) == (410, new)
        if method == "GET":
            assert code(answer) == "session_replaced"
            assert answer.json()["error"]["details"]["incarnation"] == new
        async with api.stream(method, joined + new) as answer:
            assert (answer.status_code, answer.headers["session-incarnation"]) == (200, new)
    assert (await api.get(joined + "nonsense")).status_code == 400
    await api.delete("/sessions/s")
    assert (await api.get(joined + new)).status_code == 404


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/events", {"type": "b"}),
        ("POST", "/events", {"type": "a", "id": "x"}),
        ("POST", "", {"title": "t"}),
        ("POST", "/close", None),
        ("POST", "/archive", None),
        ("POST", "/resources", {"type": "file", "file_id": "f"}),
        ("DELETE", "", None),
    ],
)
async def test_a_change_can_be_meant_for_one_life_only(
    api: httpx2.AsyncClient, method: str, path: str, body: dict[str, str] | None
) -> None:
    old, new = await replaced(api)
    for asked in (
        {"headers": {"If-Match": f'"{old}"'}},
        {"params": {"incarnation": old}},
        {"params": {"incarnation": old}, "headers": {"If-Match": f'"{at(1)}"'}},
    ):
        answer = await api.request(method, f"/sessions/s{path}", json=body, **asked)  # type: ignore[arg-type]
        assert (answer.status_code, code(answer)) == (412, "precondition_failed"), asked
        assert answer.headers["session-incarnation"] == new
        assert answer.json()["error"]["details"]["incarnation"] == new
    assert len(await read(api, "s")) == 1
    for wrong in (f'"{new}", "{old}"', f'"{at(1)}", "{new}"', "nonsense"):
        answer = await api.request(method, f"/sessions/s{path}", json=body, headers={"If-Match": wrong})
        assert answer.status_code == 400, wrong
    stale = await api.request(method, f"/sessions/s{path}", json=body, headers={"If-Match": f'"{at(7)}"'})
    assert (stale.status_code, stale.headers["session-incarnation"]) == (412, new)
    done = await api.request(method, f"/sessions/s{path}", json=body, headers={"If-Match": f'"{new}"'})
    assert (done.status_code // 100, done.headers["session-incarnation"]) == (2, new)


async def test_nobody_raises_the_dead(api: httpx2.AsyncClient) -> None:
    await append(api, "s", {"type": "a"})
    life = await life_of(api)
    await api.delete("/sessions/s")
    for if_match in (f'"{life}"', "*"):
        answer = await api.post("/sessions/s/events", json={"type": "b"}, headers={"If-Match": if_match})
        assert (answer.status_code, code(answer)) == (412, "precondition_failed")
        assert answer.json()["error"]["details"]["exists"] is False
    assert (await api.get("/sessions/s")).status_code == 404, "and it creates nothing"
    await append(api, "s", {"type": "a"})
    answer = await api.post("/sessions/s/events", json={"type": "b"}, headers={"If-Match": "*"})
    assert answer.status_code == 204


async def test_the_strict_face_tells_lives_too(api: httpx2.AsyncClient) -> None:
    old, new = await replaced(api)
    url = "/stream/sessions/s"
    assert (await api.get(url, params={"incarnation": old})).status_code == 410
    for answer in (
        await api.get(url),
        await api.get(url, params={"incarnation": new}),
        await api.head(url),
        await api.put(url, headers={"Content-Type": "application/json"}),
        await api.post(url, json=[{"type": "b"}], headers={"If-Match": f'"{new}"'}),
    ):
        assert (answer.status_code // 100, answer.headers["session-incarnation"]) == (2, new)
    refused = await api.post(url, json=[{"type": "b"}], headers={"If-Match": f'"{old}"'})
    assert refused.status_code == 412
    await api.put("/stream/plain", headers={"Content-Type": "application/json"})
    plain = await api.post("/stream/plain", json=[1], headers={"If-Match": f'"{new}"'})
    assert plain.status_code == 412, "only sessions have lives"


async def test_a_fork_can_be_meant_for_one_life_of_its_source(api: httpx2.AsyncClient) -> None:
    old, new = await replaced(api)
    source = {"Stream-Forked-From": f"/v1/sessions/s?incarnation={old}"}
    assert (await api.put("/sessions/f", headers=source)).status_code == 412
    assert (await api.get("/sessions/f")).status_code == 404
    source = {"Stream-Forked-From": f"/v1/sessions/s?incarnation={new}"}
    assert (await api.put("/sessions/f", headers=source)).status_code == 201


async def test_a_life_lasts_through_flush_restart_and_loss_of_the_catalog(
    server: LocalServer, api: httpx2.AsyncClient
) -> None:
    await append(api, "s", {"type": "a"})
    life = await life_of(api)
    while await server.node.engine.partition.flush():
        pass
    assert await life_of(api) == life
    await server.restart()
    assert await life_of(api) == life
    await server.stop()
    (server.data / "catalog.sqlite").unlink()
    await server.start()
    assert await life_of(api) == life
    listed = (await api.get("/sessions")).json()["data"]
    assert [one["incarnation"] for one in listed] == [life]


@pytest.mark.parametrize(
    "path", ["/events?offset=-1&live=sse", "/events/stream?offset=-1", "/events?offset=now&live=long-poll"]
)
async def test_those_who_follow_an_archived_session_come_to_an_end(
    api: httpx2.AsyncClient, path: str
) -> None:
    await append(api, "s", {"type": "a"})

    async def follow() -> tuple[httpx2.Response, str]:
        async with api.stream("GET", f"/sessions/s{path}", timeout=60) as answer:
            began.set()
            return answer, "".join([text async for text in answer.aiter_text()])

    began = asyncio.Event()
    following = asyncio.create_task(follow())
    if "long-poll" not in path:
        await asyncio.wait_for(began.wait(), 60)
    await api.post("/sessions/s/archive")
    answer, text = await asyncio.wait_for(following, 60)
    if "long-poll" in path and answer.status_code == 200:
        assert answer.headers["stream-closed"] == "true"
    assert "session.status_terminated" in text or answer.status_code == 204
    after = await asyncio.wait_for(api.get(f"/sessions/s{path}", timeout=60), 60)
    assert after.status_code in (200, 204), "and those who come later find it ended"
    assert (await api.head("/sessions/s/events")).headers["stream-closed"] == "true"
    session = (await api.get("/sessions/s")).json()
    assert (session["lifecycle"], session["status"]) == ("archived", "terminated")


async def test_a_closed_session_is_not_running(api: httpx2.AsyncClient) -> None:
    await append(api, "s", {"type": "session.status_running"})
    closed = (await api.post("/sessions/s/close")).json()
    assert (closed["status"], closed["lifecycle"]) == ("terminated", "closed")
    assert (await api.get("/sessions", params={"statuses[]": "running"})).json()["data"] == []


async def test_a_fork_shows_what_it_inherits(api: httpx2.AsyncClient) -> None:
    await api.put("/sessions/s", headers={"Stream-TTL": "3600"})
    await append(api, "s", {"type": "user.define_outcome", "description": "done"}, {"type": "a"})
    fork = (await api.put("/sessions/f", headers={"Stream-Forked-From": "/v1/sessions/s"})).json()
    source = (await api.get("/sessions/s")).json()
    assert fork["outcome_evaluations"] == source["outcome_evaluations"] != []
    assert (fork["ttl_seconds"], source["ttl_seconds"]) == (3600, 3600)
    until = {"Stream-Forked-From": "/v1/sessions/s", "Stream-Expires-At": "2100-01-01T00:00:00Z"}
    other = (await api.put("/sessions/g", headers=until)).json()
    assert (other["expires_at"], "ttl_seconds" in other) == ("2100-01-01T00:00:00.000Z", False)

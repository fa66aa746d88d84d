"""Two workspaces on one server: what one has, the other can neither reach nor learn of."""

import hashlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from durable_sessions.testing.server import LocalServer, local_server
from tests.support.keys import BOOTSTRAP, bearer, make_secret
from tests.support.receiver import Receiver, answer
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.anyio

TEXT = {"Content-Type": "text/plain"}
JSON = {"Content-Type": "application/json"}
SUBS = "/v1/stream/__ds/subscriptions"
ARTIFACT = b"payload of ours"
DIGEST = hashlib.sha256(ARTIFACT).hexdigest()


def at(position: int) -> str:
    return f"0000000000000000_{position:016d}"


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[LocalServer]:
    async with local_server(
        tmp_path / "data", api_key=BOOTSTRAP, long_poll_seconds=0.2, webhook_private_addresses=True
    ) as running:
        yield running


@pytest.fixture
async def ours(server: LocalServer) -> AsyncIterator[httpx2.AsyncClient]:
    headers = bearer(await make_secret(server.url, "admin", "ours"))
    async with httpx2.AsyncClient(base_url=server.url, headers=headers, timeout=PATIENCE_SECONDS) as client:
        yield client


@pytest.fixture
async def theirs(server: LocalServer) -> AsyncIterator[httpx2.AsyncClient]:
    headers = bearer(await make_secret(server.url, "admin", "theirs"))
    async with httpx2.AsyncClient(base_url=server.url, headers=headers, timeout=PATIENCE_SECONDS) as client:
        yield client


async def furnish(client: httpx2.AsyncClient) -> None:
    """Make one of everything."""
    assert (await client.put("/v1/stream/s", headers=TEXT, content="ours alone")).status_code == 201
    assert (await client.put("/v1/stream/deep/er", headers=JSON, content="[1,2]")).status_code == 201
    fork = {"Stream-Forked-From": "/v1/stream/s"}
    assert (await client.put("/v1/stream/fork", headers=fork)).status_code == 201
    assert (await client.put("/v1/stream/wakes", headers=JSON)).status_code == 201
    body = {"type": "pull-wake", "pattern": "**", "streams": ["s"], "wake_stream": "wakes"}
    assert (await client.put(f"{SUBS}/sub", json=body)).status_code == 201
    stored = await client.put(f"/v1/artifacts/{DIGEST}", content=ARTIFACT, headers=TEXT)
    assert stored.status_code == 201
    event = {"type": "user.message", "id": "sevt_ours", "content": [{"type": "text", "text": "ours alone"}]}
    assert (await client.put("/v1/sessions/chat", json={"title": "ours"})).status_code == 201
    assert (await client.post("/v1/sessions/chat/events", json=event)).status_code == 204


FORK = {"Stream-Forked-From": "/v1/stream/s"}
HOLD = {"wake_id": "w", "generation": 1}
MISSING = [
    ("GET", "/v1/stream/s", {}, None, 404),
    ("GET", "/v1/stream/s?offset=now", {}, None, 404),
    ("GET", "/v1/stream/s?offset=-1&live=long-poll", {}, None, 404),
    ("GET", "/v1/stream/s?offset=-1&live=sse", {}, None, 404),
    ("GET", "/v1/stream/deep/er", {}, None, 404),
    ("GET", "/v1/stream/%73", {}, None, 404),
    ("GET", "/v1/stream/fork", {}, None, 404),
    ("HEAD", "/v1/stream/s", {}, None, 404),
    ("POST", "/v1/stream/s", TEXT, b"x", 404),
    ("POST", "/v1/stream/s", {"Stream-Closed": "true"}, None, 404),
    ("DELETE", "/v1/stream/s", {}, None, 404),
    ("PUT", "/v1/stream/mine", FORK, None, 404),
    ("PUT", "/v1/stream/mine", {**FORK, "Stream-Fork-Offset": at(2)}, None, 404),
    (
        "PUT",
        "/v1/stream/mine",
        {**FORK, "Stream-Fork-Offset": at(0), "Stream-Fork-Sub-Offset": "3"},
        None,
        404,
    ),
    ("GET", f"{SUBS}/sub", {}, None, 404),
    ("HEAD", f"{SUBS}/sub", {}, None, 404),
    ("POST", f"{SUBS}/sub/streams", JSON, b'{"streams":["x"]}', 404),
    ("DELETE", f"{SUBS}/sub/streams/s", {}, None, 404),
    ("POST", f"{SUBS}/sub/claim", JSON, b'{"worker":"w"}', 404),
    ("GET", f"/v1/artifacts/{DIGEST}", {}, None, 404),
    ("HEAD", f"/v1/artifacts/{DIGEST}", {}, None, 404),
    ("GET", f"/v1/artifacts/{DIGEST}", {"If-None-Match": f'"{DIGEST}"'}, None, 404),
    ("GET", f"/v1/artifacts/{DIGEST}", {"If-None-Match": "*"}, None, 404),
    ("GET", f"/v1/artifacts/{DIGEST}", {"Range": "bytes=0-1"}, None, 404),
    ("GET", "/v1/stream/sessions/chat", {}, None, 404),
    ("PUT", "/v1/stream/mine", {"Stream-Forked-From": "/v1/stream/sessions/chat"}, None, 404),
    ("GET", "/v1/sessions/chat", {}, None, 404),
    ("POST", "/v1/sessions/chat", JSON, b'{"title":"mine"}', 404),
    ("DELETE", "/v1/sessions/chat", {}, None, 404),
    ("POST", "/v1/sessions/chat/archive", {}, None, 404),
    ("POST", "/v1/sessions/chat/close", {}, None, 404),
    ("GET", "/v1/sessions/chat/events", {}, None, 404),
    ("HEAD", "/v1/sessions/chat/events", {}, None, 404),
    ("GET", "/v1/sessions/chat/events/sevt_ours", {}, None, 404),
    ("GET", "/v1/sessions/chat/events/stream", {}, None, 404),
    ("GET", "/v1/sessions/chat/stream", {}, None, 404),
    ("GET", "/v1/sessions/chat/resources", {}, None, 404),
    ("GET", "/v1/sessions/chat/threads", {}, None, 404),
    ("PUT", "/v1/sessions/mine", {"Stream-Forked-From": "/v1/sessions/chat"}, None, 404),
    ("GET", "/v1/sessions", {}, None, 200),
    ("GET", "/v1/agents", {}, None, 200),
    ("GET", "/v1/environments", {}, None, 200),
]


async def test_another_workspace_has_nothing_of_it_on_any_path(
    ours: httpx2.AsyncClient, theirs: httpx2.AsyncClient
) -> None:
    async def ask_all() -> list[tuple[int, bytes]]:
        found = []
        for method, path, headers, body, status in MISSING:
            got = await theirs.request(method, path, headers=headers, content=body)
            assert got.status_code == status, (method, path, got.text)
            # Only the name of the request differs from one answer to the next.
            found.append((got.status_code, got.content.replace(got.headers["request-id"].encode(), b"")))
        return found

    before = await ask_all()
    await furnish(ours)
    assert await ask_all() == before, "not a byte tells that there is something now"
    assert (await ours.get("/v1/stream/s")).text == "ours alone"
    assert (await ours.get(f"/v1/artifacts/{DIGEST}")).content == ARTIFACT
    assert (await theirs.delete(f"{SUBS}/sub")).status_code == 204, "as for any that is missing"
    assert (await ours.get(f"{SUBS}/sub")).status_code == 200


async def test_every_name_is_free_in_another_workspace(
    ours: httpx2.AsyncClient, theirs: httpx2.AsyncClient
) -> None:
    await furnish(ours)
    await furnish(theirs)
    await theirs.post("/v1/stream/s", headers=TEXT, content=" but theirs")
    assert (await ours.get("/v1/stream/s")).text == "ours alone"
    await theirs.delete("/v1/stream/deep/er")
    assert (await ours.get("/v1/stream/deep/er")).json() == [1, 2]


async def test_no_workspace_reaches_the_servers_own_streams(
    server: LocalServer, ours: httpx2.AsyncClient
) -> None:
    async with httpx2.AsyncClient(base_url=server.url, headers=bearer(BOOTSTRAP)) as operator:
        for client in (ours, operator):
            keys = (await client.get("/v1/keys")).json()["data"]
            for path in ("audit/default", "audit/ours", f"keys/{keys[0]['id']}"):
                assert (await client.get(f"/v1/stream/{path}")).status_code == 404
                fork = {"Stream-Forked-From": f"/v1/stream/{path}"}
                assert (await client.put("/v1/stream/copy", headers=fork)).status_code == 404


async def test_patterns_see_their_own_workspace_only(
    ours: httpx2.AsyncClient, theirs: httpx2.AsyncClient
) -> None:
    await furnish(ours)
    await theirs.put("/v1/stream/other", headers=TEXT)
    await theirs.put("/v1/stream/wakes", headers=JSON)
    body = {"type": "pull-wake", "pattern": "**", "streams": ["s"], "wake_stream": "wakes"}
    await theirs.put(f"{SUBS}/sub", json=body)
    await ours.post("/v1/stream/s", headers=TEXT, content="more")
    await ours.put("/v1/stream/late", headers=TEXT, content="late")
    shown = (await theirs.get(f"{SUBS}/sub")).json()
    assert {stream["path"] for stream in shown["streams"]} == {"other", "s"}, "s: named, but not theirs"
    claimed = await theirs.post(f"{SUBS}/sub/claim", json={"worker": "w"})
    assert (claimed.status_code, claimed.json()["error"]["code"]) == (409, "NO_PENDING_WORK")
    assert (await theirs.get("/v1/stream/wakes")).json() == []


async def test_a_workers_token_works_in_its_own_workspace_only(
    server: LocalServer, ours: httpx2.AsyncClient, theirs: httpx2.AsyncClient
) -> None:
    await furnish(ours)
    await furnish(theirs)
    await ours.post("/v1/stream/s", headers=TEXT, content="more")
    claim = (await ours.post(f"{SUBS}/sub/claim", json={"worker": "w"})).json()
    token = bearer(claim["token"])
    hold = {"wake_id": claim["wake_id"], "generation": claim["generation"]}
    their_key = theirs.headers["authorization"].removeprefix("Bearer ")
    our_key = ours.headers["authorization"].removeprefix("Bearer ")
    async with httpx2.AsyncClient(base_url=server.url) as worker:
        for action in ("ack", "release"):
            path = f"{SUBS}/sub/{action}"
            for headers in (
                {},
                bearer(our_key),
                {**token, "x-api-key": their_key},
                bearer(claim["token"] + "x"),
            ):
                assert (await worker.post(path, json=hold, headers=headers)).status_code == 401
            moved = claim["token"].split(".")
            moved[0] = "dGhlaXJz"  # theirs
            assert (await worker.post(path, json=hold, headers=bearer(".".join(moved)))).status_code == 401
        stray = {**token, "x-api-key": "no key"}
        assert (await worker.post(f"{SUBS}/sub/ack", json=hold, headers=stray)).status_code == 401
        with_key = {**token, "x-api-key": our_key}
        assert (await worker.post(f"{SUBS}/sub/ack", json=hold, headers=with_key)).status_code == 200
        assert (await worker.post(f"{SUBS}/sub/ack", json=hold, headers=token)).status_code == 200
        assert (await worker.post(f"{SUBS}/sub/release", json=hold, headers=token)).status_code == 204


async def test_a_webhook_is_called_back_without_a_key_into_its_own_workspace(
    server: LocalServer, ours: httpx2.AsyncClient, theirs: httpx2.AsyncClient
) -> None:
    async with Receiver(respond=lambda _: answer()) as receiver:
        for client in (ours, theirs):
            await client.put("/v1/stream/events/a", headers=TEXT)
            body = {"type": "webhook", "pattern": "events/*", "webhook": {"url": receiver.url}}
            assert (await client.put(f"{SUBS}/hook", json=body)).status_code == 201
        await ours.post("/v1/stream/events/a", headers=TEXT, content="x")
        wake: dict[str, Any] = (await receiver.wait(1)).json()
        acks = [{"stream": "events/a", "offset": at(1)}]
        done_body: dict[str, Any] = {"wake_id": wake["wake_id"], "generation": wake["generation"]}
        done_body |= {"acks": acks, "done": True}
        async with httpx2.AsyncClient() as anyone:
            strange = await anyone.post(wake["callback_url"], json=done_body, headers=bearer("x.1.2.y"))
            assert (strange.status_code, strange.json()["error"]["code"]) == (401, "TOKEN_INVALID")
            done = await anyone.post(
                wake["callback_url"], json=done_body, headers=bearer(wake["callback_token"])
            )
            assert done.json() == {"ok": True, "next_wake": False}
        acked = [
            (await client.get(f"{SUBS}/hook")).json()["streams"][0]["acked_offset"]
            for client in (ours, theirs)
        ]
        assert acked[0] == at(1)
        assert acked[1] != at(1)
        assert len(receiver.received) == 1


async def test_metrics_name_nothing(server: LocalServer, ours: httpx2.AsyncClient) -> None:
    await furnish(ours)
    async with httpx2.AsyncClient(base_url=server.url, headers=bearer(BOOTSTRAP)) as operator:
        shown = (await operator.get("/metrics")).text
    for name in ("ours", "deep/er", "wakes", DIGEST, 'sub"', "key_"):
        assert name not in shown


async def test_health_says_why_only_to_those_who_belong_to_the_house(
    server: LocalServer, ours: httpx2.AsyncClient
) -> None:
    server.node.app.operations.draining = True
    async with httpx2.AsyncClient(base_url=server.url) as anyone:
        for client, headers, knows in (
            (anyone, {}, False),
            (ours, {}, False),
            (anyone, bearer(BOOTSTRAP), True),
        ):
            health = await client.get("/readyz", headers=headers)
            assert (health.status_code, "reason" in health.json()) == (503, knows)

"""Subscriptions over real sockets: webhooks to a real receiver, workers that claim, restarts."""

import asyncio
import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from durable_sessions.testing.server import LocalServer
from tests.support.process import ServerProcess
from tests.support.receiver import DONE, Received, Receiver, answer
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.anyio

JSON = {"Content-Type": "application/json"}
SUB = "/__ds/subscriptions/sub"


def at(position: int) -> str:
    return f"0000000000000000_{position:016d}"


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with Receiver() as running:
        yield running


async def put(client: httpx2.AsyncClient, body: dict[str, Any], path: str = SUB) -> httpx2.Response:
    return await client.put(path, json=body)


def webhook(receiver: Receiver, **more: Any) -> dict[str, Any]:
    return {"type": "webhook", "pattern": "events/*", "webhook": {"url": receiver.url}, **more}


def pull(**more: Any) -> dict[str, Any]:
    return {"type": "pull-wake", "pattern": "events/*", "wake_stream": "wakes", **more}


async def post(client: httpx2.AsyncClient, action: str, token: str, body: dict[str, Any]) -> httpx2.Response:
    return await client.post(f"{SUB}/{action}", json=body, headers={"Authorization": f"Bearer {token}"})


async def callback(client: httpx2.AsyncClient, got: Received, **more: Any) -> httpx2.Response:
    wake = got.json()
    body = {"wake_id": wake["wake_id"], "generation": wake["generation"], **more}
    headers = {"Authorization": f"Bearer {wake['callback_token']}"}
    return await client.post(wake["callback_url"], json=body, headers=headers)


async def shown(client: httpx2.AsyncClient) -> dict[str, Any]:
    answered = await client.get(SUB)
    assert answered.status_code == 200
    found: dict[str, Any] = answered.json()
    return found


async def acked(client: httpx2.AsyncClient) -> dict[str, str]:
    return {stream["path"]: stream["acked_offset"] for stream in (await shown(client))["streams"]}


async def until(condition: Any, seconds: float = PATIENCE_SECONDS) -> None:
    async with asyncio.timeout(seconds):
        while not await condition():
            await asyncio.sleep(0.01)


def code(response: httpx2.Response) -> str:
    return str(response.json()["error"]["code"])


async def verify(client: httpx2.AsyncClient, got: Received) -> None:
    fields = dict(part.split("=", 1) for part in got.headers["webhook-signature"].split(","))
    jwks = await client.get("/__ds/jwks.json")
    assert jwks.headers["content-type"] == "application/jwk-set+json"
    assert jwks.headers["cache-control"] == "public, max-age=300"
    (key,) = [key for key in jwks.json()["keys"] if key["kid"] == fields["kid"]]
    public = Ed25519PublicKey.from_public_bytes(base64.urlsafe_b64decode(key["x"] + "="))
    public.verify(base64.urlsafe_b64decode(fields["ed25519"] + "=="), fields["t"].encode() + b"." + got.body)


# Webhooks ---------------------------------------------------------------------------------


async def test_a_webhook_from_creation_to_done(
    server: LocalServer, client: httpx2.AsyncClient, receiver: Receiver
) -> None:
    receiver.respond = lambda _: DONE
    await client.put("/events/old", headers=JSON, content="[1,2]")
    created = await put(client, webhook(receiver, lease_ttl_ms=1000, description="d"))
    assert created.status_code == 201
    body = created.json()
    assert body["created_at"].endswith("Z")
    assert body["webhook"]["signing"]["kid"].startswith("ds_")
    assert body["webhook"]["signing"]["jwks_url"] == server.url + "/v1/stream/__ds/jwks.json"
    del body["created_at"], body["webhook"]["signing"]
    assert body == {
        "id": "sub",
        "subscription_id": "sub",
        "type": "webhook",
        "pattern": "events/*",
        "streams": [{"path": "events/old", "link_type": "glob", "acked_offset": at(2)}],
        "webhook": {"url": receiver.url},
        "lease_ttl_ms": 1000,
        "status": "active",
        "description": "d",
    }
    assert (await put(client, webhook(receiver, lease_ttl_ms=1000, description="d"))).status_code == 200
    assert code(await put(client, webhook(receiver))) == "SUBSCRIPTION_ALREADY_EXISTS"

    await client.put("/events/new", headers=JSON, content="[1,2,3]")
    got = await receiver.wait(1)
    await verify(client, got)
    wake = got.json()
    assert wake["callback_url"] == server.url + "/v1/stream" + SUB + "/callback"
    streams = {stream["path"]: stream for stream in wake["streams"]}
    assert streams["events/new"] == {
        "path": "events/new",
        "link_type": "glob",
        "acked_offset": "-1",
        "tail_offset": at(3),
        "has_pending": True,
    }
    assert streams["events/old"]["has_pending"] is False

    async def caught_up() -> bool:
        return await acked(client) == {"events/old": at(2), "events/new": at(3)}

    await until(caught_up)
    await client.post("/events/old", headers=JSON, content="1")
    assert (await receiver.wait(2)).json()["generation"] == 2


async def test_callbacks_acknowledge_extend_and_are_fenced(
    client: httpx2.AsyncClient, receiver: Receiver
) -> None:
    await put(client, webhook(receiver, lease_ttl_ms=4000))
    await client.put("/events/a", headers=JSON, content="[1,2,3]")
    first = await receiver.wait(1)
    answered = await callback(client, first, acks=[{"stream": "events/a", "offset": at(1)}])
    assert (answered.status_code, answered.json()) == (200, {"ok": True, "next_wake": False})
    for _ in range(3):
        await asyncio.sleep(1.5)
        assert (await callback(client, first)).status_code == 200
    assert len(receiver.received) == 1, "the heartbeats have kept the lease"

    for acks, expected in (
        ([{"path": "events/a", "offset": at(4)}], "INVALID_OFFSET"),
        ([{"path": "events/a", "offset": at(0)}], "INVALID_OFFSET"),
        ([{"path": "events/a", "offset": "-1"}], "INVALID_OFFSET"),
        ([{"path": "events/x", "offset": at(0)}], "INVALID_OFFSET"),
    ):
        refused = await callback(client, first, acks=acks, done=True)
        assert (refused.status_code, code(refused)) == (409, expected)

    answered = await callback(client, first, acks=[{"path": "events/a", "offset": at(2)}], done=True)
    assert answered.json() == {"ok": True, "next_wake": True}
    second = await receiver.wait(2)
    assert second.json()["generation"] == 2
    stale = await callback(client, first, done=True)
    assert (stale.status_code, code(stale)) == (409, "FENCED")
    answered = await callback(client, second, acks=[{"path": "events/a", "offset": at(3)}], done=True)
    assert answered.json() == {"ok": True, "next_wake": False}


async def test_only_a_token_of_this_subscription_is_taken(
    client: httpx2.AsyncClient, receiver: Receiver
) -> None:
    await put(client, webhook(receiver))
    await put(client, webhook(receiver, pattern="x/*"), "/__ds/subscriptions/other")
    await client.put("/events/a", headers=JSON, content="1")
    wake = (await receiver.wait(1)).json()
    body = {"wake_id": wake["wake_id"], "generation": wake["generation"]}
    token = wake["callback_token"]
    missing = await client.post(f"{SUB}/callback", json=body)
    other = await client.post(
        "/__ds/subscriptions/other/callback", json=body, headers={"Authorization": f"Bearer {token}"}
    )
    for refused in (missing, other, await post(client, "callback", token + "x", body)):
        assert (refused.status_code, code(refused)) == (401, "TOKEN_INVALID")
    unknown = await client.post(
        "/__ds/subscriptions/unknown/callback", json=body, headers={"Authorization": f"Bearer {token}"}
    )
    assert (unknown.status_code, code(unknown)) == (404, "SUBSCRIPTION_NOT_FOUND")
    for action in ("claim", "ack", "release"):
        refused = await post(client, action, token, {**body, "worker": "w"})
        assert refused.status_code == 400


async def test_a_lease_that_runs_out_wakes_again(client: httpx2.AsyncClient, receiver: Receiver) -> None:
    await put(client, webhook(receiver, lease_ttl_ms=1000))
    await client.put("/events/a", headers=JSON, content="1")
    first = await receiver.wait(1)
    second = await receiver.wait(2)
    assert second.json()["generation"] == 2
    assert second.json()["wake_id"] != first.json()["wake_id"]
    assert code(await callback(client, first, done=True)) == "FENCED"


async def test_retries_go_on_after_a_restart(
    server: LocalServer, client: httpx2.AsyncClient, receiver: Receiver
) -> None:
    loop = asyncio.get_running_loop()
    arrived: list[float] = []

    def refuse_twice(_: Received) -> bytes:
        arrived.append(loop.time())
        return answer(503) if len(arrived) < 3 else DONE

    receiver.respond = refuse_twice
    await put(client, webhook(receiver, lease_ttl_ms=1000))
    await client.put("/events/a", headers=JSON, content="1")
    await receiver.wait(2)

    async def failed() -> bool:
        return bool((await shown(client))["status"] == "failed")

    await until(failed)
    await server.restart()
    assert await failed()
    await receiver.wait(3)
    assert 0.75 < arrived[1] - arrived[0] < 1.8
    assert 1.55 < arrived[2] - arrived[1] < 3.2, "neither at the restart nor from the start"
    assert len({got.json()["wake_id"] for got in receiver.received}) == 1

    async def recovered() -> bool:
        return await acked(client) == {"events/a": at(1)} and not await failed()

    await until(recovered)


async def test_keys_and_wakes_survive_a_restart(
    server: LocalServer, client: httpx2.AsyncClient, receiver: Receiver
) -> None:
    never = asyncio.get_running_loop().create_future()
    receiver.respond = lambda _: never
    await put(client, webhook(receiver))
    kid = (await shown(client))["webhook"]["signing"]["kid"]
    await client.put("/events/a", headers=JSON, content="1")
    first = await receiver.wait(1)
    receiver.respond = lambda _: answer()
    await server.restart()
    again = await receiver.wait(2)
    assert again.json()["wake_id"] == first.json()["wake_id"]
    await verify(client, again)
    await verify(client, first)
    assert (await shown(client))["webhook"]["signing"]["kid"] == kid
    await server.restart()
    answered = await callback(client, first, acks=[{"stream": "events/a", "offset": at(1)}], done=True)
    assert answered.json() == {"ok": True, "next_wake": False}
    await asyncio.sleep(0.1)
    assert len(receiver.received) == 2, "an accepted webhook is not sent again"
    never.cancel()


async def test_what_was_answered_survives_a_kill(tmp_path: Path, receiver: Receiver) -> None:
    never = asyncio.get_running_loop().create_future()
    receiver.respond = lambda _: never
    with ServerProcess(tmp_path / "data") as process:
        async with httpx2.AsyncClient(
            base_url=process.url + "/v1/stream", timeout=PATIENCE_SECONDS
        ) as client:
            await put(client, webhook(receiver))
            await put(client, pull(), "/__ds/subscriptions/pull")
            await client.put("/events/a", headers=JSON, content="[1,2]")
            first = await receiver.wait(1)
            claimed = await client.post("/__ds/subscriptions/pull/claim", json={"worker": "one"})
            assert claimed.status_code == 200
            acks = [{"stream": "events/a", "offset": at(1)}]
            assert (await callback(client, first, acks=acks)).status_code == 200
        process.kill()
        receiver.respond = lambda _: DONE
        await asyncio.to_thread(process.start)
        again = await receiver.wait(2)
        assert again.json()["wake_id"] == first.json()["wake_id"]
        assert again.json()["streams"][0]["acked_offset"] == at(1)
        async with httpx2.AsyncClient(
            base_url=process.url + "/v1/stream", timeout=PATIENCE_SECONDS
        ) as client:
            await verify(client, first)
            busy = await client.post("/__ds/subscriptions/pull/claim", json={"worker": "two"})
            assert code(busy) == "ALREADY_CLAIMED"

            async def caught_up() -> bool:
                return await acked(client) == {"events/a": at(2)}

            await until(caught_up)
    never.cancel()


async def test_a_deleted_subscription_is_gone(client: httpx2.AsyncClient, receiver: Receiver) -> None:
    await put(client, webhook(receiver, lease_ttl_ms=1000))
    await client.put("/events/a", headers=JSON, content="1")
    got = await receiver.wait(1)
    assert (await client.delete(SUB)).status_code == 204
    assert (await client.delete(SUB)).status_code == 204
    for gone in (await client.get(SUB), await callback(client, got, done=True)):
        assert (gone.status_code, code(gone)) == (404, "SUBSCRIPTION_NOT_FOUND")
    await client.post("/events/a", headers=JSON, content="1")
    await asyncio.sleep(1.2)
    assert len(receiver.received) == 1


async def test_a_deleted_stream_is_no_longer_watched(client: httpx2.AsyncClient, receiver: Receiver) -> None:
    receiver.respond = lambda _: DONE
    await client.put("/events/a", headers=JSON, content="[1,2,3]")
    await put(client, webhook(receiver))
    await client.delete("/events/a")
    assert await acked(client) == {}
    await client.put("/events/a", headers=JSON, content="1")
    stream = (await receiver.wait(1)).json()["streams"][0]
    assert (stream["acked_offset"], stream["tail_offset"]) == ("-1", at(1))


# Pull-wake --------------------------------------------------------------------------------


async def test_pull_wake_from_wake_to_release(client: httpx2.AsyncClient) -> None:
    await client.put("/wakes", headers=JSON, content="[]")
    assert (await put(client, pull())).status_code == 201
    none = await client.post(f"{SUB}/claim", json={"worker": "one"})
    assert (none.status_code, code(none)) == (409, "NO_PENDING_WORK")
    await client.put("/events/a", headers=JSON, content="[1,2]")

    async def woken() -> bool:
        return bool((await client.get("/wakes")).json())

    await until(woken)
    (event,) = (await client.get("/wakes")).json()
    assert isinstance(event.pop("ts"), int)
    assert event == {"type": "wake", "subscription_id": "sub", "stream": "events/a", "generation": 1}

    claim = (await client.post(f"{SUB}/claim", json={"worker": "one"})).json()
    assert set(claim) == {"wake_id", "generation", "token", "streams", "lease_ttl_ms"}
    assert claim["streams"][0]["tail_offset"] == at(2)
    busy = await client.post(f"{SUB}/claim", json={"worker": "two"})
    assert (busy.status_code, code(busy)) == (409, "ALREADY_CLAIMED")
    assert busy.json()["error"]["current_holder"] == "one"
    assert busy.json()["error"]["generation"] == 1

    hold = {"wake_id": claim["wake_id"], "generation": claim["generation"]}
    ack = {**hold, "acks": [{"stream": "events/a", "offset": at(1)}]}
    assert (await post(client, "ack", claim["token"], ack)).json() == {"ok": True, "next_wake": False}
    done = await post(client, "ack", claim["token"], {**ack, "done": True})
    assert done.json() == {"ok": True, "next_wake": True}
    assert code(await post(client, "ack", claim["token"], ack)) == "FENCED"

    claim = (await client.post(f"{SUB}/claim", json={"worker": "two"})).json()
    hold = {"wake_id": claim["wake_id"], "generation": claim["generation"]}
    assert (await post(client, "callback", claim["token"], hold)).status_code == 400
    assert (await post(client, "release", claim["token"], hold)).status_code == 204
    assert code(await post(client, "release", claim["token"], hold)) == "FENCED"

    async def generations() -> list[int]:
        return [event["generation"] for event in (await client.get("/wakes")).json()]

    # A wake stream of another partition gets its event soon after the answer.
    async with asyncio.timeout(PATIENCE_SECONDS):
        while len(await generations()) < 3:
            await asyncio.sleep(0.01)
    assert await generations() == [1, 2, 3]


async def test_a_claim_survives_a_restart_and_ends_with_its_lease(
    server: LocalServer, client: httpx2.AsyncClient
) -> None:
    await client.put("/wakes", headers={"Content-Type": "text/plain"})
    await put(client, pull(lease_ttl_ms=8000))
    await client.put("/events/a", headers=JSON, content="1")

    async def woken() -> bool:
        return (await client.get("/wakes")).text.count("\n") == 1

    await until(woken)
    claim = (await client.post(f"{SUB}/claim", json={"worker": "one"})).json()
    await server.restart()
    assert code(await client.post(f"{SUB}/claim", json={"worker": "two"})) == "ALREADY_CLAIMED"
    hold = {"wake_id": claim["wake_id"], "generation": claim["generation"]}
    assert (await post(client, "ack", claim["token"], hold)).status_code == 200

    async def woken_again() -> bool:
        return (await client.get("/wakes")).text.count("\n") == 2

    await until(woken_again)
    assert code(await post(client, "ack", claim["token"], hold)) == "FENCED"
    assert (await client.post(f"{SUB}/claim", json={"worker": "two"})).json()["generation"] == 2


async def test_a_wide_pattern_does_not_wake_itself(client: httpx2.AsyncClient) -> None:
    await client.put("/wakes", headers=JSON, content="[]")
    await put(client, pull(pattern="**"))
    await client.put("/a/b/c", headers=JSON, content="1")

    async def woken() -> bool:
        return len((await client.get("/wakes")).json()) == 1

    await until(woken)
    claim = (await client.post(f"{SUB}/claim", json={"worker": "one"})).json()
    assert [stream["path"] for stream in claim["streams"]] == ["a/b/c"]
    hold = {"wake_id": claim["wake_id"], "generation": claim["generation"]}
    ack = {**hold, "acks": [{"stream": "a/b/c", "offset": at(1)}], "done": True}
    assert (await post(client, "ack", claim["token"], ack)).json()["next_wake"] is False
    await asyncio.sleep(0.1)
    assert len((await client.get("/wakes")).json()) == 1


# Links and refusals -----------------------------------------------------------------------


async def test_streams_are_linked_and_unlinked_by_name(
    client: httpx2.AsyncClient, receiver: Receiver
) -> None:
    await client.put("/events/a", headers=JSON, content="1")
    await put(client, webhook(receiver, streams=["manual/a"]))
    added = await client.post(f"{SUB}/streams", json={"streams": ["/manual/b ü/", "events/a"]})
    assert added.status_code == 204
    assert [(s["path"], s["link_type"]) for s in (await shown(client))["streams"]] == [
        ("manual/a", "explicit"),
        ("events/a", "explicit"),
        ("manual/b ü", "explicit"),
    ]
    for path in ("manual/b ü", "events/a", "unknown"):
        assert (await client.delete(f"{SUB}/streams/{quote(path, safe='')}")).status_code == 204
    assert (await client.delete(f"{SUB}/streams/manual/a")).status_code == 204
    assert [(s["path"], s["link_type"]) for s in (await shown(client))["streams"]] == [("events/a", "glob")]
    for gone in (
        await client.post("/__ds/subscriptions/x/streams", json={"streams": []}),
        await client.delete("/__ds/subscriptions/x/streams/a"),
    ):
        assert (gone.status_code, code(gone)) == (404, "SUBSCRIPTION_NOT_FOUND")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"type": "push", "pattern": "a", "webhook": {"url": "https://example.com"}},
        {"type": "webhook", "webhook": {"url": "https://example.com"}},
        {"type": "webhook", "streams": [], "webhook": {"url": "https://example.com"}},
        {"type": "webhook", "pattern": "a"},
        {"type": "webhook", "pattern": "a", "webhook": {}},
        {"type": "webhook", "pattern": "a//b", "webhook": {"url": "https://example.com"}},
        {"type": "webhook", "pattern": "a" * 1025, "webhook": {"url": "https://example.com"}},
        {"type": "webhook", "streams": ["a/../b"], "webhook": {"url": "https://example.com"}},
        {"type": "webhook", "streams": ["__ds/jwks.json"], "webhook": {"url": "https://example.com"}},
        {"type": "webhook", "streams": [1], "webhook": {"url": "https://example.com"}},
        {"type": "webhook", "pattern": "a", "webhook": {"url": "https://example.com"}, "wake_stream": "w"},
        {"type": "webhook", "pattern": "a", "webhook": {"url": "https://example.com"}, "lease_ttl_ms": 999},
        {
            "type": "webhook",
            "pattern": "a",
            "webhook": {"url": "https://example.com"},
            "lease_ttl_ms": 600_001,
        },
        {
            "type": "webhook",
            "pattern": "a",
            "webhook": {"url": "https://example.com"},
            "lease_ttl_ms": 1000.5,
        },
        {
            "type": "webhook",
            "pattern": "a",
            "webhook": {"url": "https://example.com"},
            "description": "d" * 1025,
        },
        {"type": "pull-wake", "pattern": "a"},
        {"type": "pull-wake", "pattern": "a", "wake_stream": ""},
        {"type": "pull-wake", "streams": ["w"], "wake_stream": "w"},
        {"type": "pull-wake", "pattern": "a", "wake_stream": "w", "webhook": {"url": "https://example.com"}},
    ],
)
async def test_a_body_that_cannot_be_used_is_refused(
    client: httpx2.AsyncClient, body: dict[str, Any]
) -> None:
    refused = await put(client, body)
    assert refused.status_code == 400, refused.text
    assert refused.json()["error"]["message"]
    assert (await client.get(SUB)).status_code == 404


@pytest.mark.parametrize(
    "url", ["http://10.0.0.1/hook", "https://169.254.169.254/", "https://localhost/", "x"]
)
async def test_an_unsafe_webhook_url_is_refused(client: httpx2.AsyncClient, url: str) -> None:
    refused = await put(client, {"type": "webhook", "pattern": "a", "webhook": {"url": url}})
    assert (refused.status_code, code(refused)) == (400, "WEBHOOK_URL_REJECTED")


async def test_limits_at_their_edge(client: httpx2.AsyncClient, receiver: Receiver) -> None:
    for lease in (1_000, 600_000):
        created = await put(client, webhook(receiver, lease_ttl_ms=lease), f"/__ds/subscriptions/{lease}")
        assert (created.status_code, created.json()["lease_ttl_ms"]) == (201, lease)
    default = await put(client, webhook(receiver))
    assert default.json()["lease_ttl_ms"] == 30_000
    assert (await put(client, webhook(receiver), "/__ds/subscriptions/" + "i" * 1024)).status_code == 201
    assert (await put(client, webhook(receiver), "/__ds/subscriptions/" + "i" * 1025)).status_code == 400


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"wake_id":"w"}', b'{"wake_id":1,"generation":1}'])
async def test_an_ack_that_cannot_be_read_is_refused(
    client: httpx2.AsyncClient, receiver: Receiver, body: bytes
) -> None:
    await put(client, webhook(receiver))
    await client.put("/events/a", headers=JSON, content="1")
    wake = (await receiver.wait(1)).json()
    headers = {"Authorization": f"Bearer {wake['callback_token']}"}
    refused = await client.post(wake["callback_url"], content=body, headers=headers)
    assert refused.status_code == 400


async def test_routes_and_methods(client: httpx2.AsyncClient, receiver: Receiver) -> None:
    await put(client, webhook(receiver))
    for path in (
        "",
        "/",
        "/x",
        "/subscriptions",
        "/subscriptions/",
        f"{SUB[5:]}/",
        f"{SUB[5:]}/x",
        f"{SUB[5:]}/ack/x",
    ):
        assert (await client.get("/__ds" + path)).status_code == 404, path
    for path, allow in (
        ("/__ds/jwks.json", "GET, HEAD"),
        (SUB, "GET, HEAD, PUT, DELETE"),
        (f"{SUB}/streams", "POST"),
        (f"{SUB}/streams/a", "DELETE"),
        (f"{SUB}/claim", "POST"),
        (f"{SUB}/callback", "POST"),
    ):
        refused = await client.request("PATCH", path)
        assert (refused.status_code, refused.headers["allow"]) == (405, allow + ", OPTIONS")
        preflight = await client.options(path)
        assert preflight.status_code == 204
        assert preflight.headers["access-control-allow-methods"] == allow + ", OPTIONS"
        assert "authorization" in preflight.headers["access-control-allow-headers"]
    head = await client.head(SUB)
    assert (head.status_code, head.text) == (200, "")


async def test_urls_in_answers_are_those_the_client_uses(
    client: httpx2.AsyncClient, receiver: Receiver
) -> None:
    receiver.respond = lambda _: DONE
    created = await client.put(SUB, json=webhook(receiver), headers={"Host": "localhost:99"})
    jwks_url = "http://localhost:99/v1/stream/__ds/jwks.json"
    assert created.json()["webhook"]["signing"]["jwks_url"] == jwks_url
    await client.put("/events/a", headers=JSON, content="1")
    wake = (await receiver.wait(1)).json()
    assert wake["callback_url"] == "http://localhost:99/v1/stream/__ds/subscriptions/sub/callback"

"""The subscription API in bad hands: ids, bodies, tokens, patterns, and receivers that are traps."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest

from tests.hostile.arena import Arena
from tests.hostile.rounds import SEEDS
from tests.hostile.stranger import PATIENCE_SECONDS, Stranger, request

pytestmark = pytest.mark.anyio

ROOT = b"/v1/stream/__ds/subscriptions/"
SUBSCRIPTIONS_MAX = 40
STREAMS_MAX = 50
DELIVERIES_MAX = 4
REQUESTS = 600


@pytest.fixture(scope="module")
def limits() -> dict[str, float]:
    return {
        "subscriptions_max": SUBSCRIPTIONS_MAX,
        "subscription_streams_max": STREAMS_MAX,
        "webhook_seconds_max": 1.0,
        "webhook_deliveries_max": DELIVERIES_MAX,
        "webhook_retry_seconds_max": 1.0,
    }


def pull_wake(**changed: object) -> dict[str, object]:
    return {"type": "pull-wake", "wake_stream": "wakes", "pattern": "agents/*", **changed}


def webhook(url: str, **changed: object) -> dict[str, object]:
    return {"type": "webhook", "webhook": {"url": url}, "pattern": "agents/*", **changed}


def put(name: bytes, body: object) -> bytes:
    return request(b"PUT", ROOT + name, body=json.dumps(body).encode())


ODD: list[Any] = [
    *(None, True, 0, -1, 1.5, 10**30, -(10**30), "", "x", "\x00", "\ud800", "é" * 1024, "x" * 1025),
    *([], {}, [[]], ["a"] * 3, [None], [""], ["/"], ["a//b"], ["__ds/x"], ["a\nb"]),
    *([f"s{n}" for n in range(STREAMS_MAX + 1)], "**", "*/" * 400 + "*", "**/" * 300 + "x", "[a-z]{9}"),
    *("../..", {"url": 1}, {"url": "x" * 2000}, {"x": 1}),
]  # fmt: skip
FIELDS = ["type", "wake_stream", "pattern", "streams", "webhook", "lease_ttl_ms", "description", "unknown"]
HOLD_FIELDS = ["wake_id", "generation", "acks", "done", "worker", "streams"]
NAMES = [
    b"s",
    b"%00",
    b"%ff",
    b"%2f",
    b"..",
    b"a%0ab",
    b"x" * 1024,
    b"x" * 1025,
    b"%c3%a9" * 1024,
    b"%ed%a0%80",
]
ACTIONS = [
    b"",
    b"/",
    b"/streams",
    b"/streams/",
    b"/streams/a",
    b"/streams/%00",
    b"/streams/a%2f..",
    b"/callback",
]
ACTIONS += [b"/claim", b"/ack", b"/release", b"/unknown", b"/claim/x"]
TOKENS = [
    b"",
    b"Bearer",
    b"Bearer x",
    b"Bearer 1.2.3",
    b"bearer 1.99999999999.x",
    b"Basic x",
    b"Bearer \xff.\xff.\xff",
]
TOKENS += [b"Bearer " + b"9" * 5000 + b".1.x", b"Bearer 1." + b"9" * 300 + b".x", b"Bearer -1.-1.-1"]


def by_chance(chance: Random) -> bytes:
    """Return a request to the subscription API, wrong in some way or other."""
    body: Any = chance.choice(
        (pull_wake(), webhook("https://example.com/"), {"wake_id": "w", "generation": 1})
    )
    for field in chance.sample(FIELDS + HOLD_FIELDS, chance.randrange(1, 5)):
        body[field] = chance.choice(ODD)
    encoded = json.dumps(chance.choice(ODD) if not chance.randrange(9) else body).encode()
    method = chance.choice(
        (b"PUT", b"PUT", b"POST", b"POST", b"GET", b"DELETE", b"HEAD", b"OPTIONS", b"PATCH")
    )
    target = ROOT + chance.choice(NAMES) + chance.choice(ACTIONS)
    token = b"Authorization: " + chance.choice(TOKENS)
    return request(method, target, token, b"Connection: close", body=encoded)


@pytest.mark.parametrize("seed", SEEDS)
async def test_wrong_in_every_way(arena: Arena, seed: int) -> None:
    numbers = itertools.count()

    async def ask_some() -> None:
        while (number := next(numbers)) < REQUESTS:
            data = by_chance(Random(f"{seed}/{number}"))
            try:
                answers = await arena.refused(data)
                assert [answer.status < 500 for answer in answers] == [True], answers
            except AssertionError as error:
                raise AssertionError(f"{seed}/{number}: {data[:3000]!r}") from error

    async with arena.attacked() as others:
        await asyncio.gather(*(ask_some() for _ in range(8)))
        await others.progress()


FORBIDDEN_URLS = [
    *("", "x", "ftp://example.com", "file:///etc/passwd", "https://", "http://example.com/"),
    *("https://localhost/", "https://127.0.0.1/", "https://10.0.0.1/", "https://192.168.1.1/", "https://0/"),
    *("https://169.254.169.254/", "https://0.0.0.0/", "https://2130706433/", "https://0x7f.1/", "https://017700000001/"),
    *("https://127.1/", "https://[::1]/", "https://[::ffff:127.0.0.1]/", "https://[fe80::1]/", "https://[::]/"),
    *("https://[fc00::1]/", "https://[64:ff9b::7f00:1]/", "https://[2002:7f00:1::]/", "https://a.internal/"),
    *("https://user@example.com/", "https://127.0.0.1:443/", "https://[fd00::1]:443/", "http://[::1]/"),
    *("https://example.com:0/", "https://example.com:65536/", "https://example.com:-1/"),
    *("https://example.com\\@127.0.0.1/", "https://example.com#@127.0.0.1/", "https://ex%61mple.com/"),
    *("https://example.com/\r\nX: y", "https://\u2488.example/", "https://example.com./"),
    *("https://exa mple.com/", "http://localhost.evil/", "http://127.0.0.1.example.com/", "https://a..b/"),
    *("https://printer.local/", "https://" + "a" * 64 + ".com/", "https://" + "a." * 200 + "com/"),
]  # fmt: skip


async def test_urls_that_lead_where_no_webhook_may_go(arena: Arena) -> None:
    async with arena.attacked():
        for url in FORBIDDEN_URLS:
            answer = await arena.ask(put(b"ssrf", webhook(url)))
            assert answer.status == 400, url
            assert answer.error in ("WEBHOOK_URL_REJECTED", "INVALID_REQUEST"), url
        assert (await arena.ask(request(b"GET", ROOT + b"ssrf"))).status == 404


async def test_more_subscriptions_and_streams_than_there_may_be(arena: Arena) -> None:
    async with arena.attacked() as others:
        names = [b"many-%d" % number for number in range(SUBSCRIPTIONS_MAX + 5)]
        answers = [await arena.ask(put(name, pull_wake(pattern="none/**"))) for name in names]
        assert {answer.status for answer in answers} == {201, 409}
        assert answers[-1].error == "TOO_MANY_SUBSCRIPTIONS"
        await others.progress()
        one = next(name for name, answer in zip(names, answers, strict=True) if answer.status == 201)
        links = ROOT + one + b"/streams"
        most = json.dumps({"streams": [f"l{number}" for number in range(STREAMS_MAX)]}).encode()
        assert (await arena.ask(request(b"POST", links, body=most))).status == 204
        answer = await arena.ask(request(b"POST", links, body=b'{"streams":["one-more"]}'))
        assert (answer.status, answer.error) == (409, "TOO_MANY_SUBSCRIPTIONS")
        too_many = json.dumps({"streams": ["x"] * (STREAMS_MAX + 1)}).encode()
        assert (await arena.ask(request(b"POST", links, body=too_many))).status == 400
        for name in names:
            assert (await arena.ask(request(b"DELETE", ROOT + name))).status == 204


async def test_patterns_made_to_be_slow(arena: Arena) -> None:
    async with arena.attacked() as others:
        await arena.create(b"wakes", b"application/json")
        for number in range(20):
            pattern = "/".join(["**", "a"] * 200 + ["b"])
            assert (await arena.ask(put(b"slow-%d" % number, pull_wake(pattern=pattern)))).status == 201
        for number in range(20):
            await arena.create(b"/".join([b"a"] * 400) + b"/%d" % number, body=b"x")
        await others.progress()
        for number in range(20):
            assert (await arena.ask(request(b"DELETE", ROOT + b"slow-%d" % number))).status == 204


TRAPS = {
    "silence": b"",
    "garbage": b"\x00\xff" * 100,
    "half an answer": b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
    "an endless body": b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 10_000_000,
    "an endless head": b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 1_000_000,
    "a redirect": b"HTTP/1.1 307 X\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
    "no JSON": b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n\xff\xfe\xfd\xfc",
    "a deep nest": b"HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n" + b"[" * 60_000,
}


@asynccontextmanager
async def trap(answer: bytes) -> AsyncIterator[tuple[int, asyncio.Event]]:
    """Listen for webhooks on a port, answer them all with ``answer``, and never close."""
    sprung = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sprung.set()
        try:
            writer.write(answer)
            while await reader.read(65536):
                pass
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], sprung
    finally:
        server.close()


@pytest.mark.parametrize("why", TRAPS)
async def test_receivers_that_are_traps(arena: Arena, why: str) -> None:
    prefix = b"trap-" + why.replace(" ", "-").encode()
    names = [b"%b-%d" % (prefix, number) for number in range(DELIVERIES_MAX * 3)]
    async with arena.attacked() as others, trap(TRAPS[why]) as (port, sprung):
        body = webhook(f"http://127.0.0.1:{port}/", pattern=f"{prefix.decode()}/*", lease_ttl_ms=1000)
        for name in names:
            assert (await arena.ask(put(name, body))).status == 201
        await arena.create(prefix + b"/s", body=b"x")
        async with asyncio.timeout(PATIENCE_SECONDS):
            await sprung.wait()
        for _ in range(5):
            # One that is being closed may still be counted beside the next.
            assert arena.vitals.connections_to(port) <= 2 * DELIVERIES_MAX
            await others.progress(1)
        for name in names:
            assert (await arena.ask(request(b"DELETE", ROOT + name))).status == 204


async def test_claims_by_a_mob(arena: Arena) -> None:
    """Of many who claim at once, one gets the work; tokens of others, or none, do nothing."""
    async with arena.attacked() as others:
        await arena.create(b"mob-wakes", b"application/json")
        assert (
            await arena.ask(put(b"mob", pull_wake(pattern="mob/*", wake_stream="mob-wakes")))
        ).status == 201
        await arena.create(b"mob/s", body=b"x")

        async def claim(number: int) -> int:
            async with await Stranger.connect(arena.port) as worker:
                body = json.dumps({"worker": f"w{number}" * 100}).encode()
                return (await worker.ask(request(b"POST", ROOT + b"mob/claim", body=body))).status

        assert sorted(await asyncio.gather(*map(claim, range(50)))) == [200] + [409] * 49
        hold = b'{"wake_id":"x","generation":1,"acks":[{"stream":"mob/s","offset":"-1"}],"done":true}'
        for token in TOKENS:
            answer = await arena.ask(
                request(b"POST", ROOT + b"mob/ack", b"Authorization: " + token, body=hold)
            )
            assert (answer.status, answer.error) == (401, "TOKEN_INVALID")
        await others.progress()

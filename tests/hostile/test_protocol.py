"""The stream API with every parameter, header and body of the wrong kind: clear 4xx, and nothing else."""

import asyncio
import itertools
from random import Random
from urllib.parse import quote_from_bytes

import pytest

from tests.hostile.answers import take_apart
from tests.hostile.arena import Arena
from tests.hostile.rounds import SEEDS
from tests.hostile.stranger import Stranger, request

pytestmark = pytest.mark.anyio

REQUESTS = 1500
AT_ONCE = 16
LIVE_SECONDS = 0.02

OFFSET = b"0000000000000000_0000000000000000"
NUMBERS = [
    *(
        b"",
        b"0",
        b"1",
        b"-1",
        b"+1",
        b"00",
        b"1.0",
        b"1e3",
        b"1e999",
        b"NaN",
        b"inf",
        b"0x1",
        b"1_000",
        b" 1",
    ),
    *(b"9007199254740991", b"9007199254740992", b"18446744073709551616", b"9" * 400, b"9" * 5000),
    *("٣".encode(), b"1, 1", b"true", b"null", b"\xff", b"1;", b"%31", b"1\t1", b"3162240000", b"3162240001"),
]
OFFSETS = [
    *(b"-1", b"now", b"NOW", b"-2", OFFSET, OFFSET[:-1], OFFSET + b"0", OFFSET.replace(b"_", b"-")),
    *(b"9999999999999999_9999999999999999", b"0000000000000000_9999999999999999"),
    *(b"0000000000000001_0000000000000000", b"0000000000000000_0000000000000001", b"%2d1", b"0%5f0"),
    *("٠".encode() * 16 + b"_" + b"0" * 16, *NUMBERS),
]
PATHS = [
    *(b"s", b"j", b"none", b"", b".", b"..", b"a/../b", b"a//b", b"/", b"a/", b"%2e%2e", b"..%2f..%2fetc"),
    *(
        b"%00",
        b"a%0d%0ab",
        b"%ff",
        b"%c0%af",
        b"%ed%a0%80",
        b"%f4%90%80%80",
        b"%",
        b"%z",
        b"%u0041",
        b"a%2fb",
    ),
    *(b"%7f", b"%c2%85", b"%e2%80%ae", b"x" * 1024, b"x" * 1025, b"%41" * 1024, b"a/" * 511 + b"a", b"__ds"),
    *(b"__ds/", b"__DS", b"__ds/subscriptions", b"__ds/subscriptions/", b"__ds/subscriptions/%00"),
    *(b"__ds/subscriptions/s/unknown", b"__ds/jwks.json/x", b";", b"a;b=c", b"s#f", b"*", b"~", b"%252e"),
]
TYPES = [
    *(b"text/plain", b"application/json", b"TEXT/PLAIN", b"text/plain; charset=utf-8", b"text", b"/", b"a/b"),
    *(b"", b"a/b;" + b"x" * 300, b"a/b\xff", b"*/*", b"text/plain, text/plain", b"a b/c", b"a/b ;c"),
]
TAGS = [
    b'"%b"' % OFFSET,
    OFFSET,
    b"*",
    b'"',
    b'""',
    b'"x"',
    b'W/"x"',
    b'"a", "b"',
    b'"' * 999,
    b",",
    *OFFSETS,
]
TAGS += [b'"%b"' % offset for offset in OFFSETS if len(offset) < 100]
TIMES = [
    *(
        b"2099-01-31T12:00:00Z",
        b"1970-01-01T00:00:00Z",
        b"0001-01-01T00:00:00+23:59",
        b"0000-01-01T00:00:00Z",
    ),
    *(
        b"9999-12-31T23:59:59Z",
        b"9999-12-31T23:59:59-23:59",
        b"2099-02-30T00:00:00Z",
        b"2099-01-01T24:00:00Z",
    ),
    *(b"2099-01-31T12:00:00.123456789Z", b"2099-01-31t12:00:00z", b"2016-12-31T23:59:60Z", b"tomorrow"),
    *(b"2099-01-01T00:00:00+99:99", *NUMBERS),
]
HEADERS: dict[bytes, list[bytes]] = {
    b"Content-Type": TYPES,
    b"Producer-Id": [b"p", b"", b"\xff", b"x" * 4096, b"x" * 4097, *NUMBERS],
    b"Producer-Epoch": NUMBERS,
    b"Producer-Seq": NUMBERS,
    b"Stream-Seq": [b"a", b"\xff", b"x" * 4096, b"x" * 4097, *NUMBERS],
    b"Stream-TTL": NUMBERS,
    b"Stream-Expires-At": TIMES,
    b"Stream-Closed": [b"true", b"TRUE", b"false", b"1", b"", b"\xff", b"true, true"],
    b"Stream-Forked-From": [b"/v1/stream/" + path for path in PATHS]
    + [b"s", b"http://h/v1/stream/s", b"\xff"],
    b"Stream-Fork-Offset": OFFSETS,
    b"Stream-Fork-Sub-Offset": NUMBERS,
    b"If-Match": TAGS,
    b"If-None-Match": TAGS,
    b"Authorization": [
        b"Bearer x",
        b"Bearer 1.2.3",
        b"Bearer " + b"9" * 5000 + b".1.a",
        b"Basic eA==",
        b"\xff",
    ],
    b"Last-Event-ID": OFFSETS,
    b"Range": [b"bytes=0-", b"bytes=-1", b"x"],
    b"Content-Encoding": [b"gzip", b"identity"],
    b"Origin": [b"null", b"\xff", b"https://a"],
}
BODIES = [
    *(b"", b"x", b"\x00", b"\xff" * 9, b"\xed\xa0\x80", b"[]", b"[[]]", b"{}", b"null", b"1", b"01"),
    *(b"-", b"1e9999", b"9" * 10_000, b'"\\ud800"', b'["\\udc00\\ud800"]', b'"\\u12"', b'"\x00"'),
    *(b'"\xff"', b"{]", b"[1,]", b"[1 2]", b'{"a":1,"a":2}', b"{'a':1}", b"NaN", b"Infinity", b" \r\n\t1 "),
    *(b"1\n2", b"\xef\xbb\xbf1", b"[" * 200, b"[" * 100_000, b"[" * 128 + b"]" * 128),
    *(b"[" * 129 + b"]" * 129, b"[" * 130 + b"]" * 130),
    *(b'{"a":' * 129 + b"1" + b"}" * 129, b"[" + b"1," * 9999 + b"1]", b"[" + b"1," * 10_000 + b"1]"),
]  # fmt: skip
QUERIES: dict[bytes, list[bytes]] = {
    b"offset": OFFSETS,
    b"live": [b"", b"long-poll", b"sse", b"SSE", b"x" * 999, b"%00", b"%ff", b"true"],
    b"cursor": NUMBERS,
    b"unknown": [b"", b"%ff", b"x" * 9000],
}
METHODS = [b"GET", b"HEAD", b"PUT", b"POST", b"DELETE", b"OPTIONS", b"PATCH"]


def one(chance: Random) -> bytes:
    """Return a request that is right as HTTP; everything else in it is left to chance."""
    path = chance.choice(PATHS) if chance.random() < 0.3 else chance.choice((b"s", b"j"))
    names = chance.sample(sorted(QUERIES), chance.randrange(4))
    pairs = [b"%b=%b" % (name, quoted(chance.choice(QUERIES[name]))) for name in names]
    if names and chance.random() < 0.1:
        pairs.append(pairs[0])
    lines = [
        b"%b: %b" % (name, chance.choice(HEADERS[name]))
        for name in chance.sample(sorted(HEADERS), chance.randrange(5))
    ]
    target = b"/v1/stream/" + path + (b"?" + b"&".join(pairs) if pairs else b"")
    return request(chance.choice(METHODS), target, *lines, b"Connection: close", body=chance.choice(BODIES))


def quoted(value: bytes) -> bytes:
    return quote_from_bytes(value, safe=b"%-_.").encode()


async def check(arena: Arena, data: bytes) -> None:
    """Send ``data``; what is answered must be right. A live read may wait, and is left alone."""
    async with await Stranger.connect(arena.port) as stranger:
        await stranger.send(data)
        if b"live=" in data:
            take_apart(await stranger.until_quiet(LIVE_SECONDS))
        else:
            answers = take_apart(await stranger.rest())
            assert [answer.status < 500 for answer in answers] == [True], answers


@pytest.mark.parametrize("seed", SEEDS)
async def test_wrong_in_every_way(arena: Arena, seed: int) -> None:
    numbers = itertools.count()

    async def ask_some() -> None:
        while (number := next(numbers)) < REQUESTS:
            data = one(Random(f"{seed}/{number}"))
            try:
                await check(arena, data)
            except AssertionError as error:
                raise AssertionError(f"{seed}/{number}: {data[:3000]!r}") from error

    async with arena.attacked() as others:
        for path, content_type in ((b"s", b"text/plain"), (b"j", b"application/json")):
            await arena.ask(
                request(b"PUT", b"/v1/stream/" + path, b"Content-Type: " + content_type, body=b"")
            )
        await asyncio.gather(*(ask_some() for _ in range(AT_ONCE)))
        await others.progress()


FOUND = {
    "If-Match of another epoch": (
        request(
            b"POST",
            b"/v1/stream/found",
            b"Content-Type: text/plain",
            b'If-Match: "0000000000000001_0000000000000000"',
            body=b"x",
        ),
        412,
    ),
    "an expiry whose zone reaches into the year 10000": (
        request(b"PUT", b"/v1/stream/found-2", b"Stream-Expires-At: 9999-12-31T23:59:59-23:59", body=b""),
        400,
    ),
    "a subscription that is not UTF-8": (
        request(
            b"PUT", b"/v1/stream/__ds/subscriptions/found", body=b'{"type":"pull-wake","wake_stream":"\xd5"}'
        ),
        400,
    ),
}


async def test_what_was_found_stays_mended(arena: Arena) -> None:
    async with arena.attacked():
        await arena.create(b"found")
        for why, (data, status) in FOUND.items():
            assert (await arena.ask(data)).status == status, why

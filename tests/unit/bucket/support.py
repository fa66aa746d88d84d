"""Records, JSON and segments to test with."""

import json
from collections.abc import Iterable

from hypothesis import strategies as st

from durable_sessions.bucket.cache import BlockCache
from durable_sessions.bucket.records import AppendRun, StreamRecords
from durable_sessions.bucket.segment import EncodedSegment, encode_segment
from durable_sessions.bucket.segment_reader import SegmentReader
from durable_sessions.testing.bucket import FaultyBucket, MemoryBucket

NOON = 1_794_744_000_000
"""2026-11-15 12:00:00 UTC."""
PATH = "events/date=2026-11-15/00-000000000001.parquet"


def json_append(first: int, *messages: bytes, at_ms: int = NOON) -> AppendRun:
    return AppendRun(first, at_ms, tuple(len(m) + 1 for m in messages), b"".join(m + b"," for m in messages))


def raw_append(first: int, data: bytes, at_ms: int = NOON) -> AppendRun:
    return AppendRun(first, at_ms, (), data)


def json_stream(number: int, bodies: Iterable[Iterable[bytes]], *, base: int = 0) -> StreamRecords:
    appends = []
    for messages in bodies:
        appends.append(json_append(base, *messages, at_ms=NOON + base))
        base = appends[-1].next
    return StreamRecords(number, "main", f"sessions/s{number}", "application/json", appends)


def raw_stream(number: int, pieces: Iterable[bytes], *, base: int = 0) -> StreamRecords:
    appends = []
    for piece in pieces:
        appends.append(raw_append(base, piece, NOON + base))
        base = appends[-1].next
    return StreamRecords(number, "main", f"files/f{number}", "text/plain", appends)


def events(count: int, size: int = 100) -> list[list[bytes]]:
    """Return appends of one event each."""
    return [[b'{"id":"e%d","type":"t%d","pad":"%b"}' % (n, n % 3, b"x" * size)] for n in range(count)]


class Written:
    """A segment in a bucket in memory, and what reads it."""

    def __init__(
        self, records: list[StreamRecords], *, group_bytes: int = 1024 * 1024, cache_bytes: int = 1 << 30
    ) -> None:
        self.encoded: EncodedSegment = encode_segment(records, group_bytes=group_bytes)
        self.memory = MemoryBucket()
        self.memory.objects[PATH] = self.encoded.data
        self.bucket = FaultyBucket(self.memory)
        self.info = self.encoded.info(PATH)
        self.cache = BlockCache(cache_bytes)
        self.reader = SegmentReader(self.bucket, self.info, self.cache)


def expected(stream: StreamRecords, start: int, stop: int, bytes_max: int) -> tuple[bytes, int]:
    """Return what a read must answer, worked out the slow way; the appends must have no gaps."""
    wire = b"".join(append.data for append in stream.appends)
    base = stream.appends[0].first
    if not stream.appends[0].lengths:
        stop = min(stop, start + max(bytes_max, 1), base + len(wire))
        return wire[start - base : stop - base], stop
    lengths = [length for append in stream.appends for length in append.lengths]
    begin = end = sum(lengths[: start - base])
    position = start
    for length in lengths[start - base : stop - base]:
        if position > start and end + length - begin > bytes_max:
            break
        end += length
        position += 1
    return wire[begin:end], position


# JSON as it may be stored: any valid text, also what decoders stumble over --------------------

_text = st.one_of(
    st.text(st.characters(codec="utf-8"), max_size=10).map(
        lambda text: json.dumps(text, ensure_ascii=False).encode()
    ),
    st.sampled_from(
        [b'"\\ud800"', b'"\\uDBFF x"', b'"\\u0000"', b'"\\ufffd"', b'"\\ud83d\\ude00"', '"é😀"'.encode()]
    ),
)
_scalar = st.one_of(
    _text, st.sampled_from([b"null", b"true", b"-0.0e+1", b"12345678901234567890123", b"[]", b"{ }"])
)
_key = st.one_of(st.sampled_from([b'"id"', b'"type"', b'"name"', b'"actor"']), _text)


def _object(members: list[tuple[bytes, bytes]]) -> bytes:
    return b"{" + b", ".join(key + b" :" + value for key, value in members) + b"}"


json_values: st.SearchStrategy[bytes] = st.recursive(
    _scalar,
    lambda inner: st.one_of(
        st.lists(st.tuples(_key, inner), max_size=5).map(_object),
        st.lists(inner, max_size=3).map(lambda values: b"[" + b",".join(values) + b"]"),
    ),
    max_leaves=8,
)

json_bodies = st.lists(st.lists(json_values, min_size=1, max_size=5), min_size=1, max_size=6)
raw_bodies = st.lists(st.binary(min_size=1, max_size=200), min_size=1, max_size=6)


@st.composite
def streams(draw: st.DrawFn) -> list[StreamRecords]:
    """Draw some streams of both kinds in several workspaces, each without gaps."""
    found = []
    for number in draw(st.lists(st.integers(1, 2**53), min_size=1, max_size=6, unique=True)):
        base = draw(st.integers(0, 2**40))
        if draw(st.booleans()):
            stream = json_stream(number, draw(json_bodies), base=base)
        else:
            stream = raw_stream(number, draw(raw_bodies), base=base)
        found.append(
            stream._replace(
                workspace=draw(st.sampled_from(["main", "other", "ünï"])),
                path=draw(st.sampled_from(["a", "a/b", "sessions/😀", stream.path])),
            )
        )
    return found


async def read(
    reader: SegmentReader, stream: int, start: int, stop: int, bytes_max: int
) -> tuple[bytes, int]:
    """Return what a read finds in one piece, and the position after it."""
    pieces, following, _ = await reader.read(stream, start, stop, bytes_max)
    return b"".join(pieces), following

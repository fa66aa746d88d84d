"""The feed of keys: how the process that keeps them tells all others of every change.

It is a stream of lines, each a JSON object. It begins with a snapshot of the whole table, in slices, and goes
on with one line for each change. Versions are consecutive, so a line that is lost, repeated or out of order
is noticed; the follower then connects again and gets a new snapshot.
"""

from collections.abc import AsyncIterator, Iterable, Iterator

import msgspec

from durable_sessions.access.key import KeyDocument


class KeyFeedError(Exception):
    """What a follower was sent cannot be right; it connects again."""


class SnapshotBegun(msgspec.Struct, frozen=True, tag="begin"):
    """A snapshot follows. ``incarnation`` names the publisher: versions of another one mean nothing."""

    incarnation: str


class SnapshotSlice(msgspec.Struct, frozen=True, tag="keys"):
    """Some keys of a snapshot, oldest first."""

    keys: list[KeyDocument]


class SnapshotEnded(msgspec.Struct, frozen=True, tag="end"):
    """The snapshot is complete: it had so many keys, and is of this version."""

    version: int
    count: int
    required: bool


class KeyChanged(msgspec.Struct, frozen=True, tag="key"):
    """A key was created or revoked."""

    version: int
    key: KeyDocument


class KeyForgotten(msgspec.Struct, frozen=True, tag="forget"):
    """A key that was no longer valid has made room for another."""

    version: int
    id: str


class KeysNeeded(msgspec.Struct, frozen=True, tag="required"):
    """From now on every request needs a key."""

    version: int


KeyChange = KeyChanged | KeyForgotten | KeysNeeded
KeyRecord = SnapshotBegun | SnapshotSlice | SnapshotEnded | KeyChange


class KeysSeen(msgspec.Struct, frozen=True):
    """What a follower acknowledges: the version that it has, and when keys were last used there."""

    follower: str
    incarnation: str
    version: int
    last_used_ms: dict[str, int] = {}


class KeysConfirmed(msgspec.Struct, frozen=True):
    """The answer to an acknowledgement: the version that the publisher has now."""

    incarnation: str
    version: int


encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(KeyRecord).decode


def line(record: KeyRecord) -> bytes:
    """Return a record as a line."""
    return encode(record) + b"\n"


def snapshot_lines(documents: Iterable[KeyDocument], *, keys_max: int, bytes_max: int) -> Iterator[bytes]:
    """Yield keys in slices that are bounded in count and in bytes; a slice has at least one key."""
    pending: list[KeyDocument] = []
    size = 0
    for document in documents:
        length = len(encode(document))
        if pending and (len(pending) >= keys_max or size + length > bytes_max):
            yield line(SnapshotSlice(pending))
            pending, size = [], 0
        pending.append(document)
        size += length
    if pending:
        yield line(SnapshotSlice(pending))


async def records(chunks: AsyncIterator[bytes], line_bytes_max: int) -> AsyncIterator[KeyRecord]:
    """Yield the records of a stream, however its chunks are cut; a line that is too long is refused."""
    rest = b""
    async for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for one in lines:
            try:
                yield _decode(one)
            except msgspec.MsgspecError as error:
                raise KeyFeedError(f"a line cannot be read ({error})") from error
        if len(rest) > line_bytes_max:
            raise KeyFeedError(f"a line is longer than {line_bytes_max} bytes")

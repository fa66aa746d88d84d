"""Ids of events: those of the server contain the position, those of clients are looked up as names.

A server's id is ``sevt_`` and 22 hexadecimal digits: 12 identify the stream, 10 are the position. If the
event was sent with an ``Idempotency-Key``, these are followed by ``_``, 22 characters for the key and 8 for
the body. If all events of such a request came with their own ids, the first one has that part as
``request_key`` instead. An event that a fork inherits keeps its id.
"""

import re
import zlib
from base64 import urlsafe_b64encode
from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

from durable_sessions.bucket.records import AppendRun
from durable_sessions.sessions import digests, slots
from durable_sessions.streams.effects import Name, SlotChange
from durable_sessions.streams.readonly import StreamHeader, StreamRecord
from durable_sessions.streams.state import State

_SERVER_ID = re.compile(r"sevt_([0-9a-f]{12})([0-9a-f]{10})(?:_([\w-]{22})([0-9a-f]{8}))?", re.ASCII)
_STORED_ID = re.compile(rb'\{"id":"([^"\\]+)",(?:"request_key":"_([\w-]{22})([0-9a-f]{8})",)?')


def tag(stream: StreamHeader) -> str:
    """Return the part of an id that identifies a stream, also among those that had the same path.

    It is a hash of what never changes while the stream exists; sessions show it as their ``incarnation``.
    """
    return _tag(stream.id, stream.created_at_ms)


# Cached, because every append and every read of a session needs it.
@lru_cache(maxsize=16_384)
def _tag(number: int, created_at_ms: int) -> str:
    return blake2b(f"{number}:{created_at_ms}".encode(), digest_size=6).hexdigest()


def event_id(stream_tag: str, position: int, suffix: str = "") -> str:
    """Return the id of the event at a position."""
    return f"sevt_{stream_tag}{position:010x}{suffix}"


def stored_id(event: bytes) -> str | None:
    """Return the id of a stored event."""
    match = _STORED_ID.match(event)
    return None if match is None else match[1].decode()


def position_of(event: str) -> int | None:
    """Return the position that an id states, None if it is not one of the server's own."""
    match = _SERVER_ID.fullmatch(event)
    return None if match is None else int(match[2], 16)


def is_own(event: str, stream: StreamHeader) -> bool:
    """Say whether an id has the form of those that the server assigns in this stream."""
    match = _SERVER_ID.fullmatch(event)
    return match is not None and match[1] == tag(stream)


class KnownEvent(NamedTuple):
    """The position of an event with an id, and its digest; 0 if the digest is not in memory."""

    position: int
    digest: int = 0


def find(state: State, stream: StreamRecord, event: str) -> KnownEvent | None:
    """Return the stored event with an id at the tip, also an inherited one; None if the id is new."""
    position = position_of(event)
    if position is not None and _assigned(state, stream, event, position):
        return KnownEvent(position)
    # Most streams have no named events: for these, no look-up is needed.
    if not stream.named and stream.parent is None:
        return None
    found = state.named(stream, id_name(event))
    return None if found is None else KnownEvent(found.first, found.check)


def _assigned(state: State, stream: StreamRecord, event: str, position: int) -> bool:
    """Say whether the server assigned this id to an event of the stream, or to one that it inherits."""
    holder: StreamRecord | None = stream
    end = stream.tail
    while holder is not None:
        if is_own(event, holder):
            return position < end
        end = min(end, holder.base)  # of its source, a fork inherits only the events before its base
        holder = state.parent(holder)
    return False


def key_name(key: str) -> str:
    """Return the name of the records that were appended with an ``Idempotency-Key``."""
    return "key:" + _key_hash(key)


def id_name(event: str) -> str:
    """Return the name for an id that a client assigned; the check of that name is the event's digest."""
    return "id:" + event


def body_check(body: bytes) -> int:
    """Return the checksum by which a key that is reused with another body is noticed."""
    return zlib.crc32(body)


def key_suffix(key: str, check: int) -> str:
    """Return what the ids of events that were appended with an ``Idempotency-Key`` end with."""
    return f"_{_key_hash(key)}{check:08x}"


def names_of(stream: StreamHeader, run: AppendRun) -> Iterable[Name | SlotChange]:
    """Return the names that an append registered and what it did with slots, recovered from its events.

    Names are not stored by themselves: when the catalog is rebuilt, this is where they come from.
    """
    own = tag(stream)
    names: list[Name | SlotChange] = []
    key: Name | None = None
    end = 0
    for position, length in enumerate(run.lengths, run.first):
        begin, end = end, end + length
        wish = slots.of_event(run.data[begin : end - 1])
        if wish is not None:
            names += wish.changes(position)
        match = _STORED_ID.match(run.data, begin, end)
        if match is None:
            continue
        event = match[1].decode()
        made = _SERVER_ID.fullmatch(event)
        stated = None if match[2] is None else (match[2].decode(), match[3])
        if made is None or made[1] != own:
            digest = digests.of_stored(run.data[begin : end - 1])
            names.append(Name(id_name(event), position, 1, digest))
        elif made[3] is not None:
            stated = made[3], made[4]
        if stated is not None:
            # An append is one request, so its key names all records of the run.
            key = Name("key:" + stated[0], run.first, len(run.lengths), int(stated[1], 16))
    return names if key is None else [*names, key]


def _key_hash(key: str) -> str:
    return urlsafe_b64encode(blake2b(key.encode(), digest_size=16).digest()).rstrip(b"=").decode()

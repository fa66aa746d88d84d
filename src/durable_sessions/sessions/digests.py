"""Digests of events: they tell a repeated event from a different one under the same id.

The digest covers the members as they were sent, in their order, without white space between them.
What the server sets or renames does not count, so the digest of a stored event can be computed as well.
"""

import json
import re
from collections.abc import Iterable
from hashlib import blake2b

import msgspec

from durable_sessions.server_members import SERVER_MEMBERS
from durable_sessions.sessions import tombstones
from durable_sessions.sessions.json_members import Member, members

ERASED = -2
"""The digest of an event that was erased: nobody knows what it was, so every repeat counts as the same."""
_DEFINES = "user.define_outcome"
_COMPLETED = frozenset({"outcome_id", "max_iterations"})
_MARKS = (
    b'"request_key"',
    b'"imported"',
    b'"ref_incarnations"',
    b'"original_',
    b'"outcome_id"',
    b'"max_iterations"',
    b"\\u",
)
"""If none of these occurs after the server's members, everything after them counts: no parsing needed."""
_FRONT = re.compile(
    rb'\{"id":"[^"\\]+",(?:"request_key":"[^"]*",)?"offset":"[0-9_]+","created_at":"[^"]+",'
    rb'"processed_at":"[^"]+","actor":"(?:[^"\\]|\\.)*",'
)


def of_sent(sent: Iterable[Member]) -> int:
    """Return the digest of an event from its members; it is never 0."""
    counted = [one for one in sent if one.key not in SERVER_MEMBERS]
    if any(one.key == "type" and _text(one.value) == _DEFINES for one in counted):
        counted = [one for one in counted if one.key not in _COMPLETED or not _may_be_added(one)]
    return _digest(b",".join([one.raw_key + b":" + one.value for one in counted]))


def of_stored(event: bytes) -> int:
    """Return the digest of an event as it is stored."""
    if tombstones.is_tombstone(event):
        return ERASED
    front = _FRONT.match(event)
    if front is None or any(event.find(mark, front.end()) >= 0 for mark in _MARKS):
        return of_sent(members(event))
    return _digest(event[front.end() : -1])


def of_creation(events: Iterable[tuple[str | None, bytes]]) -> str:
    """Return the digest of the events that a session begins with, each as its id and its body."""
    said = [(name, of_sent(members(body))) for name, body in events]
    return blake2b(msgspec.json.encode(said), digest_size=16).hexdigest()


def _may_be_added(member: Member) -> bool:
    """Say whether a member of an event that defines an outcome may have been added by the server."""
    return member.key == "outcome_id" or member.value == b"null"


def _text(value: bytes) -> object:
    return json.loads(value) if b"\\" in value else value[1:-1].decode()


def _digest(said: bytes) -> int:
    body = b"{%b}" % said
    try:
        body = msgspec.json.format(body, indent=-1)
    except msgspec.DecodeError:
        pass  # an escape of a lone surrogate: compared as it is
    # 63 bits, because the catalog stores it as a signed integer; never 0, which means that it is not known.
    return (int.from_bytes(blake2b(body, digest_size=8).digest(), "big") >> 1) or 1

"""Which partition a request is for, as far as its head says."""

from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote

from durable_sessions.errors import InvalidPathError
from durable_sessions.http.carrier.message import NamedStream, Request
from durable_sessions.http.paths import (
    API_ROOT,
    STREAM_ROOT,
    is_of_control,
    is_of_environment_work,
    stream_path,
)
from durable_sessions.partition_id import SYSTEM
from durable_sessions.sessions.record import path_of
from durable_sessions.streams.partition_map import home_partition
from durable_sessions.streams.stream import Key

_CACHED = 16_384
_CACHED_BYTES_MAX = 512
"""The longest path that is cached: a client may send any, and the cache is limited in bytes by this."""


class RequestTarget(IntEnum):
    """What else a request may be for than one partition, whose number is 0 or more."""

    ANY = -1
    """No partition's data: pages, preflights, and what is refused whoever is asked."""
    EVERY = -2
    """The data of all partitions: lists, searches, operations."""
    BODY = -3
    """A partition that follows from the body."""
    PARTS = -4
    """Several sessions, which follow from the body, or from what there is."""


_SESSIONS = b"sessions"
_SESSION_ROOT = API_ROOT + _SESSIONS + b"/"
_OF_FOLDER = {
    b"agents": "__agents",
    b"environments": "__environments",
    b"artifacts": "__artifacts",
    b"files": "__artifacts",
    b"memory": "__memory",
    b"memory_stores": "__memory",
}
"""Nouns whose objects are all in the partition of one folder of the workspace."""
_OF_THE_SERVER = frozenset((b"keys", b"audit", b"login", b"whoami"))
_OF_EVERY = frozenset((b"search", b"admin", b"approvals", b"usage"))
_IN_BODY = frozenset((b"ingest",))
_IN_PARTS = frozenset((b"traces", b"logs", b"metrics"))
_OPERATIONS = frozenset((b"/readyz", b"/metrics"))


def target_of(workspace: str, request: Request, of: int) -> int:
    """Return the partition, of ``of`` in all, that a request is for, or what else it is for."""
    path = request.path
    if request.method == b"OPTIONS":
        return RequestTarget.ANY
    if path.startswith(STREAM_ROOT):
        encoded = path[len(STREAM_ROOT) :]
        find = _stream_partition if len(encoded) <= _CACHED_BYTES_MAX else _stream_partition.__wrapped__
        return find(workspace, encoded, of)
    if not path.startswith(API_ROOT):
        return RequestTarget.EVERY if path in _OPERATIONS else RequestTarget.ANY
    noun, _, rest = path[len(API_ROOT) :].partition(b"/")
    if noun == _SESSIONS:
        if rest:
            return session_partition(workspace, rest.partition(b"/")[0], of)
        return _of_list(request)
    if noun in _OF_FOLDER:
        if is_of_environment_work(path):
            return RequestTarget.PARTS
        return home_partition(workspace, _OF_FOLDER[noun], of)
    if noun in _OF_THE_SERVER:
        return SYSTEM
    if noun in _IN_BODY:
        return RequestTarget.BODY
    if noun in _IN_PARTS and not rest and request.method == b"POST":
        return RequestTarget.PARTS
    return RequestTarget.EVERY if noun in _OF_EVERY else RequestTarget.ANY


class StreamTarget(NamedTuple):
    """The home of a stream, its name, and how a partition is told that name."""

    partition: int
    key: Key
    named: NamedStream


def stream_target(workspace: str, path: bytes, of: int) -> StreamTarget | None:
    """Return the target of a path below the stream root, of this many partitions; None if it names none."""
    return (_stream_target if len(path) <= _CACHED_BYTES_MAX else _stream_target.__wrapped__)(
        workspace, path, of
    )


@lru_cache(_CACHED)
def _stream_target(workspace: str, path: bytes, of: int) -> StreamTarget | None:
    if is_of_control(path):
        return None
    try:
        name = stream_path(path[len(STREAM_ROOT) :])
    except InvalidPathError:
        return None
    return StreamTarget(home_partition(workspace, name, of), Key(workspace, name), NamedStream(name))


def append_home(workspace: str, path: bytes, of: int) -> int:
    """Return the home of the stream or session that is appended to, negative if the path names none."""
    if path.startswith(STREAM_ROOT):
        stream = stream_target(workspace, path, of)
        return RequestTarget.ANY if stream is None else stream.partition
    if not path.startswith(_SESSION_ROOT):
        return RequestTarget.ANY
    return session_partition(workspace, path[len(_SESSION_ROOT) :].partition(b"/")[0], of)


def named_of(request: Request) -> NamedStream | None:
    """Return the stream that a request is about as far as its path says, None if about none."""
    path = request.path
    if path.startswith(STREAM_ROOT):
        encoded = path[len(STREAM_ROOT) :]
        return (_stream_name if len(encoded) <= _CACHED_BYTES_MAX else _stream_name.__wrapped__)(encoded)
    if not path.startswith(_SESSION_ROOT):
        return None
    encoded = path[len(_SESSION_ROOT) :].partition(b"/")[0]
    return _session_name(encoded) if 0 < len(encoded) <= _CACHED_BYTES_MAX else None


def subscriptions_partition(workspace: str, of: int) -> int:
    """Return the partition that has the subscriptions of a workspace."""
    return home_partition(workspace, "__subscriptions", of)


def session_partition(workspace: str, encoded: bytes, of: int) -> int:
    """Return the home of a session, given its id as it is in a URL."""
    if len(encoded) > _CACHED_BYTES_MAX:
        return RequestTarget.ANY  # no session has such an id: whoever is asked refuses it
    return _session_partition(workspace, encoded, of)


@lru_cache(_CACHED)
def _session_partition(workspace: str, encoded: bytes, of: int) -> int:
    return home_partition(workspace, path_of(unquote(encoded.decode("latin-1"))), of)


def _of_list(request: Request) -> int:
    if request.method == b"POST":
        return RequestTarget.BODY
    return RequestTarget.EVERY if request.method == b"GET" else RequestTarget.ANY


@lru_cache(_CACHED)
def _stream_partition(workspace: str, encoded: bytes, of: int) -> int:
    try:
        return home_partition(workspace, stream_path(encoded), of)
    except InvalidPathError:
        return RequestTarget.ANY  # whoever is asked refuses it


@lru_cache(_CACHED)
def _stream_name(encoded: bytes) -> NamedStream | None:
    try:
        return NamedStream(stream_path(encoded))
    except InvalidPathError:
        return None


@lru_cache(_CACHED)
def _session_name(encoded: bytes) -> NamedStream:
    return NamedStream(path_of(unquote(encoded.decode("latin-1"))))

"""Reading with the digest checked: what does not match is fetched once more, then refused."""

import hashlib
from collections.abc import Awaitable, Callable
from typing import TypeVar

from durable_sessions.bucket.objects import ObjectStore
from durable_sessions.errors import ObjectDamagedError, ObjectNotFoundError
from durable_sessions.threads import CPU

FETCHES_MAX = 2
_Decoded = TypeVar("_Decoded")


async def fetch_object(bucket: ObjectStore, path: str, size: int, sha256: str) -> bytes:
    """Return a whole object of which size and digest are known."""
    return await _fetch(lambda: bucket.get(path), path, "its bytes", size, sha256, _as_it_is)


async def fetch_range(
    bucket: ObjectStore, path: str, start: int, length: int, sha256: str, decode: Callable[[bytes], _Decoded]
) -> _Decoded:
    """Return what ``decode`` makes of a range of an object whose digest is known.

    It runs in the thread that has checked the digest: another hand-over would cost more than small ranges do.
    """
    what = f"bytes {start} to {start + length}"
    return await _fetch(lambda: bucket.get_range(path, start, length), path, what, length, sha256, decode)


async def _fetch(
    get: Callable[[], Awaitable[bytes]],
    path: str,
    what: str,
    size: int,
    sha256: str,
    decode: Callable[[bytes], _Decoded],
) -> _Decoded:
    for _ in range(FETCHES_MAX):
        try:
            data = await get()
        except ObjectNotFoundError as error:
            raise ObjectDamagedError(path=path, problem="it is missing") from error
        if len(data) == size:
            try:
                return await CPU.run(_verified, data, sha256, decode)
            except _ChangedError:
                continue
    problem = f"{what} came as {len(data)} bytes, not {size}" if len(data) != size else f"{what} have changed"
    raise ObjectDamagedError(path=path, problem=problem)


class _ChangedError(Exception):
    """The bytes have another digest than they had when they were written."""


def _verified(data: bytes, sha256: str, decode: Callable[[bytes], _Decoded]) -> _Decoded:
    if digest(data) != sha256:
        raise _ChangedError
    return decode(data)


def _as_it_is(data: bytes) -> bytes:
    return data


def digest(data: bytes | memoryview) -> str:
    """Return the SHA-256 of ``data`` in hexadecimal."""
    return hashlib.sha256(data).hexdigest()

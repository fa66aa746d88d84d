"""Manifests: which objects hold a partition's flushed state, each checked by digest.

The JSON of a version only ever gains fields, with defaults; readers ignore those that they do not know.
``docs/formats/bucket.md`` describes it.
"""

import hashlib
from collections.abc import AsyncIterator

import msgspec

from durable_sessions.bucket.layout import manifests_prefix
from durable_sessions.bucket.numbered import NumberedObjects
from durable_sessions.bucket.objects import ObjectStore
from durable_sessions.errors import BucketRefusedError, ObjectDamagedError, ObjectNotFoundError
from durable_sessions.partition_id import PartitionId

VERSION = 1
NEWER_VERSION = 2
"""The version once something was erased, or a deleted stream has given up its path.

Older programs would show what was erased, because they know no overlays, and mix up streams of one path.
"""
SCOPES_VERSION = 3
"""The version once there is a memory scope: older programs would erase an event and leave its record."""
NEWEST_VERSION = SCOPES_VERSION
_DIGEST_KEY = b',"sha256":"'


class SegmentInfo(msgspec.Struct, frozen=True):
    """An event segment: what it holds, and the digests of the whole and of its footer region."""

    path: str
    bytes: int
    rows: int
    sha256: str
    footer_offset: int
    footer_sha256: str
    first_at_ms: int
    last_at_ms: int
    streams: int
    stream_min: int
    stream_max: int


class CheckpointInfo(msgspec.Struct, frozen=True):
    """A part of the session metadata."""

    path: str
    bytes: int
    rows: int
    sha256: str


class GarbageInfo(msgspec.Struct, frozen=True):
    """An object that nothing refers to since this time; it is removed after a grace time."""

    path: str
    since_ms: int


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a partition has flushed: everything in the log up to ``flushed_through``.

    ``writer`` is random for each process, so that two writers never send the same bytes.
    ``lineage`` names the log ("" before logs had a lineage), ``log_begins`` is the address at which that
    log began, and ``frame`` the checksum of its frame at ``flushed_through``, None as long as nothing of
    it is flushed.
    ``checkpoints`` are oldest first: a later row of a stream replaces an earlier one.
    """

    number: int
    writer: str
    flushed_through: int
    next_stream: int
    created_at_ms: int
    version: int = 1
    lineage: str = ""
    log_begins: int = 0
    frame: int | None = None
    segments: tuple[SegmentInfo, ...] = ()
    checkpoints: tuple[CheckpointInfo, ...] = ()
    garbage: tuple[GarbageInfo, ...] = ()
    extra: dict[str, msgspec.Raw] = {}


class _Version(msgspec.Struct):
    version: int


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Manifest).decode
_decode_version = msgspec.json.Decoder(_Version).decode


def encode_manifest(manifest: Manifest) -> bytes:
    """Return the JSON object of a manifest, whose last member is the digest of all before it."""
    # Appended to the encoded bytes, so that a reader can cut it off and check exactly what was written.
    body = _encode(manifest)
    return body[:-1] + _DIGEST_KEY + hashlib.sha256(body).hexdigest().encode() + b'"}'


def decode_manifest(data: bytes, path: str) -> Manifest:
    """Return the manifest in ``data``, verified."""
    content, _, digest = data.rpartition(_DIGEST_KEY)
    body = content + b"}"
    if digest != hashlib.sha256(body).hexdigest().encode() + b'"}':
        raise ObjectDamagedError(path=path, problem="its digest is not that of its content")
    try:
        version = _decode_version(body).version
        if not VERSION <= version <= NEWEST_VERSION:
            raise BucketRefusedError(
                problem=f"{path} has version {version}, this program reads versions up to {NEWEST_VERSION}",
                remedy="Use the program that wrote it, or a newer one.",
            )
        return _decode(body)
    except msgspec.MsgspecError as error:
        raise ObjectDamagedError(path=path, problem=f"it is not a manifest: {error}") from error


class Manifests:
    """The manifests of one partition; the newest one is the current one."""

    def __init__(self, bucket: ObjectStore, partition: PartitionId) -> None:
        self._objects = NumberedObjects(bucket, manifests_prefix(partition), ".json")

    async def newest(self) -> Manifest | None:
        """Return the current manifest, which is the newest, verified; None before the first flush."""
        found = await self._objects.newest()
        if found is None:
            return None
        number, data = found
        path = self._objects.path(number)
        manifest = decode_manifest(data, path)
        if manifest.number != number:
            raise ObjectDamagedError(path=path, problem=f"it says that it is number {manifest.number}")
        return manifest

    async def newest_number(self) -> int:
        """Return the number of the current manifest, 0 before the first."""
        return max(await self._objects.numbers(), default=0)

    async def all(self) -> AsyncIterator[Manifest]:
        """Yield the manifests that can be read, newest first."""
        for number in reversed(await self._objects.numbers()):
            try:
                yield decode_manifest(await self._objects.get(number), self._objects.path(number))
            except (ObjectNotFoundError, ObjectDamagedError, BucketRefusedError):
                continue

    async def create_next(self, manifest: Manifest) -> None:
        """Make ``manifest`` the current one, durably; its number is one past the one it replaces.

        ObjectExistsError means that another writer was first: this one must step down. After a BucketError
        the outcome is unknown; :meth:`newest` tells it.
        """
        await self._objects.create_newest(manifest.number, encode_manifest(manifest))

    async def delete_before(self, number: int) -> None:
        """Remove older manifests; they are not needed once there is a newer one."""
        await self._objects.delete_before(number)

"""Artifacts: large payloads in the bucket, by workspace and digest.

An artifact consists of two objects, its bytes and its description. The description is created last, so once
it exists, the artifact is complete and durable.
"""

import asyncio
from weakref import WeakValueDictionary

import msgspec

from durable_sessions.bucket.fetch import digest as sha256
from durable_sessions.bucket.fetch import fetch_object
from durable_sessions.bucket.layout import ARTIFACT_ABOUT, ARTIFACTS, artifact_path
from durable_sessions.bucket.objects import ObjectStore
from durable_sessions.clock import Clock
from durable_sessions.errors import (
    ArtifactMismatchError,
    ArtifactNotFoundError,
    ObjectDamagedError,
    ObjectExistsError,
    ObjectNotFoundError,
)
from durable_sessions.storage.quotas import Quotas
from durable_sessions.streams.state import State
from durable_sessions.threads import CPU


class ArtifactInfo(msgspec.Struct, frozen=True):
    """The description of an artifact, as given by the request that stored it first."""

    bytes: int
    content_type: str
    created_at_ms: int


class Artifacts:
    """Stores and returns artifacts; one workspace never learns what another has."""

    def __init__(self, bucket: ObjectStore, state: State, quotas: Quotas, clock: Clock) -> None:
        self._bucket = bucket
        self._state = state
        self._quotas = quotas
        self._clock = clock
        # Weak, so that a lock exists only while somebody holds it or waits for it.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def _alone(self, path: str) -> asyncio.Lock:
        """Return the lock that serialises storing and deleting of one artifact."""
        lock = self._locks.get(path)
        if lock is None:
            lock = self._locks[path] = asyncio.Lock()
        return lock

    async def count(self) -> None:
        """Count the artifacts that exist already, for the quotas."""
        for info in await self._bucket.list(ARTIFACTS):
            _, workspace, *_ = info.path.split("/")
            if not info.path.endswith(ARTIFACT_ABOUT):
                self._quotas.count_artifact(workspace, info.size)

    async def find(self, workspace: str, digest: str) -> ArtifactInfo:
        """Return the description of an artifact, or refuse if there is none."""
        path = artifact_path(workspace, digest) + ARTIFACT_ABOUT
        try:
            return msgspec.json.decode(await self._bucket.get(path), type=ArtifactInfo)
        except ObjectNotFoundError:
            raise ArtifactNotFoundError(digest=digest) from None
        except msgspec.MsgspecError as error:
            raise ObjectDamagedError(path=path, problem=str(error)) from error

    async def read(self, workspace: str, digest: str, info: ArtifactInfo) -> bytes:
        """Return the bytes of an artifact, checked against its digest."""
        try:
            return await fetch_object(self._bucket, artifact_path(workspace, digest), info.bytes, digest)
        except ObjectNotFoundError:
            await self.find(workspace, digest)  # raises "not found" if it was deleted since
            raise

    async def delete(self, workspace: str, digest: str) -> None:
        """Delete an artifact durably; it is no error if there is none.

        The description is deleted first: bytes without one do not count as an artifact, and the next request
        to store the same bytes writes them again.
        """
        path = artifact_path(workspace, digest)
        async with self._alone(path):
            try:
                info: ArtifactInfo | None = await self.find(workspace, digest)
            except (ArtifactNotFoundError, ObjectDamagedError):
                info = None
            await self._bucket.delete([path + ARTIFACT_ABOUT])
            await self._bucket.delete([path])
        if info is not None:
            self._quotas.forget_artifact(workspace, info.bytes)

    async def store(
        self, workspace: str, digest: str, data: bytes, content_type: str
    ) -> tuple[ArtifactInfo, bool]:
        """Store an artifact durably, unless it exists; return its description, and whether it is new."""
        found = await CPU.run(sha256, data)
        if found != digest:
            raise ArtifactMismatchError(found=found, expected=digest)
        async with self._alone(artifact_path(workspace, digest)):
            return await self._store(workspace, digest, data, content_type)

    async def _store(
        self, workspace: str, digest: str, data: bytes, content_type: str
    ) -> tuple[ArtifactInfo, bool]:
        try:
            return await self.find(workspace, digest), False
        except ArtifactNotFoundError:
            pass
        self._quotas.reserve(self._state, workspace, len(data))
        info = ArtifactInfo(len(data), content_type, self._clock.now_ms())
        try:
            await self._write(artifact_path(workspace, digest), digest, data, info)
        except ObjectExistsError:  # a concurrent request has stored the same bytes
            self._quotas.release(workspace, len(data))
            return await self.find(workspace, digest), False
        except BaseException:
            self._quotas.release(workspace, len(data))
            raise
        return info, True

    async def _write(self, path: str, digest: str, data: bytes, info: ArtifactInfo) -> None:
        try:
            await self._bucket.create(path, data)
        except ObjectExistsError:
            # Bytes without a description, left by a process that died in between. They are reused only if
            # their digest is right.
            stored = await self._bucket.get(path)
            if await CPU.run(sha256, stored) != digest:
                await self._bucket.put(path, data)
        await self._bucket.create(path + ARTIFACT_ABOUT, msgspec.json.encode(info))

"""Artifacts: large payloads in the bucket, by workspace and digest.

An artifact consists of two objects, its bytes and its description. The description is created last, so once
it exists, the artifact is complete and durable.
"""

import asyncio
from collections.abc import Callable
from weakref import WeakValueDictionary

import msgspec

from durable_sessions.bucket.fetch import digest as sha256
from durable_sessions.bucket.fetch import fetch_object
from durable_sessions.bucket.layout import ARTIFACT_ABOUT, ARTIFACTS, artifact_path
from durable_sessions.bucket.objects import Listing, ObjectStore
from durable_sessions.clock import Clock
from durable_sessions.errors import (
    ArtifactMismatchError,
    ArtifactNotFoundError,
    ArtifactRedactedError,
    ObjectDamagedError,
    ObjectExistsError,
    ObjectNotFoundError,
)
from durable_sessions.storage.quotas import Quotas
from durable_sessions.streams.state import State
from durable_sessions.threads import CPU


class ArtifactInfo(msgspec.Struct, frozen=True):
    """The description of an artifact, as given by the request that stored it first.

    With ``redacted_at_ms`` its bytes are gone for good, and only the description is left. ``used_at_ms`` is
    when somebody stored it once more, or was about to name it, if that was long after it was made.
    """

    bytes: int
    content_type: str
    created_at_ms: int
    redacted_at_ms: int | None = None
    used_at_ms: int | None = None

    @property
    def wanted_at_ms(self) -> int:
        """When somebody wanted it last, near enough."""
        return self.created_at_ms if self.used_at_ms is None else self.used_at_ms


class Artifacts:
    """Stores and returns artifacts; one workspace never learns what another has."""

    def __init__(
        self, bucket: ObjectStore, state: State, quotas: Quotas, clock: Clock, grace_seconds: float
    ) -> None:
        self._grace_ms = int(grace_seconds * 1000)
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

    async def count(self, owns: Callable[[str], bool] = lambda workspace: True) -> None:
        """Count the artifacts that exist already, for the quotas of the workspaces that are counted here."""
        for info in await self._bucket.list(ARTIFACTS):
            _, workspace, *_ = info.path.split("/")
            if not info.path.endswith(ARTIFACT_ABOUT) and owns(workspace):
                self._quotas.count_artifact(workspace, info.size)

    async def find(self, workspace: str, digest: str) -> ArtifactInfo:
        """Return the description of an artifact, or refuse if there is none, or if it was redacted."""
        info = await self._described(workspace, digest)
        if info.redacted_at_ms is not None:
            raise ArtifactRedactedError(digest=digest)
        return info

    async def require_known(self, workspace: str, digest: str) -> None:
        """Refuse if there never was such an artifact; one that was redacted is known."""
        await self._described(workspace, digest)

    async def redact(self, workspace: str, digest: str) -> None:
        """Delete the bytes of an artifact durably, for good: they cannot be stored again."""
        path = artifact_path(workspace, digest)
        async with self._alone(path):
            info = await self._described(workspace, digest)
            if info.redacted_at_ms is None:
                gone = msgspec.structs.replace(info, redacted_at_ms=self._clock.now_ms())
                await self._bucket.put(path + ARTIFACT_ABOUT, msgspec.json.encode(gone))
                self._quotas.forget_artifact(workspace, info.bytes)
            # Also after the description says so: an earlier attempt may have ended in between.
            await self._bucket.delete([path])

    # What nothing names -------------------------------------------------------------------

    async def unwanted(self, owns: Callable[[str], bool]) -> dict[str, list[str]]:
        """Return the artifacts owned here that nobody has wanted within the grace time, by workspace.

        Bytes without a description are among them, which a process left that died. Redacted ones are not.
        """
        listing = await self._bucket.list(ARTIFACTS)
        return await CPU.run(_unwanted, listing, owns, self._clock.now_ms() - self._grace_ms)

    def is_aging(self, info: ArtifactInfo) -> bool:
        """Say whether an artifact that is about to be named must be marked as wanted before that."""
        # If the clock was set back, the age is unknown.
        return not 0 <= self._clock.now_ms() - info.wanted_at_ms < self._grace_ms // 2

    async def want(self, workspace: str, digest: str) -> ArtifactInfo:
        """Let the grace time of an artifact begin anew, if it has not begun just now."""
        async with self._alone(artifact_path(workspace, digest)):
            return await self._want(workspace, digest)

    async def _want(self, workspace: str, digest: str) -> ArtifactInfo:
        info = await self.find(workspace, digest)
        if self.is_aging(info):
            info = msgspec.structs.replace(info, used_at_ms=self._clock.now_ms())
            path = artifact_path(workspace, digest) + ARTIFACT_ABOUT
            await self._bucket.put(path, msgspec.json.encode(info))
        return info

    async def remove_unnamed(self, workspace: str, digest: str) -> bool:
        """Delete an artifact that nothing names, unless somebody has wanted it meanwhile; say if it is gone.

        Whoever stores an artifact or is about to name it has marked it as wanted before, and the mark is
        looked for under the same lock: so it is seen here, or there is no artifact to be named.
        """
        path = artifact_path(workspace, digest)
        async with self._alone(path):
            try:
                info = await self._described(workspace, digest)
            except ArtifactNotFoundError:
                await self._bucket.delete([path])
                return True
            except ObjectDamagedError:
                return False  # whether somebody wants it is not known
            if info.redacted_at_ms is not None or self._clock.now_ms() - info.wanted_at_ms < self._grace_ms:
                return False
            await self._bucket.delete([path + ARTIFACT_ABOUT])
            await self._bucket.delete([path])
        self._quotas.forget_artifact(workspace, info.bytes)
        return True

    async def _described(self, workspace: str, digest: str) -> ArtifactInfo:
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
        """Delete an artifact durably; it is no error if there is none, or if it was redacted.

        The description is deleted first: bytes without one do not count as an artifact, and the next request
        to store the same bytes writes them again.
        """
        path = artifact_path(workspace, digest)
        async with self._alone(path):
            try:
                info: ArtifactInfo | None = await self.find(workspace, digest)
            except ArtifactRedactedError:
                return
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
            return await self._want(workspace, digest), False
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


def _unwanted(listing: Listing, owns: Callable[[str], bool], oldest_ms: int) -> dict[str, list[str]]:
    times = {info.path: info.modified_at_ms for info in listing}
    found: dict[str, list[str]] = {}
    for path, modified_at_ms in times.items():
        if path.endswith(ARTIFACT_ABOUT):
            continue
        _, workspace, *_, digest = path.split("/")
        if times.get(path + ARTIFACT_ABOUT, modified_at_ms) < oldest_ms and owns(workspace):
            found.setdefault(workspace, []).append(digest)
    return found

"""Changes of artifacts from any partition: the one that owns a workspace's artifacts carries them out.

It counts them for the quota, and lets only one change of an artifact happen at a time. Whoever reads an
artifact takes it from the bucket.
"""

from typing import NamedTuple

import msgspec

from durable_sessions.access.caller import Caller
from durable_sessions.errors import ArtifactNotFoundError, QuotaExceededError
from durable_sessions.http.api.neighbours import Neighbours, on_behalf_of
from durable_sessions.http.carrier.message import Request
from durable_sessions.storage.artifacts import Artifacts

CHANGE = b"/internal/artifact"
"""Where an owner carries out the changes of others."""
FOLDER = "__artifacts"
"""The folder whose home owns the artifacts of a workspace."""


class ArtifactChange(NamedTuple):
    """An artifact to be stored; if there is no type, to be redacted, or with ``wanted`` only to be kept."""

    digest: str
    data: bytes = b""
    content_type: str | None = None
    wanted: bool = False


class ArtifactChanged(msgspec.Struct, frozen=True):
    """What came of a change: nothing to say, the quota that it would exceed, or that there is no artifact."""

    most: int | None = None
    what: str = ""
    setting: str = ""
    is_missing: bool = False


class ArtifactOwner:
    """Stores and redacts artifacts wherever their owner is."""

    def __init__(self, artifacts: Artifacts, neighbours: Neighbours) -> None:
        self._artifacts = artifacts
        self._neighbours = neighbours

    async def store(self, caller: Caller, digest: str, data: bytes, content_type: str) -> None:
        """Store an artifact durably, unless it exists."""
        await self._change(caller, ArtifactChange(digest, data, content_type))

    async def redact(self, caller: Caller, digest: str) -> None:
        """Erase the bytes of an artifact for good."""
        await self._change(caller, ArtifactChange(digest))

    async def require(self, workspace: str, digest: str) -> None:
        """Refuse if there is no such artifact; one that is there stays long enough to be named."""
        info = await self._artifacts.find(workspace, digest)
        if self._artifacts.is_aging(info):
            await self._change(on_behalf_of(workspace), ArtifactChange(digest, wanted=True))

    async def _change(self, caller: Caller, change: ArtifactChange) -> None:
        if self._neighbours.is_home(caller.workspace, FOLDER):
            await self._carry_out(caller, change)
            return
        owner = self._neighbours.home(caller.workspace, FOLDER)
        said: ArtifactChanged = await self._neighbours.change(owner, CHANGE, caller, change, ArtifactChanged)
        if said.is_missing:
            raise ArtifactNotFoundError(digest=change.digest)
        if said.most is not None:
            raise QuotaExceededError(most=said.most, what=said.what, setting=said.setting)

    async def _carry_out(self, caller: Caller, change: ArtifactChange) -> None:
        if change.wanted:
            await self._artifacts.want(caller.workspace, change.digest)
        elif change.content_type is None:
            await self._artifacts.redact(caller.workspace, change.digest)
        else:
            await self._artifacts.store(caller.workspace, change.digest, change.data, change.content_type)

    async def answer(self, request: Request, caller: Caller) -> ArtifactChanged:
        """Carry out a change for another partition."""
        try:
            await self._carry_out(caller, msgspec.msgpack.decode(request.body, type=ArtifactChange))
        except QuotaExceededError as refused:
            return msgspec.convert(refused.fields, ArtifactChanged)
        except ArtifactNotFoundError:
            return ArtifactChanged(is_missing=True)
        return ArtifactChanged()

"""Removes artifacts that nothing names any more, in any partition.

No counter is kept that could drift: the partition that owns the artifacts of a workspace asks all partitions
which of them they name. If one does not answer, nothing is removed. An artifact goes when nobody has wanted
it within the grace time and two looks in a row have found it unnamed, so that no event that moves from one
partition to another is missed between two answers.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection

import msgspec
import structlog

from durable_sessions.access.caller import Caller
from durable_sessions.errors import DurableSessionsError
from durable_sessions.http.api.artifact_owner import FOLDER
from durable_sessions.http.api.neighbours import Neighbours, on_behalf_of
from durable_sessions.http.carrier.message import Request
from durable_sessions.limits import Limits
from durable_sessions.storage.artifacts import Artifacts

logger = structlog.get_logger(__name__)

NAMED = b"/internal/named-artifacts"
"""Where a partition says which artifacts it names."""
Named = Callable[[str, Collection[str]], Awaitable[set[str]]]
"""Returns those of some artifacts of a workspace that this partition names."""


class ArtifactSweep:
    """Looks after the artifacts of the workspaces that this partition owns, and answers the other owners.

    ``is_held`` says that all sessions are under a legal hold: then nothing is removed.
    """

    def __init__(
        self, artifacts: Artifacts, named: Named, neighbours: Neighbours, limits: Limits, *, is_held: bool
    ) -> None:
        self._artifacts = artifacts
        self.named_here = named
        self._neighbours = neighbours
        self._limits = limits
        self._is_held = is_held
        self._suspects: set[tuple[str, str]] = set()
        self.removed = 0
        self.sweeps = 0
        self.failures = 0

    async def run(self) -> None:
        """Look again and again until cancelled."""
        while True:
            await asyncio.sleep(self._limits.artifact_sweep_seconds)
            try:
                await self.sweep()
            except DurableSessionsError as error:
                self.failures += 1
                logger.warning("artifact_sweep_failed", reason=str(error))

    async def sweep(self) -> int:
        """Remove what was unnamed the last time and still is; return how many artifacts that were."""
        if self._is_held:
            return 0
        unwanted = await self._artifacts.unwanted(self._is_owner)
        suspects: set[tuple[str, str]] = set()
        removed = 0
        for workspace, digests in unwanted.items():
            for begin in range(0, len(digests), self._limits.artifact_question_max):
                some = digests[begin : begin + self._limits.artifact_question_max]
                for digest in sorted(set(some) - await self._named(workspace, some)):
                    if (workspace, digest) in self._suspects:
                        removed += await self._artifacts.remove_unnamed(workspace, digest)
                    elif len(suspects) < self._limits.artifact_suspects_max:
                        suspects.add((workspace, digest))
        self._suspects = suspects
        self.removed += removed
        self.sweeps += 1
        return removed

    async def answer(self, request: Request, caller: Caller) -> list[str]:
        """Say which artifacts this partition names to the partition that owns them."""
        asked = msgspec.msgpack.decode(request.body, type=list[str])
        return sorted(await self.named_here(caller.workspace, asked))

    def _is_owner(self, workspace: str) -> bool:
        return self._neighbours.is_home(workspace, FOLDER)

    async def _named(self, workspace: str, digests: Collection[str]) -> set[str]:
        named = await self.named_here(workspace, digests)
        for other in self._neighbours.others:
            left = [digest for digest in digests if digest not in named]
            if left:
                named.update(
                    await self._neighbours.read(other, NAMED, on_behalf_of(workspace), left, list[str])
                )
        return named

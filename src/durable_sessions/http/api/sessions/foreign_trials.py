"""The trials of a workspace in all partitions."""

import msgspec

from durable_sessions.access.caller import Caller
from durable_sessions.errors import LinkDownError, ViewUnavailableError
from durable_sessions.http.api.neighbours import Neighbours, on_behalf_of
from durable_sessions.http.carrier.message import Request
from durable_sessions.limits import Limits
from durable_sessions.sessions.dossier.trials import PartitionTrials, TrialRun, require_few

TRIALS = b"/internal/trials"
"""Where a partition says which trials of something it has."""


class ForeignTrials:
    """Asks each partition for its trials; without one of them there is no answer."""

    def __init__(self, own: PartitionTrials, neighbours: Neighbours, limits: Limits) -> None:
        self._own = own
        self._neighbours = neighbours
        self._limits = limits

    async def of(self, workspace: str, name: str) -> list[TrialRun]:
        """Return the trials of something, by the names of their sessions."""
        found = await self._own.of(workspace, name)
        for partition in self._neighbours.others:
            try:
                found += await self._neighbours.read(
                    partition, TRIALS, on_behalf_of(workspace), name, list[TrialRun]
                )
            except LinkDownError as error:
                problem = "Some trials cannot be looked up now."
                raise ViewUnavailableError(problem=problem) from error
        require_few(len(found), self._limits)
        return sorted(found)

    async def answer(self, request: Request, caller: Caller) -> list[TrialRun]:
        """Answer the question of another partition."""
        return await self._own.of(caller.workspace, msgspec.msgpack.decode(request.body, type=str))

"""What all engines of one process share."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from durable_sessions.access.key_table import KeyTable
from durable_sessions.clock import Clock
from durable_sessions.http.api.first_key import FirstKey
from durable_sessions.http.api.health import Health
from durable_sessions.http.carrier.message import Answer, Handler, Request
from durable_sessions.ids import Ids
from durable_sessions.limits import Limits
from durable_sessions.log import Claimant, MeasuredLog
from durable_sessions.log.disk import Disk
from durable_sessions.node.supervisor import Supervisor
from durable_sessions.partition_id import PartitionId
from durable_sessions.settings import Settings
from durable_sessions.tier.flush_process import FlushProcess


class Entrance:
    """Answers requests as this process answers those of clients; the node says how."""

    handle: Handler

    def __call__(self, request: Request) -> Answer | Awaitable[Answer]:
        """Answer a request."""
        return self.handle(request)


@dataclass(frozen=True, slots=True)
class SharedLogs:
    """The logs of partitions if other machines reach them too: how to open one, and who claims it."""

    open: Callable[[PartitionId], Awaitable[MeasuredLog]]
    claimant: Claimant


@dataclass(frozen=True, slots=True)
class ProcessParts:
    """The parts of a process that outlive its engines; ``logs`` is None if they are in the data directory."""

    settings: Settings
    limits: Limits
    clock: Clock
    ids: Ids
    disk: Disk
    supervisor: Supervisor
    health: Health
    keys: KeyTable
    first_key: FirstKey
    entrance: Entrance
    flushing: FlushProcess
    logs: SharedLogs | None = None

    def offer_first_key(self) -> None:
        """Write the token for the first key to the data directory, if there is no key yet."""
        if self.keys.required:
            self.first_key.withdraw()
        else:
            self.first_key.offer(None if self.health.server is None else self.health.server.port)

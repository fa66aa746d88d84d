"""The workers that share a data directory: who this process is among them, and how it reaches the others."""

from dataclasses import dataclass
from pathlib import Path

from durable_sessions.limits import Limits
from durable_sessions.node.link import NodeLink
from durable_sessions.node.link_address import UnixAddress
from durable_sessions.node.link_handshake import SECRET_BYTES_MIN
from durable_sessions.node.worker_id import WorkerId


@dataclass(frozen=True, slots=True)
class WorkerGroup:
    """One worker, the directory of the sockets that all of them listen on, and the secret they share."""

    worker: WorkerId
    sockets: Path
    secret: bytes

    def __post_init__(self) -> None:
        if len(self.secret) < SECRET_BYTES_MIN:
            raise ValueError(f"the secret of workers needs at least {SECRET_BYTES_MIN} bytes")

    @property
    def address(self) -> UnixAddress:
        """Where this worker accepts links."""
        return self._address(self.worker.number)

    def links(self, limits: Limits) -> dict[int, NodeLink]:
        """Return the links to the other workers, by number; they connect when they are used."""
        others = (number for number in range(self.worker.of) if number != self.worker.number)
        return {number: NodeLink(self._address(number), self.secret, limits) for number in others}

    def _address(self, number: int) -> UnixAddress:
        return UnixAddress(self.sockets / f"link-{number}")

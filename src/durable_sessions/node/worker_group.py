"""The workers that share a data directory: who this process is among them, and how it reaches the others."""

import hmac
from dataclasses import dataclass
from pathlib import Path

from durable_sessions.limits import Limits
from durable_sessions.node.handover import HandOverSender
from durable_sessions.node.link import NodeLink
from durable_sessions.node.link_address import UnixAddress
from durable_sessions.node.link_handshake import SECRET_BYTES_MIN
from durable_sessions.node.worker_id import WorkerId

_FIRST_KEY = b"first key"


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

    @property
    def hand_overs(self) -> Path:
        """Where this worker takes connections."""
        return self._hand_overs(self.worker.number)

    @property
    def first_key_token(self) -> str:
        """The proof for the first key, which every worker recognises."""
        return hmac.digest(self.secret, _FIRST_KEY, "sha256").hex()

    def links(self, limits: Limits) -> dict[int, NodeLink]:
        """Return the links to the other workers, by number; they connect when they are used."""
        return {number: NodeLink(self._address(number), [self.secret], limits) for number in self._others()}

    def senders(self, limits: Limits) -> dict[int, HandOverSender]:
        """Return what gives connections to the other workers, by number."""
        return {number: HandOverSender(self._hand_overs(number), limits) for number in self._others()}

    def forget_sockets(self) -> None:
        """Remove the sockets of this worker, and the directory with the last of them."""
        for path in (self.hand_overs, self.sockets / f"link-{self.worker.number}"):
            path.unlink(missing_ok=True)
        try:
            self.sockets.rmdir()
        except OSError:
            pass  # another worker still has its own there

    def _others(self) -> list[int]:
        return [number for number in range(self.worker.of) if number != self.worker.number]

    def _address(self, number: int) -> UnixAddress:
        return UnixAddress(self.sockets / f"link-{number}")

    def _hand_overs(self, number: int) -> Path:
        return self.sockets / f"hand-over-{number}"

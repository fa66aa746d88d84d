"""What a worker is told at its start: who it is among the workers, and what all of them have in common."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from durable_sessions.limits import Limits
from durable_sessions.node.worker_group import WorkerGroup
from durable_sessions.node.worker_id import WorkerId
from durable_sessions.settings import Settings


@dataclass(frozen=True, slots=True)
class WorkerStart:
    """The settings and limits of the server, and the place of one worker in its group.

    The settings are those that the supervisor has read: all workers have the same, also one that is started
    again after somebody has changed the file.
    """

    settings: Settings
    limits: Limits
    group: WorkerGroup

    def of(self, worker: WorkerId) -> "WorkerStart":
        """Return the same for another worker."""
        return replace(self, group=replace(self.group, worker=worker))

    def encode(self) -> bytes:
        """Return it as bytes; they contain secrets."""
        return msgspec.msgpack.encode(self, enc_hook=_encode_path)

    @staticmethod
    def decode(data: bytes) -> "WorkerStart":
        """Return what was encoded."""
        return msgspec.msgpack.decode(data, type=WorkerStart, dec_hook=_decode_path)


def _encode_path(value: object) -> str:
    assert isinstance(value, Path), "everything else in the settings is plain"
    return str(value)


def _decode_path(kind: type, value: Any) -> Path:
    assert kind is Path, "everything else in the settings is plain"
    return Path(value)

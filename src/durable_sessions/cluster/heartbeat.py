"""What nodes tell each other, several times within the time after which a silent one counts as dead."""

from dataclasses import dataclass

import msgspec


@dataclass(frozen=True, slots=True)
class Timing:
    """How often nodes tell that they live, and what follows from silence, in seconds.

    ``proof`` is how long an owner answers from its state after an acknowledged frame; nobody else answers
    before ``wait`` has passed since that frame was seen: longer, for clocks differ in rate.
    """

    beat: float
    suspect: float
    dead: float
    proof: float

    @property
    def wait(self) -> float:
        """How long after the last frame of an owner its successor waits before it answers."""
        return self.proof * CLOCK_RATES


CLOCK_RATES = 1.1
"""The factor by which the clocks of two machines may run at different speeds."""
NATS_TIMING = Timing(beat=0.5, suspect=1.2, dead=4.0, proof=3.0)
BUCKET_TIMING = Timing(beat=3.0, suspect=6.0, dead=12.0, proof=10.0)
"""Slower, for every heartbeat is a PUT and every look a LIST."""


class NodeHeartbeat(msgspec.Struct, frozen=True, omit_defaults=True):
    """A node as it is now.

    ``node`` is random for each process, ``name`` is what people call it, ``link`` where other nodes reach it
    and ``url`` where clients do. ``epoch`` and ``tail`` are the claim of an owner and its last position. An
    owner that has given the log up says to whom (``released_to``), and with which frame (``tail``).
    ``number`` grows with each heartbeat of a process.
    """

    node: str
    name: str
    link: str
    url: str = ""
    version: str = ""
    number: int = 0
    wall_ms: int = 0
    owns: bool = False
    epoch: int = 0
    tail: int = 0
    released_to: str = ""
    draining: bool = False

    def encode(self) -> bytes:
        """Return it as bytes."""
        return msgspec.json.encode(self)

    @staticmethod
    def decode(data: bytes) -> "NodeHeartbeat | None":
        """Return a heartbeat; None if these bytes are none."""
        try:
            return msgspec.json.decode(data, type=NodeHeartbeat)
        except msgspec.MsgspecError:
            return None

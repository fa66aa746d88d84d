"""What nodes tell each other, several times within the time after which a silent one counts as dead."""

from dataclasses import dataclass

import msgspec


@dataclass(frozen=True, slots=True)
class Timing:
    """How often nodes tell that they live, and what follows from silence, in seconds.

    ``quiet`` is when the log of an owner is looked at, so that it is known since when it does not grow: the
    next owner waits from then on. A process that heard nothing until ``suspect`` is cut off or stood still.
    ``proof`` is how long an owner answers from its state after an acknowledged frame; nobody else answers
    before ``wait`` has passed since that frame was seen: longer, for clocks differ in rate.
    """

    beat: float
    quiet: float
    suspect: float
    dead: float
    proof: float

    @property
    def wait(self) -> float:
        """How long after the last frame of an owner its successor waits before it answers."""
        return self.proof * CLOCK_RATES


CLOCK_RATES = 1.1
"""The factor by which the clocks of two machines may run at different speeds."""
NATS_TIMING = Timing(beat=0.5, quiet=1.2, suspect=2.0, dead=4.0, proof=3.0)
BUCKET_TIMING = Timing(beat=3.0, quiet=6.0, suspect=6.0, dead=12.0, proof=10.0)
"""Slower, for every heartbeat is a PUT and every look a LIST."""


class PartitionBeat(msgspec.Struct, frozen=True, omit_defaults=True):
    """A partition as a node sees it that owns it, has just given it up, or is ready to take it over.

    ``epoch`` and ``tail`` are the claim of its owner and the last position. An owner that wants to give it
    up says to whom (``moving_to``); once it has, ``released_to`` says so, and ``tail`` is the frame that
    did. ``catalog`` is the manifest that a shadow's copy of the catalog is of.
    """

    number: int
    owns: bool = False
    epoch: int = 0
    tail: int = 0
    moving_to: str = ""
    released_to: str = ""
    catalog: int = 0


class NodeHeartbeat(msgspec.Struct, frozen=True, omit_defaults=True):
    """A node as it is now.

    ``node`` is random for each process, ``name`` is what people call it, ``link`` where other nodes reach it
    and ``url`` where clients do. ``number`` grows with each heartbeat of a process. ``placement`` is the
    number of the operator's wishes that the node has read. ``problem`` says what keeps it from owning more,
    or what else is wrong with it. ``no_bucket`` says that it does not reach the bucket, and so can take no
    partition over. ``settings`` are digits that differ where settings do. ``level`` is the newest format
    level that the node reads.
    """

    node: str
    name: str
    link: str
    url: str = ""
    version: str = ""
    number: int = 0
    wall_ms: int = 0
    draining: bool = False
    no_bucket: bool = False
    placement: int = 0
    problem: str = ""
    settings: str = ""
    level: int = 1
    partitions: tuple[PartitionBeat, ...] = ()

    def partition(self, number: int) -> PartitionBeat | None:
        """Return what the node says of a partition, None if nothing."""
        return next((one for one in self.partitions if one.number == number), None)

    @property
    def owned(self) -> list[PartitionBeat]:
        """The partitions that the node owns."""
        return [one for one in self.partitions if one.owns]

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

"""Effects: what the log holds. Facts, not commands, so replay never validates again.

Tags and the order of fields are part of the log format (``docs/formats/log.md``): a field is
only ever added at the end, with a default, and a tag is never used for anything else.
"""

import msgspec


class StreamCreated(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """A stream exists from now on, empty, with ``tail == base``."""

    stream: int
    workspace: str
    path: str
    content_type: str
    created_at_ms: int
    ttl_seconds: int | None = None
    expires_at_ms: int | None = None
    parent: int | None = None
    base: int = 0
    fork_at_tail: bool = False


class ScopeCreated(StreamCreated, frozen=True, array_like=True, tag=10):
    """A stream exists whose records repeat what events of other streams say, such as a memory scope.

    It is an effect of its own for the sake of older programs, which refuse it: they would erase such an event
    and leave its record.
    """


class Name(msgspec.Struct, frozen=True, array_like=True):
    """What some records of one append are called, so that they can be found and are not appended twice.

    ``check`` has a meaning only for the code that gives names.
    """

    name: str
    first: int
    count: int
    check: int = 0


class RecordsAppended(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """Records, their names, producer state and close flag of one append, together or not at all."""

    stream: int
    first: int
    at_ms: int
    lengths: tuple[int, ...]
    producer: tuple[str, int, int] | None
    seq: str | None
    closed: bool
    data: bytes
    names: tuple[Name, ...] = ()

    @property
    def next(self) -> int:
        """The position after the last record."""
        return self.first + (len(self.lengths) or len(self.data))


class StreamRemoved(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """A stream is gone; with ``soft`` its records stay for its forks and its path is blocked."""

    stream: int
    soft: bool = False


class StreamTouched(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """A stream that is removed if nobody uses it was used at this time."""

    stream: int
    at_ms: int


class StreamDescribed(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """Some attributes of a stream, each a JSON text, have these values from now on; None removes one."""

    stream: int
    at_ms: int
    attributes: dict[str, bytes | None]


class PathFreed(msgspec.Struct, frozen=True, array_like=True, tag=6):
    """A deleted stream that is kept for its forks has no path any more: another stream can have it."""

    stream: int


HELD, EMPTIED, EMPTIED_PREFIX = 1, 0, 2
"""What a record does: it holds a slot, empties it, or empties all slots whose names have a prefix."""


class SlotChange(msgspec.Struct, frozen=True, array_like=True):
    """What the record at a position does with a slot, or with all slots whose names begin with ``name``."""

    position: int
    name: str
    kind: int = HELD


class SlotsChanged(msgspec.Struct, frozen=True, array_like=True, tag=7):
    """The records of an append of the same batch hold or empty slots.

    ``used`` is how many different slots the stream's own records have held or emptied by their names so far.
    """

    stream: int
    used: int
    changes: tuple[SlotChange, ...]


class ErasedRecord(msgspec.Struct, frozen=True, array_like=True):
    """What is read in place of the record at a position: ``data`` is a JSON value and its comma.

    Forks with a number below ``spares`` go on reading the record itself; 0 spares none.
    """

    position: int
    data: bytes
    spares: int = 0


class RecordsErased(msgspec.Struct, frozen=True, array_like=True, tag=8):
    """Some records of a JSON stream are gone for every reader; other values stand in their places.

    ``bytes_freed`` is how many fewer bytes the records have. ``names`` replace what the records were called.
    """

    stream: int
    at_ms: int
    records: tuple[ErasedRecord, ...]
    bytes_freed: int = 0
    names: tuple[Name, ...] = ()


class ErasuresSettled(msgspec.Struct, frozen=True, array_like=True, tag=9):
    """The erased records at these positions are gone from log and bucket; what replaces them is stored."""

    stream: int
    positions: tuple[int, ...]


class SubscriptionCreated(msgspec.Struct, frozen=True, array_like=True, tag=16):
    """A subscription exists from now on; ``config`` is its normalised configuration as JSON."""

    workspace: str
    id: str
    config: bytes
    base_url: str
    created_at_ms: int


class SubscriptionRemoved(msgspec.Struct, frozen=True, array_like=True, tag=17):
    """A subscription is gone."""

    workspace: str
    id: str


class Linked(msgspec.Struct, frozen=True, array_like=True, tag=18):
    """A subscription watches these streams, each as (path, explicit, acked, stream).

    It replaces what was known of a path. ``acked`` is -1 before the first record; ``stream``
    is None while nothing exists at the path.
    """

    workspace: str
    id: str
    links: tuple[tuple[str, bool, int, int | None], ...]


class Unlinked(msgspec.Struct, frozen=True, array_like=True, tag=19):
    """A subscription no longer watches these streams."""

    workspace: str
    id: str
    paths: tuple[str, ...]


class Woken(msgspec.Struct, frozen=True, array_like=True, tag=20):
    """A wake was issued: a new generation; ``snapshot`` is what a webhook's "done" acknowledges."""

    workspace: str
    id: str
    generation: int
    wake_id: str
    snapshot: dict[str, int]


class WakeClaimed(msgspec.Struct, frozen=True, array_like=True, tag=21):
    """A worker holds the current wake until the lease ends."""

    workspace: str
    id: str
    holder: str
    lease_until_ms: int


class Acked(msgspec.Struct, frozen=True, array_like=True, tag=22):
    """Positions were processed; the lease of the current wake moves to ``lease_until_ms``."""

    workspace: str
    id: str
    acks: dict[str, int]
    lease_until_ms: int


class WakeEnded(msgspec.Struct, frozen=True, array_like=True, tag=23):
    """The current wake is over: done, released or its lease has run out."""

    workspace: str
    id: str


class Delivered(msgspec.Struct, frozen=True, array_like=True, tag=24):
    """The webhook of the current wake was accepted by its receiver, who has the lease from now on."""

    workspace: str
    id: str
    lease_until_ms: int


class DeliveryFailed(msgspec.Struct, frozen=True, array_like=True, tag=25):
    """The webhook of the current wake was not accepted and is tried again later."""

    workspace: str
    id: str
    retries: int
    next_attempt_at_ms: int


class StreamTold(msgspec.Struct, frozen=True, array_like=True, tag=26):
    """A stream of another partition, which may be watched, has this tail; without a tail it is gone."""

    workspace: str
    path: str
    stream: int
    base: int
    tail: int | None


class OutboxAdded(msgspec.Struct, frozen=True, array_like=True, tag=32):
    """The partition owes a record, one JSON message, to a stream of another partition.

    ``source`` is the lineage of the log; with it ``number``, which grows, names the record for ever.
    """

    number: int
    source: str
    workspace: str
    path: str
    data: bytes


class OutboxDelivered(msgspec.Struct, frozen=True, array_like=True, tag=33):
    """The owner of a target has acknowledged all entries for it up to this number."""

    workspace: str
    path: str
    through: int


StreamEffect = (
    StreamCreated
    | ScopeCreated
    | RecordsAppended
    | StreamRemoved
    | StreamTouched
    | StreamDescribed
    | PathFreed
    | SlotsChanged
    | RecordsErased
    | ErasuresSettled
)
SubscriptionEffect = (
    SubscriptionCreated
    | SubscriptionRemoved
    | Linked
    | Unlinked
    | Woken
    | WakeClaimed
    | Acked
    | WakeEnded
    | Delivered
    | DeliveryFailed
    | StreamTold
)
OutboxEffect = OutboxAdded | OutboxDelivered
Effect = StreamEffect | SubscriptionEffect | OutboxEffect

encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(Effect).decode

"""A stream for code that may read it but never change it.

Only effects change a :class:`~durable_sessions.streams.stream.Stream`. These protocols are what it shows to
everybody else: the same object, not a copy, with attributes that the type checker lets nobody assign.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from durable_sessions.streams.effects import Name, StreamCreated
from durable_sessions.streams.overlay import Overlay
from durable_sessions.streams.stream import NO_ATTRIBUTES, Key, Stream

if TYPE_CHECKING:
    from durable_sessions.streams.slots import UnflushedSlots


class StreamHeader(Protocol):
    """What never changes in the life of a stream, and whether that life is over."""

    @property
    def id(self) -> int:
        """Its number, which no other stream has or had."""
        ...

    @property
    def key(self) -> Key:
        """Its workspace and path."""
        ...

    @property
    def content_type(self) -> str:
        """The media type of its records."""
        ...

    @property
    def is_json(self) -> bool:
        """Whether positions count JSON messages; they count bytes otherwise."""
        ...

    @property
    def created_at_ms(self) -> int:
        """When it was created."""
        ...

    @property
    def ttl_seconds(self) -> int | None:
        """After how long without an access it expires, None if it has no such time."""
        ...

    @property
    def expires_at_ms(self) -> int | None:
        """When it expires, None if it has no such time."""
        ...

    @property
    def parent(self) -> int | None:
        """The number of the stream that it is a fork of, None if it is not a fork."""
        ...

    @property
    def base(self) -> int:
        """Its first own position; records before it are the parent's."""
        ...

    @property
    def held(self) -> bool:
        """Whether a legal hold keeps it and all of its records."""
        ...

    def expired(self, now_ms: int) -> bool:
        """Say whether its time is over."""
        ...


class StreamRecord(StreamHeader, Protocol):
    """Everything that decisions may depend on.

    Within a decision, and for a listener, it is the state at the tip; in a page of the catalog it is that of
    the last flush.
    """

    @property
    def tail(self) -> int:
        """The position after its last record."""
        ...

    @property
    def closed(self) -> bool:
        """Whether it takes no more records."""
        ...

    @property
    def soft_deleted(self) -> bool:
        """Whether it is deleted and kept only for its forks."""
        ...

    @property
    def freed(self) -> bool:
        """Whether it is deleted and has given up its path."""
        ...

    @property
    def forks(self) -> int:
        """How many forks need its records."""
        ...

    @property
    def mortal(self) -> bool:
        """Whether it may expire."""
        ...

    @property
    def attributes(self) -> Mapping[str, bytes]:
        """The documents that are kept with it; replaced as a whole, never changed in place."""
        ...

    @property
    def changed_at_ms(self) -> int:
        """When a record or an attribute changed last."""
        ...

    @property
    def overlay(self) -> Overlay:
        """Its erased records that are not gone from log and bucket yet."""
        ...

    @property
    def erasures(self) -> int:
        """How many records were erased; the number only grows."""
        ...

    @property
    def named(self) -> int:
        """How many of its records ever got a name."""
        ...

    @property
    def names(self) -> Mapping[str, Name] | None:
        """The names of those of its records that are not flushed yet."""
        ...

    @property
    def slot_changes(self) -> int:
        """How often its records ever held or emptied a slot, or emptied a prefix."""
        ...

    @property
    def slots_used(self) -> int:
        """How many different slots its records have held or emptied by their names."""
        ...

    @property
    def emptied_prefixes(self) -> int:
        """How often its records emptied all slots with a prefix."""
        ...

    @property
    def slots(self) -> "UnflushedSlots | None":
        """The changes of its slots that are not flushed yet."""
        ...


def as_created(created: StreamCreated, attributes: dict[str, bytes] = NO_ATTRIBUTES) -> StreamRecord:
    """Return a stream as it will be when its creation has been carried out, to go on deciding from there."""
    stream = Stream.of(created)
    stream.attributes = attributes
    return stream

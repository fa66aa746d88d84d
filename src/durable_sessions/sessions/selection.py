"""Which events a read wants: by type, by time, by thread."""

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from durable_sessions import lenient
from durable_sessions.sessions import originals
from durable_sessions.times import parse_rfc3339


class _Event(msgspec.Struct):
    """The members that a selection looks at; the server has set the time at which it was appended."""

    type: str = ""
    created_at: str = ""
    original_created_at: msgspec.Raw = lenient.NULL
    original_processed_at: msgspec.Raw = lenient.NULL
    session_thread_id: msgspec.Raw = lenient.NULL


_EVENT = msgspec.json.Decoder(_Event)


@dataclass(frozen=True, slots=True)
class Selection:
    """Conditions that all must hold; an empty one selects everything.

    ``types`` are exact, or end in ``.*`` and mean all that begin so. Times are in milliseconds, and those at
    which events happened: their original time if they bring one.
    With ``thread`` only its events are wanted; ``primary`` says that events without a thread are its.
    """

    types: tuple[str, ...] = ()
    after_ms: int | None = None
    from_ms: int | None = None
    before_ms: int | None = None
    through_ms: int | None = None
    thread: str | None = None
    primary: bool = False

    @property
    def everything(self) -> bool:
        """Whether no event is left out."""
        return self == EVERYTHING

    def matcher(self) -> Callable[[bytes], bool]:
        """Return a function that says of a stored event whether it is wanted."""
        exact = frozenset(kind for kind in self.types if not kind.endswith(".*"))
        prefixes = tuple(kind[:-1] for kind in self.types if kind.endswith(".*"))

        def matches(stored: bytes) -> bool:
            try:
                event = lenient.decode(_EVENT, stored)
            except msgspec.MsgspecError:
                return self.everything
            if self.types and event.type not in exact and not event.type.startswith(prefixes or ("\0",)):
                return False
            return self._in_time(event) and self._in_thread(event.session_thread_id)

        return matches

    def _in_time(self, event: _Event) -> bool:
        bounds = (self.after_ms, self.from_ms, self.before_ms, self.through_ms)
        if bounds == (None, None, None, None):
            return True
        at_ms = originals.instant_ms(event.original_created_at)
        if at_ms is None:
            at_ms = originals.instant_ms(event.original_processed_at)
        if at_ms is None:
            at_ms = parse_rfc3339(event.created_at) or 0
        return (
            (self.after_ms is None or at_ms > self.after_ms)
            and (self.from_ms is None or at_ms >= self.from_ms)
            and (self.before_ms is None or at_ms < self.before_ms)
            and (self.through_ms is None or at_ms <= self.through_ms)
        )

    def _in_thread(self, raw: msgspec.Raw) -> bool:
        if self.thread is None:
            return True
        thread = lenient.text(raw)
        return thread == self.thread or (self.primary and not thread)


EVERYTHING = Selection()

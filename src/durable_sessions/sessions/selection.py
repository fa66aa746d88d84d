"""The filter of a read: which events, by type, time and thread."""

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from durable_sessions import lenient
from durable_sessions.sessions import original_members
from durable_sessions.times import parse_rfc3339


class _Event(msgspec.Struct):
    """The members that a selection tests; ``created_at`` is set by the server."""

    type: str = ""
    created_at: str = ""
    original_created_at: msgspec.Raw = lenient.NULL
    original_processed_at: msgspec.Raw = lenient.NULL
    session_thread_id: msgspec.Raw = lenient.NULL
    source: msgspec.Raw = lenient.NULL


_EVENT = msgspec.json.Decoder(_Event)


@dataclass(frozen=True, slots=True)
class Selection:
    """Conditions that all must hold; an empty one selects everything.

    ``types`` are exact, or end in ``.*`` to match a prefix. Times are in milliseconds: the first four refer
    to when events were stored, the ``happened`` ones to when they happened, which is the original time of
    imported events; those without one match none of them. ``thread`` selects the events of one thread; with
    ``primary`` it is the one that events without a thread belong to.
    """

    types: tuple[str, ...] = ()
    after_ms: int | None = None
    from_ms: int | None = None
    before_ms: int | None = None
    through_ms: int | None = None
    happened_after_ms: int | None = None
    happened_before_ms: int | None = None
    thread: str | None = None
    primary: bool = False

    @property
    def everything(self) -> bool:
        """Whether every event is selected."""
        return self == EVERYTHING

    def matcher(self) -> Callable[[bytes], bool]:
        """Return a function that says whether a stored event is selected."""
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
        happened = (self.happened_after_ms, self.happened_before_ms)
        if (*bounds, *happened) == (None,) * 6:
            return True
        at_ms = parse_rfc3339(event.created_at) or 0
        return (
            (self.after_ms is None or at_ms > self.after_ms)
            and (self.from_ms is None or at_ms >= self.from_ms)
            and (self.before_ms is None or at_ms < self.before_ms)
            and (self.through_ms is None or at_ms <= self.through_ms)
            and (happened == (None, None) or self._happened_in_time(event, at_ms))
        )

    def _happened_in_time(self, event: _Event, stored_ms: int) -> bool:
        at_ms = original_members.instant_ms(event.original_created_at)
        if at_ms is None:
            at_ms = original_members.instant_ms(event.original_processed_at)
        if at_ms is None and original_members.is_import(event.source):
            return False  # nobody knows when
        if at_ms is None:
            at_ms = stored_ms
        return (self.happened_after_ms is None or at_ms > self.happened_after_ms) and (
            self.happened_before_ms is None or at_ms < self.happened_before_ms
        )

    def _in_thread(self, raw: msgspec.Raw) -> bool:
        if self.thread is None:
            return True
        thread = lenient.text(raw)
        return thread == self.thread or (self.primary and not thread)


EVERYTHING = Selection()

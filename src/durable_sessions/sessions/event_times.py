"""When an event happened: as it says itself, else when it was appended; as ``rendering`` tells it."""

import msgspec

from durable_sessions import lenient
from durable_sessions.times import parse_rfc3339


class EventTimes(msgspec.Struct):
    """The members of a stored event that tell its time, not decoded yet: clients may send anything."""

    created_at: str = ""
    original_created_at: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    original_processed_at: msgspec.Raw = lenient.NULL
    source: msgspec.Raw = lenient.NULL

    @property
    def happened_ms(self) -> int | None:
        """When it happened, None if nobody knows: an import without times does not say."""
        original = self.original_created_at
        if original is not msgspec.UNSET or self.original_processed_at is not lenient.NULL:
            for raw in (original, self.original_processed_at):
                text = None if raw is msgspec.UNSET else lenient.text(raw)
                at_ms = None if text is None else parse_rfc3339(text)
                if at_ms is not None and at_ms >= 0:
                    return at_ms
            if original is not msgspec.UNSET:
                return None
        if self.source is not lenient.NULL and b'"record_id"' in bytes(self.source):
            return None
        return parse_rfc3339(self.created_at)


_TIMES = msgspec.json.Decoder(EventTimes)


def happened_ms(event: bytes) -> int | None:
    """Return when a stored event happened, None if nobody knows."""
    try:
        return lenient.decode(_TIMES, event).happened_ms
    except (msgspec.MsgspecError, RecursionError):
        return None

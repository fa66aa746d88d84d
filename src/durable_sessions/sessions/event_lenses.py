"""Events of adapters with what they mean beside what they are: the member ``lens``."""

from collections.abc import Sequence

from durable_sessions.rendering import events, lenses

_MARK = b'"raw_format"'


def with_lens(event: bytes) -> bytes:
    """Return an event with the member ``lens`` if there is a lens for it; any other as it is stored."""
    if _MARK not in event:
        return event
    decoded = events.decode(event)
    meant = None if "lens" in decoded else lenses.meaning(decoded)
    return event if meant is None else b'%b,"lens":%b}' % (event[:-1], events.encode(meant))


def with_lenses(stored: Sequence[bytes]) -> list[bytes]:
    """Return events with what they mean."""
    return [with_lens(event) for event in stored]

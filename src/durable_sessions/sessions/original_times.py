"""When the events of an imported session happened: the attribute ``times``.

A session that was not imported has none: its events happened when they were appended.
"""

from collections.abc import Mapping, Sequence

import msgspec

from durable_sessions.sessions.drafts import UPDATED, Draft

TIMES = "times"


class Times(msgspec.Struct, omit_defaults=True, frozen=True):
    """The first and the last time, in milliseconds; without a last one, the stream's last change counts.

    Empty times mean that no event has brought a time of its own.
    """

    first_ms: int | None = None
    last_ms: int | None = None
    has_imports: bool = False
    """Whether events name the records of another tool that they were made from, which may have no times."""

    @property
    def is_imported(self) -> bool:
        """Whether the session was brought here: its events happened elsewhere, or earlier."""
        return self.has_imports or self.first_ms is not None

    def encode(self) -> bytes:
        """Return the value of the attribute."""
        return msgspec.json.encode(self)


NONE = Times()
_decode = msgspec.json.Decoder(Times).decode


def of(attributes: Mapping[str, bytes]) -> Times:
    """Return the times of a session; none, if it was not imported."""
    value = attributes.get(TIMES)
    return NONE if value is None else _decode(value)


def fold(attributes: Mapping[str, bytes], drafts: Sequence[Draft], now_ms: int) -> bytes | None:
    """Return the attribute after these events, None if it does not change.

    An event without an original time, appended to an imported session, counts as happening now. Imported
    events and those by which the server records a change do not.
    """
    before = of(attributes)
    first, last, has_imports = before.first_ms, before.last_ms, before.has_imports
    has_imports = has_imports or any(draft.is_import for draft in drafts)
    for draft in drafts:
        at_ms = draft.happened_ms
        if has_imports and draft.type == UPDATED and not draft.is_import:
            continue  # of a copy: its time is that of the import, which changed the title
        if at_ms is not None and at_ms >= 0:
            first = at_ms if first is None else min(first, at_ms)
            last = at_ms if last is None else max(last, at_ms)
        elif first is not None and at_ms is None and draft.is_live:
            last = now_ms if last is None else max(last, now_ms)
    after = Times(first, last, has_imports)
    return None if after == before else after.encode()


def inherited(attributes: Mapping[str, bytes]) -> bytes | None:
    """Return the attribute of a fork, which begins when its source began; None if that was not imported."""
    times = of(attributes)
    return Times(times.first_ms, None, times.has_imports).encode() if times.is_imported else None

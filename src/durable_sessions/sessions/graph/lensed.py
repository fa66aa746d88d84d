"""Events of adapters as folds and contexts see them: by what the framework's objects mean."""

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import NamedTuple

from durable_sessions.lenient import COUNT_MAX
from durable_sessions.rendering import events, lenses
from durable_sessions.sessions.graph.happened import Happened, ModelUsage

_MARK = b'"raw_format"'
_MESSAGE = "user.message"
_REQUEST_MAX = 200


def is_of_adapter(event: bytes) -> bool:
    """Say whether a stored event may have a meaning beside what it is; few do."""
    return _MARK in event


class AdapterLinks(NamedTuple):
    """The calls that an adapter's event makes and those that it answers, by the framework's ids."""

    calls: Collection[str]
    answered: Collection[str]


def links(event: bytes) -> AdapterLinks:
    """Return the calls that a stored event of an adapter makes and answers; there may be several."""
    steps = lenses.steps(events.decode(event))
    calls = [one["call_id"] for one in steps if isinstance(one.get("call_id"), str)]
    answered = [one["tool_use_id"] for one in steps if isinstance(one.get("tool_use_id"), str)]
    return AdapterLinks(calls, answered)


def in_short(event: bytes) -> bytes:
    """Return a stored event of an adapter with what it means in place of the framework's object."""
    decoded = events.decode(event)
    meant = lenses.meaning(decoded)
    if meant is None:
        return event
    return events.encode({**{name: one for name, one in decoded.items() if name != "raw"}, "lens": meant})


class LensedEvent:
    """A stored event of an adapter, read once."""

    def __init__(self, happened: Happened) -> None:
        self._happened = happened
        self._event = events.decode(happened.body)
        used = lenses.usage(self._event)
        self._used = None if used is None else used[1]
        self.request = None if used is None or used[0] is None else used[0][:_REQUEST_MAX]

    def steps(self) -> Iterator[Happened]:
        """Yield what a fold reads: a message of the user, or calls and results, by the framework's ids."""
        found = lenses.steps(self._event)
        if not found:
            meant = lenses.meaning(self._event)
            found = [meant] if meant is not None and meant["type"] == _MESSAGE else []
        for one in found:
            call = one.get("call_id")
            name = call if isinstance(call, str) and call else self._happened.id
            yield replace(self._happened, type=one["type"], id=name, body=events.encode(one), _members=None)

    def usage(self) -> ModelUsage | None:
        """Return what the model request used that this event tells of; None if it tells of none."""
        if self._used is None:
            return None
        return ModelUsage(**{name: min(count, COUNT_MAX) for name, count in self._used.items()}, requests=1)

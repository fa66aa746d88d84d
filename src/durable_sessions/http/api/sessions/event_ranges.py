"""Which events a read is for, from the parameters of its request."""

import re
from dataclasses import dataclass

from durable_sessions.errors import InvalidRequestError, OffsetBeyondTailError
from durable_sessions.http.api.sessions.parameters import Parameters
from durable_sessions.http.openapi import events as described
from durable_sessions.limits import Limits
from durable_sessions.sessions.reading import EventReader
from durable_sessions.storage.door import StreamView
from durable_sessions.streams import offsets

_PAGE = re.compile(r"(asc|desc)-([0-9]{1,15})(?:-([0-9]{1,15}))?", re.ASCII)
_NUMERIC = re.compile(r"[-+.0-9]*", re.ASCII)
"""What is meant as a number, right or wrong: an id with letters in it is none."""


@dataclass(slots=True)
class Range:
    """Which events a read is for: between two positions, in either order, at most ``limit``.

    ``ends`` says that ``stop`` is the end even if there are more events after it. Events longer than ``clip``
    are clipped. With ``lens`` those of adapters say what they mean.
    """

    start: int
    stop: int
    limit: int
    backwards: bool = False
    ends: bool = False
    clip: int | None = None
    lens: bool = False

    @property
    def is_of_copies(self) -> bool:
        """Whether events are shown otherwise than they are stored."""
        return self.lens or self.clip is not None

    def page(self, position: int) -> str:
        """Return the token of the next page, which begins at a position and ends where this range does."""
        if self.backwards:
            return f"desc-{position}-{self.start}" if self.start else f"desc-{position}"
        return f"asc-{position}-{self.stop}" if self.ends else f"asc-{position}"


class EventRanges:
    """Turns the parameters of reads into ranges."""

    def __init__(self, events: EventReader, limits: Limits) -> None:
        self._events = events
        self._asked = described.EventRange(limits)

    async def located(self, durable: StreamView, parameters: Parameters, *, searched: bool = False) -> Range:
        """Return the requested range, also if it is around an event that is named by its id."""
        event = event_around(parameters)
        middle = None if event is None else (await self._events.by_id(durable, event))[0]
        return self.of(durable, parameters, middle, searched=searched)

    def of(
        self,
        durable: StreamView,
        parameters: Parameters,
        middle: int | None = None,
        *,
        searched: bool = False,
    ) -> Range:
        """Return the requested range; several kinds of positions cannot be combined."""
        asked = self._positions(durable, parameters, middle, searched=searched)
        asked.clip = parameters.whole_if_given(described.CLIP)
        asked.lens = parameters.flag(described.LENS)
        return asked

    def _positions(
        self, durable: StreamView, parameters: Parameters, middle: int | None, *, searched: bool
    ) -> Range:
        limit = 0 if searched else parameters.whole(self._asked.limit)
        backwards = not searched and parameters.choice("order", "asc", described.ORDERS) == "desc"
        end = durable.tail
        if "page" in parameters and not searched:  # clients send the first page's parameters with it
            return _paged(parameters, end, limit, backwards)
        given = [name for name in ("offset", "from", "tail", "around") if name in parameters]
        if len(given) > 1:
            raise InvalidRequestError(problem=f"Send one of {' and '.join(given)}, not both.")
        if "tail" in parameters:
            count = parameters.whole(self._asked.tail)
            # tail=0 asks for nothing but the end; a page still needs room for one event.
            return Range(max(0, end - count), end, max(count, 1), backwards)
        if "around" in parameters:
            middle = parameters.whole(self._asked.around) if middle is None else middle
            require_within("around", str(middle), middle, durable)
            window = parameters.whole(self._asked.window)
            stop = min(end, middle + window + 1)
            return Range(min(max(0, middle - window), stop), stop, 2 * window + 1, backwards, ends=True)
        if "from" in parameters:
            start = parameters.whole(self._asked.start)
            require_within("from", str(start), start, durable)
            return Range(start, end, limit, backwards)
        return Range(offset(parameters, durable), end, limit, backwards)


def offset(parameters: Parameters, durable: StreamView) -> int:
    """Return the position that ``offset`` stands for; the beginning if there is none."""
    value = parameters.text("offset")
    if value is None or value == "-1":
        return 0
    if value == "now":
        return durable.tail
    position = offsets.decode(value)
    require_within("offset", value, position, durable)
    return position


def event_around(parameters: Parameters) -> str | None:
    """Return the id of the event that a read is around; None if it is given by its number, or not at all."""
    given = parameters.text("around")
    return None if given is None or _NUMERIC.fullmatch(given) else given


def require_within(what: str, given: str, position: int, durable: StreamView) -> None:
    """Refuse a position beyond the end of the session: its reader has seen events that are lost."""
    if position > durable.tail:
        raise OffsetBeyondTailError(what=what, offset=given[:40], tail=offsets.encode(durable.tail))


def _paged(parameters: Parameters, end: int, limit: int, backwards: bool) -> Range:
    match = _PAGE.fullmatch(parameters.text("page") or "")
    if match is None:
        raise InvalidRequestError(problem="page is not one that this server gave; send next_page as it came.")
    order, position, bound = match[1], min(int(match[2]), end), match[3]
    if "order" in parameters and (order == "desc") != backwards:
        raise InvalidRequestError(problem=f"The page was made with order={order}; send the same order.")
    if order == "desc":
        return Range(min(int(bound or 0), position), position, limit, backwards=True)
    if bound is None:
        return Range(position, end, limit)
    return Range(position, max(position, min(int(bound), end)), limit, ends=True)

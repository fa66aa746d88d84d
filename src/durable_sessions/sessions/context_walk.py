"""Fills a context from the newest event backwards, up to the first that does not fit.

A result brings its call along, wherever that is. A compacted range is passed over, and its summary taken
instead; if that would part a call from its result, the range becomes wider.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from durable_sessions.errors import EventNotFoundError
from durable_sessions.sessions.graph import context, lensed
from durable_sessions.sessions.graph.context import ContextSight
from durable_sessions.sessions.graph.context_fill import ContextFill, ToolPair
from durable_sessions.sessions.graph.fold import Fold
from durable_sessions.sessions.graph.folded_session import CompactedRange
from durable_sessions.sessions.graph.happened import CALLS, RESULTS, Happened
from durable_sessions.sessions.graph.lensed import AdapterLinks
from durable_sessions.sessions.graph.stored import happened
from durable_sessions.sessions.reading import EventReader
from durable_sessions.storage.door import StreamView

_NEVER = 1 << 62
_ANSWERED_WITH = {
    "agent.tool_use": ("agent.tool_result", "user.tool_result"),
    "agent.mcp_tool_use": ("agent.mcp_tool_result",),
    "agent.custom_tool_use": ("user.custom_tool_result",),
}


@dataclass(slots=True)
class _Passed:
    """A compacted range that was passed over; ``named`` are the calls that its results name, once known."""

    range: CompactedRange
    summary: bytes
    start: int
    stop: int
    named: frozenset[str] | None = None


class ContextWalk:
    """One pass over the events of a session before ``stop``."""

    def __init__(
        self,
        reader: EventReader,
        durable: StreamView,
        fold: Fold,
        sight: ContextSight,
        boundaries: Sequence[int],
        fill: ContextFill,
    ) -> None:
        self._reader = reader
        self._durable = durable
        self._fold = fold
        self._sight = sight
        self._boundaries = boundaries
        self._fill = fill
        self._left = _NEVER if sight.last is None else sight.last
        self._ranges = [one for one in fold.folded.compacted if one.stop > sight.start]
        self._passed: list[_Passed] = []
        self._near: dict[str, tuple[int, bytes]] = {}
        self._links: dict[int, AdapterLinks] = {}
        self._position = fold.folded.position
        self.is_full = False

    # What a query found -----------------------------------------------------------------

    async def add_found(self, hits: Sequence[tuple[int, float]]) -> None:
        """Add hits, the best first, each with its pair, up to a quarter of the room."""
        # What a query found must not push out what happened last, which the model needs in any case.
        room = self._fill.room // 4
        wanted: dict[str, tuple[int, bytes, float]] = {}
        single: dict[int, tuple[str, bytes]] = {}
        order: list[int | str] = []
        for position, score in hits:
            if not self._sight.start <= position < self._fold.folded.position:
                continue
            one = self._read(position, await self._reader.one(self._durable, position))
            if one.type in CALLS | RESULTS:
                call = await self._call_of(one) if one.type in RESULTS else (position, one.body)
                if call is not None and self._selects_pair(call):
                    name = one.id if one.type in CALLS else one.members.call or ""
                    if name not in wanted:
                        wanted[name] = *call, score
                        order.append(name)
            elif self._sight.selects(one.type):
                single[position] = one.id, context.found_item(self._shown(one), score)
                order.append(position)
        pairs = await self._pairs(wanted)
        for key in order:
            events = {key: single[key]} if isinstance(key, int) else pairs.get(key, {})
            size = sum(len(item) + 1 for _, item in events.values())
            if events and size <= room and self._fill.add_found(events):
                room -= size
                if isinstance(key, str):
                    call_at = wanted[key][0]
                    self._fill.pairs[key] = ToolPair(call_at, events.keys() - {call_at}, found=True)

    async def _pairs(
        self, wanted: dict[str, tuple[int, bytes, float]]
    ) -> dict[str, dict[int, tuple[str, bytes]]]:
        """Return the finished pairs of calls, with all their results."""
        pairs: dict[str, dict[int, tuple[str, bytes]]] = {}
        if not wanted:
            return pairs
        first = min(position for position, _, _ in wanted.values())
        for name, (position, event, score) in wanted.items():
            pairs[name] = {position: (name, context.found_item(event, score))}
        async for position, event in self._reader.range(self._durable, first + 1, self._fold.folded.position):
            one = self._read(position, event)
            name = (one.members.call or "") if one.type in RESULTS else ""
            if name in wanted and position > wanted[name][0]:
                pairs[name][position] = one.id, context.found_item(event, wanted[name][2])
        return {
            name: events
            for name, events in pairs.items()
            if ToolPair(wanted[name][0], events.keys() - {wanted[name][0]}).is_finished(self._boundaries)
        }

    # The newest -------------------------------------------------------------------------

    async def run(self) -> int:
        """Fill the context; return how many events lie before the ones that fit."""
        start = self._sight.start
        while self._position > start and self._left and not self.is_full:
            # Looked for anew after each range: widening one may have moved the position into another.
            entered = next((one for one in self._ranges if one.start < self._position <= one.stop), None)
            if entered is not None:
                await self._pass_over(entered, self._position)
                continue
            stops = [one.stop for one in self._ranges if one.stop < self._position]
            await self._take_until(max([start, *stops]))
        low = self._position
        # Only now is known how far the context reaches, and with it which pairs were cut in two.
        await self._drop_halves(low)
        turn = self._reader.turns.begin()
        for _ in self._fill.dropping_parted(self._links):
            if turn.over:
                await turn.rest()
        if not self.is_full:
            return 0
        return max(low - start, 0) - self._fill.count_before(low)

    async def _take_until(self, low: int) -> None:
        """Take events one by one, down to a position or until one changes where to go on."""
        turn = self._reader.turns.begin()
        async for chunk in self._reader.descending(self._durable, low, self._position):
            read = []
            for position, event in chunk:
                read.append(self._read(position, event))
                if turn.over:
                    await turn.rest()
            # A call is mostly right in front of its result: found here, it is not looked up by its id.
            self._near = {one.id: (one.position, one.body) for one in read if one.type in CALLS}
            for one in reversed(read):
                if turn.over:
                    await turn.rest()
                if not self._left:
                    return
                passed = len(self._passed)
                await self._take(one)
                if self.is_full or len(self._passed) > passed or self._position <= one.position:
                    return
                self._position = one.position

    async def _take(self, one: Happened) -> None:
        if one.position in self._fill:
            return
        if one.type in RESULTS:
            await self._take_result(one)
        elif one.type in CALLS:
            await self._look_for_result(one)
        elif self._sight.selects(one.type):
            shown = self._shown(one)
            if not self._is_open(one.position):
                self._add({one.position: (one.id, context.event_item(shown))})

    def _add(self, events: dict[int, tuple[str, bytes]]) -> bool:
        if not self._fill.add(events):
            self.is_full = True
            return False
        self._left -= 1
        return True

    async def _take_result(self, one: Happened) -> None:
        name = one.members.call or ""
        event = one.id, context.event_item(one.body)
        if (pair := self._fill.pairs.get(name)) is not None:
            if self._add({one.position: event}):
                pair.results.add(one.position)
            return
        call = await self._call_of(one)
        if call is None:
            return
        for compacted in self._ranges:
            if compacted.start <= call[0] < compacted.stop <= one.position:
                await self._pass_over(compacted, one.position + 1)
                return
        if self._selects_pair(call) and self._add(
            {call[0]: (name, context.event_item(call[1])), one.position: event}
        ):
            self._fill.pairs[name] = ToolPair(call[0], {one.position})

    async def _look_for_result(self, one: Happened) -> None:
        """Widen the range that has the result of a call before it; without a result a call is left out."""
        if one.id in self._fill.pairs or one.id in self._fold.folded.open_calls:
            return
        for passed in self._passed:
            if one.id in await self._named(passed):
                await self._widen(passed, one.position, passed.stop)
                return

    # Ranges -----------------------------------------------------------------------------

    async def _pass_over(self, compacted: CompactedRange, stop: int) -> None:
        self._ranges.remove(compacted)
        start, stop = self._fill.whole_range(compacted.start, max(compacted.stop, stop))
        summary = await self._reader.one(self._durable, compacted.position)
        self._fill.drop_range(start, stop)
        item = context.summary_item(compacted, summary, start, stop)
        if not self._fill.summarize(start, compacted.id, item):
            self.is_full, self._position = True, stop
            return
        self._passed.append(_Passed(compacted, summary, start, stop))
        self._position = start

    async def _widen(self, passed: _Passed, start: int, stop: int) -> None:
        start, stop = self._fill.whole_range(start, stop)
        self._fill.drop_range(start, stop)
        item = context.summary_item(passed.range, passed.summary, start, stop)
        self._fill.move_summary(passed.start, start, item)
        passed.start, passed.stop, passed.named = start, stop, None
        self._position = start

    async def _named(self, passed: _Passed) -> frozenset[str]:
        """Return the calls that the results in a range name."""
        if passed.named is None:
            passed.named = frozenset(await self._calls_named(passed.start, passed.stop))
        return passed.named

    async def _calls_named(self, start: int, stop: int) -> set[str]:
        named = set()
        async for position, event in self._reader.range(self._durable, start, stop):
            one = self._read(position, event)
            if one.type in RESULTS and one.members.call is not None:
                named.add(one.members.call)
        return named

    async def _drop_halves(self, low: int) -> None:
        """Take pairs out of which a part would be missing, or whose call cannot be answered any more."""
        pairs = {name: pair for name, pair in self._fill.pairs.items() if not pair.found}
        reach = {name: pair for name, pair in pairs.items() if pair.call < low}
        named: set[str] = set()
        if reach:
            named = await self._calls_named(min(pair.call for pair in reach.values()) + 1, low)
        turn = self._reader.turns.begin()
        for name, pair in pairs.items():
            if turn.over:
                await turn.rest()
            is_parted = name in reach and name in named
            for passed in self._passed:
                is_spanned = pair.call < passed.start and max(pair.results) >= passed.stop
                if is_spanned or (pair.call < passed.start and name in self._fold.folded.repeated_calls):
                    is_parted = is_parted or name in await self._named(passed)
            if is_parted or not pair.is_finished(self._boundaries):
                self._fill.drop_pair(name)

    # Events -----------------------------------------------------------------------------

    def _shown(self, one: Happened) -> bytes:
        """Return an event as it is stored, or as what it means if an adapter did; keep what it calls."""
        if not lensed.is_of_adapter(one.body):
            return one.body
        self._links[one.position] = lensed.links(one.body)
        return lensed.in_short(one.body)

    def _is_open(self, position: int) -> bool:
        """Whether an event of an adapter makes a call that has no result yet: it would be taken out again."""
        made = self._links.get(position)
        return made is not None and not self._fold.folded.open_calls.keys().isdisjoint(made.calls)

    def _read(self, position: int, event: bytes) -> Happened:
        return happened(event, position, None)

    async def _call_of(self, result: Happened) -> tuple[int, bytes] | None:
        """Return the call of a result, None if there is none before it in the context."""
        name = result.members.call
        if name is None:
            return None
        found = self._near.get(name)
        if found is None:
            try:
                found = await self._reader.by_id(self._durable, name)
            except EventNotFoundError:
                return None
        is_call = self._read(*found).type in CALLS
        return found if is_call and self._sight.start <= found[0] < result.position else None

    def _selects_pair(self, call: tuple[int, bytes]) -> bool:
        """Whether a pair is selected: its call, or what such calls are answered with."""
        kind = self._read(*call).type
        return any(self._sight.selects(one) for one in (kind, *_ANSWERED_WITH[kind]))

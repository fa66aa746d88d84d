"""Tool calls and their results, brought together."""

from collections import deque
from collections.abc import Iterable, Iterator

from durable_sessions.rendering.content import weight
from durable_sessions.rendering.entries import EntryRole, TranscriptEntry

HELD_ENTRIES_MAX = 2_000
"""How many entries may wait behind a call without a result."""
HELD_BYTES_MAX = 32 * 1024 * 1024
OPEN_CALLS_MAX = 10_000
"""How many calls whose turn has passed are remembered, to name them when their results come late."""


class OpenCalls:
    """Calls that were shown before their results came."""

    def __init__(self) -> None:
        self._calls: dict[str, tuple[str, int | None]] = {}

    def remember(self, call: TranscriptEntry) -> None:
        """Remember a call, to name it when its result comes."""
        if len(self._calls) >= OPEN_CALLS_MAX:
            del self._calls[next(iter(self._calls))]
        self._calls[call.call_id] = (call.title, call.at_ms)

    def name(self, result: TranscriptEntry) -> None:
        """Give a result that is shown by itself the title of its call, if that is known."""
        call = self._calls.pop(result.call, None) if result.call is not None else None
        if call is not None:
            title, at_ms = call
            result.title = f"{title}: result"
            result.after_ms = _between(at_ms, result.at_ms)


class Pairing:
    """Gives results to their calls, in bounded memory.

    What follows a call waits until its result is there. A call whose result is too far away goes on
    without it; the result is then an entry of its own, with the call's title.
    """

    def __init__(self) -> None:
        self._held: deque[TranscriptEntry] = deque()
        self._bytes = 0
        self._waiting: dict[str, TranscriptEntry] = {}
        self._passed = OpenCalls()

    def pairs(self, entries: Iterable[TranscriptEntry]) -> Iterator[TranscriptEntry]:
        """Return the entries in order, with each result in its call."""
        for entry in entries:
            if not self._joined(entry):
                self._hold(entry)
            yield from self._released()
        yield from self._held

    def _joined(self, entry: TranscriptEntry) -> bool:
        call = None if entry.call is None else self._waiting.pop(entry.call, None)
        if call is None:
            return False
        call.result = entry
        call.failed = entry.failed
        entry.after_ms = _between(call.at_ms, entry.at_ms)
        self._bytes += _weight(entry)
        return True

    def _hold(self, entry: TranscriptEntry) -> None:
        self._passed.name(entry)
        if entry.role is EntryRole.TOOL and entry.call_id:
            self._waiting[entry.call_id] = entry
        self._held.append(entry)
        self._bytes += _weight(entry)

    def _released(self) -> Iterator[TranscriptEntry]:
        while self._held:
            first = self._held[0]
            waits = self._waiting.get(first.call_id) is first
            crowded = len(self._held) > HELD_ENTRIES_MAX or self._bytes > HELD_BYTES_MAX
            if waits and not crowded:
                return
            if waits:
                del self._waiting[first.call_id]
                self._passed.remember(first)
            self._held.popleft()
            self._bytes -= _weight(first) + (_weight(first.result) if first.result else 0)
            yield first


def _between(first_ms: int | None, second_ms: int | None) -> int | None:
    return None if first_ms is None or second_ms is None else max(0, second_ms - first_ms)


def _weight(entry: TranscriptEntry) -> int:
    return sum(map(weight, entry.parts)) + 500


def paired(entries: Iterable[TranscriptEntry]) -> Iterator[TranscriptEntry]:
    """Return entries in order, with the result of each tool call in the call."""
    return Pairing().pairs(entries)

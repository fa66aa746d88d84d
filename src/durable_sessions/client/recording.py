"""The tool calls that a session recorded, in order, for a harness that is run again without its tools."""

from collections.abc import Iterable, Mapping
from typing import Any

from durable_sessions.client import encoding
from durable_sessions.client.calls import Appended
from durable_sessions.client.context import CALL_IDS, CALLS, RESULTS
from durable_sessions.client.errors import ReplayDivergedError
from durable_sessions.client.event import Event
from durable_sessions.client.offsets import of
from durable_sessions.client.tool_record import ToolRecord
from durable_sessions.client.work_calls import SessionLease

TYPES = tuple(sorted(CALLS | RESULTS))
"""The types of events that a recording is made of."""


class Recording:
    """The recorded calls that were not asked for yet, and where in the session the replay is."""

    def __init__(self, events: Iterable[Event], end: int) -> None:
        calls: list[Event] = []
        self._results: dict[str, Event] = {}
        for event in events:
            if event.type in CALLS:
                calls.append(event)
            else:
                named = next((event[name] for name in CALL_IDS if isinstance(event.get(name), str)), "")
                self._results[named] = event
        self._calls = calls
        self._end = end
        self._asked = 0
        self.appended: list[dict[str, Any]] = []
        """What the harness would have appended."""

    @property
    def position(self) -> int:
        """Where the replay is: just before the next call that was recorded, or at the end."""
        return self._calls[self._asked].position if self._asked < len(self._calls) else self._end

    @property
    def is_complete(self) -> bool:
        """Whether the harness has asked for every call that was recorded."""
        return self._asked == len(self._calls)

    def tool(self, name: str, given: Mapping[str, Any]) -> ToolRecord:
        """Return the next recorded call with its result; refuse any other call than that."""
        if self.is_complete:
            raise ReplayDivergedError(
                f"The harness calls {name}, and no further call was recorded before position {self._end}."
            )
        call = self._calls[self._asked]
        if call.get("name") != name or not _same(call.get("input"), given):
            raise ReplayDivergedError(
                f"The harness calls {name} with {_json(given)}; recorded at position {call.position} is "
                f"{call.get('name')} with {_json(call.get('input'))}."
            )
        result = self._results.get(call.id)
        if result is None:
            raise ReplayDivergedError(
                f"The call {call.id} at position {call.position} has no result: the recording ends there."
            )
        self._asked += 1
        return ToolRecord(name, given, id=call.id, is_new=False, recorded=result)

    def append(self, body: bytes) -> Appended:
        """Keep what the harness would have appended."""
        said = encoding.decode(body)
        self.appended += said["events"] if isinstance(said, dict) else said
        return Appended(of(self.position))


def lease(state: dict[str, Any], principal: str) -> SessionLease:
    """Return what stands for the lease in a replay: nobody holds the session for it."""
    return SessionLease(state["epoch"], "replay", 60, "", state["offset"], state, [], None, principal, {})


def _same(recorded: object, given: Mapping[str, Any]) -> bool:
    """Compare inputs as JSON: a tuple is a list there."""
    return bool(encoding.decode(encoding.encode(given)) == recorded)


def _json(value: object) -> str:
    return encoding.encode(value).decode()[:500]

"""Slots in lists of sessions: which a session must hold, and which are shown of each."""

from typing import NamedTuple

from durable_sessions.http.api.sessions.parameters import Parameters
from durable_sessions.http.api.sessions.slots import slot_names_of
from durable_sessions.limits import Limits
from durable_sessions.sessions.session_lists import Wanted
from durable_sessions.sessions.sort_key import SortKey
from durable_sessions.sessions.store import Sessions

Rows = list[tuple[SortKey, bytes]]


class ListedSlots(NamedTuple):
    """The slots by which a list is filtered, and those that it shows of each session."""

    holding: list[str]
    show: list[str]

    @property
    def indexed(self) -> str | None:
        """The slot by whose index the sessions are found, None if they are found in another way."""
        return self.holding[0] if self.holding else None

    def also_held(self, sessions: Sessions, wanted: Wanted) -> Wanted:
        """Return a filter that lets pass what another one does, if all these slots are held."""
        if not self.holding:
            return wanted
        return lambda one: wanted(one) and sessions.lists.holds(one, self.holding)

    async def shown(self, sessions: Sessions, rows: Rows) -> tuple[Rows, bool]:
        """Add the slots to the sessions of a page; say whether it ends earlier, because of its size."""
        if not self.show:
            return rows, False
        found: Rows = []
        size = 0
        for place, session in rows:
            shown = await sessions.lists.with_slots(session, place.number, self.show)
            size += len(shown) + 1
            if found and size > sessions.limits.page_bytes_max:
                return found, True
            found.append((place, shown))
        return found, False


def listed_slots(parameters: Parameters, limits: Limits) -> ListedSlots:
    """Return the slots that a list is about."""
    most = limits.slots_shown_max
    return ListedSlots(slot_names_of(parameters, "holding", most), slot_names_of(parameters, "show", most))

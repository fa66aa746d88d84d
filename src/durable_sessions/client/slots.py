"""Slots of a session: the requests for them, page by page, all as of one moment."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import httpx2

from durable_sessions.client.call import ApiCall
from durable_sessions.client.calls import json_of, offset_text, session_path
from durable_sessions.client.event import Event
from durable_sessions.client.incarnation import PinnedIncarnation
from durable_sessions.client.pages import ItemPage, Order, Paginator

SLOTS_PER_PAGE = 1_000
_NAMES_PER_REQUEST = 200


@dataclass(frozen=True, slots=True)
class HeldSlot:
    """A slot, and the event that holds it; without values only its id, offset, type and size in bytes."""

    name: str
    event: Event


class SlotPaginator(Paginator[HeldSlot]):
    """Reads slots page by page. The pages after the first are as of the same offset."""

    def call(self) -> ApiCall[ItemPage[HeldSlot]]:
        """Return the request for the next page."""
        size = self._page_size if self._left is None else min(self._page_size, self._left)
        parameters = [*self._parameters, ("limit", str(size))]
        if self._page is not None:
            parameters.append(("after", self._page))
        call = ApiCall("GET", self._path, self._read, tuple(parameters))
        return call if self._pinned is None else self._pinned.pin(call)

    def begin_after(self, name: str | None) -> None:
        """Leave out the slots up to a name, in the order of the pages."""
        self._page = name

    def take(self, page: ItemPage[HeldSlot]) -> list[HeldSlot]:
        """Return the slots of a page, and move on behind it, at the offset that the first page was of."""
        if page.next_offset is not None and not any(name == "at" for name, _ in self._parameters):
            self._parameters = [*self._parameters, ("at", page.next_offset)]
        return super().take(page)

    def _read(self, answer: httpx2.Response) -> ItemPage[HeldSlot]:
        body = json_of(answer)
        return ItemPage([_held(one) for one in body["data"]], body["next_after"], body["next_offset"])


def slots(
    session: str,
    names: str | Iterable[str] = (),
    *,
    prefix: str | None = None,
    at: str | int | None = None,
    order: Order = "asc",
    limit: int | None = None,
    values: bool = True,
    after: str | None = None,
    pinned: PinnedIncarnation | None = None,
) -> SlotPaginator:
    """Paginate slots: those with these names in this order, then those with the prefix; else all."""
    asked = [names] if isinstance(names, str) else list(names)
    if len(asked) > _NAMES_PER_REQUEST:
        raise ValueError(f"Ask for at most {_NAMES_PER_REQUEST} slots by name, or for a prefix.")
    parameters = [("slot", name) for name in asked]
    if prefix is not None:
        parameters.append(("prefix", prefix))
    if at is not None:
        parameters.append(("at", offset_text(at)))
    parameters.append(("order", order))
    if not values:
        parameters.append(("values", "false"))
    path = session_path(session, "slots")
    paginator = SlotPaginator(path, parameters, _held, SLOTS_PER_PAGE, limit, pinned=pinned)
    paginator.begin_after(after)
    return paginator


def _held(one: dict[str, Any]) -> HeldSlot:
    return HeldSlot(str(one["slot"]), Event(one.get("event", one)))

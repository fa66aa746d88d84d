"""Counts of the sessions in a list, from outlines that are there."""

import msgspec

from durable_sessions.http.api.sessions.parameters import Parameters
from durable_sessions.http.openapi.sessions import COUNTS
from durable_sessions.sessions.outline.outlines import Outlines
from durable_sessions.sessions.sort_key import SortKey
from durable_sessions.sessions.store import Sessions

Rows = list[tuple[SortKey, bytes]]


async def counted(sessions: Sessions, outlines: Outlines, parameters: Parameters, rows: Rows) -> Rows:
    """Return the sessions of a page with the member ``counts``, if it is asked for."""
    if not parameters.flag(COUNTS):
        return rows
    views = [sessions.streams.peek_id(place.number) for place, _ in rows]
    counts = await outlines.counts([view for view in views if view is not None])
    known = iter(counts)
    found = []
    for (place, encoded), view in zip(rows, views, strict=True):
        said = None if view is None else next(known)  # deleted meanwhile
        found.append((place, b'%b,"counts":%b}' % (encoded[:-1], msgspec.json.encode(said))))
    return found

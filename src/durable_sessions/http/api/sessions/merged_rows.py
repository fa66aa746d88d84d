"""Rows of several partitions in one order: what each is asked, and how what they answer becomes a page."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from durable_sessions.http.api.sessions.listing import PartitionRows
from durable_sessions.http.carrier.message import Answer, Request, Response
from durable_sessions.sessions.sort_key import SortKey

_ROWS = msgspec.msgpack.Decoder(PartitionRows)


class MergedRows(NamedTuple):
    """A page, how many of its sessions each partition gave, and whether there are more.

    ``reach`` is the place behind which those of a sorted list follow.
    """

    sessions: list[tuple[SortKey, bytes]]
    taken: list[int]
    more: bool
    reach: SortKey | None = None


def part_request(request: Request, path: bytes, query: bytes) -> Request:
    """Return the request to one partition that a request to all of them leads to."""
    part = Request(b"GET", path, query, request.headers, b"")
    part.id, part.audience, part.caller = request.id, request.audience, request.caller
    return part


def decoded_rows(answers: Sequence[Answer]) -> list[PartitionRows] | Response:
    """Return the parts, or the first refusal."""
    parts = []
    for answer in answers:
        assert isinstance(answer, Response)
        if answer.status != 200:
            return answer
        parts.append(_ROWS.decode(answer.body))
    return parts


def merged_rows(parts: Sequence[PartitionRows], limit: int, bytes_max: int, *, descends: bool) -> MergedRows:
    """Return the first sessions of all parts.

    A part that is used up while its partition has more ends the page at how far that has looked: what
    follows is not known.
    """
    sign = -1 if descends else 1
    taken = [0] * len(parts)
    page: list[tuple[SortKey, bytes]] = []
    size = 0
    while len(page) < limit:
        heads = []
        ends = []
        for at, part in enumerate(parts):
            if taken[at] < len(part.sessions):
                at_ms, number = part.sessions[taken[at]][0]
                heads.append((sign * at_ms, sign * number, at))
            # Its next session may come before all others on hand, so the page ends here.
            elif part.more and part.reach is None:
                return MergedRows(page, taken, more=True)
            elif part.reach is not None:
                ends.append((sign * part.reach.at_ms, sign * part.reach.number))
        # A partition has looked only as far as this; before what follows, it may still find something.
        if ends and (not heads or min(ends) < min(heads)[:2]):
            at_ms, number = min(ends)
            return MergedRows(page, taken, more=True, reach=SortKey(sign * at_ms, sign * number))
        if not heads:
            return MergedRows(page, taken, more=False)
        first = min(heads)[2]
        row = parts[first].sessions[taken[first]]
        size += len(row[1]) + 1
        # The first one is taken whatever its size, or a reader would get the same empty page for ever.
        if page and size > bytes_max:
            return MergedRows(page, taken, more=True, reach=page[-1][0])
        page.append(row)
        taken[first] += 1
    more = any(part.more or used < len(part.sessions) for part, used in zip(parts, taken, strict=True))
    return MergedRows(page, taken, more, page[-1][0] if more else None)

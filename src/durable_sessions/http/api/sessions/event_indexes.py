"""Headers that list events of a request by their indexes."""

from collections.abc import Sequence

from durable_sessions.http.carrier.message import Header
from durable_sessions.http.openapi.answer_headers import EVENTS_DIFFER, EVENTS_REPEATED
from durable_sessions.limits import Limits
from durable_sessions.sessions.batch import Repeats

_RUN_MIN = 3
_MORE = "..."


def of(repeats: Repeats, limits: Limits) -> list[Header]:
    """Return the headers that list the events whose ids existed already, and those of them that differ."""
    fields: list[Header] = []
    for name, indexes in ((EVENTS_REPEATED, repeats.repeated), (EVENTS_DIFFER, repeats.differ)):
        if indexes:
            fields.append((name, written(indexes, limits.event_indexes_bytes_max).encode()))
    return fields


def written(indexes: Sequence[int], bytes_max: int) -> str:
    """Return ascending indexes with commas, longer runs as ``first-last``, ``...`` for what does not fit."""
    parts: list[str] = []
    begin = 0
    while begin < len(indexes):
        end = begin + 1
        while end < len(indexes) and indexes[end] == indexes[end - 1] + 1:
            end += 1
        run = indexes[begin:end]
        parts += [f"{run[0]}-{run[-1]}"] if len(run) >= _RUN_MIN else map(str, run)
        begin = end
    whole = ",".join(parts)
    if len(whole) <= bytes_max:
        return whole
    cut = whole.rfind(",", 0, max(0, bytes_max - len(_MORE)))
    return whole[: cut + 1] + _MORE

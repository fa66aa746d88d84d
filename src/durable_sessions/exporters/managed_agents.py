"""The answer that Anthropic's Managed Agents API would give to a request for all events of a session.

One object, ``{"data": […], "next_page": null}``, which the official SDKs read as a page. Events are as they
are stored, but

- only of the types that Managed Agents knows; ``omitted`` has the number of all others, by type;
- members are made to fit what the SDKs' types promise, see ``managed_shapes``;
- the members of this server (``offset``, ``created_at``, ``actor`` and the like) are left out.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from durable_sessions.exporters.managed_shapes import SHAPES
from durable_sessions.exporters.member_shapes import fitted
from durable_sessions.exporters.options import ExportOptions, Session
from durable_sessions.rendering.events import Event, decode, encode, encode_whole, text_member
from durable_sessions.rendering.human_times import moment
from durable_sessions.rendering.lenses import as_meant
from durable_sessions.rendering.text import one_line
from durable_sessions.server_members import SERVER_MEMBERS

_OWN = SERVER_MEMBERS - {"id", "processed_at"}
_LONG_AGO = "1970-01-01T00:00:00.000Z"


def export(session: Session, lines: Iterable[bytes], options: ExportOptions) -> Iterator[bytes]:
    """Return a page with all events that Managed Agents knows."""
    omitted: Counter[str] = Counter()
    separator = b"\n"
    yield b'{"data":['
    for line in lines:
        event = decode(line)
        if b"\\u" in line:
            event = decode(encode_whole(event))
        event = as_meant(event)
        kind = text_member(event, "type")
        if kind not in SHAPES:
            omitted[one_line(kind, 128)] += 1
            continue
        yield separator + encode_whole(_event(kind, event))
        separator = b",\n"
    rest = {"next_page": None, **({"omitted": dict(sorted(omitted.items()))} if omitted else {})}
    yield b"\n]," + encode(rest)[1:] + b"\n"


def _event(kind: str, event: Event) -> dict[str, Any]:
    shaped = fitted(SHAPES[kind], {name: value for name, value in event.items() if name not in _OWN})
    shaped["id"] = text_member(event, "id")
    times = (text_member(event, name) for name in ("processed_at", "created_at"))
    shaped["processed_at"] = next((time for time in times if moment(time) is not None), _LONG_AGO)
    return shaped

"""Stored events as lines: byte for byte as the server has them, page by page."""

import json
from collections.abc import Iterator
from dataclasses import dataclass

import httpx2
import msgspec

from durable_sessions.client.call import ApiCall
from durable_sessions.client.calls import session_path
from durable_sessions.client.errors import UnexpectedAnswerError
from durable_sessions.client.incarnation import PinnedIncarnation
from durable_sessions.client.transport import Transport

EVENTS_PER_PAGE = 1_000
_SCANNER = json.JSONDecoder(parse_int=str)


class _Page(msgspec.Struct):
    data: list[msgspec.Raw]
    next_page: str | None


@dataclass(frozen=True, slots=True)
class EventLines:
    """The events of a session that match some parameters."""

    transport: Transport
    session: str
    parameters: tuple[tuple[str, str], ...] = ()
    limit: int | None = None

    @property
    def _whole_pages(self) -> bool:
        """Whether the server may return more than the limit, to keep tool calls and results together."""
        return ("pairs", "keep") in self.parameters

    def __iter__(self) -> Iterator[bytes]:
        """Yield one event at a time; one page is in memory."""
        left, page = self.limit, None
        pinned = PinnedIncarnation()  # all pages must be of the same incarnation of the session
        while left is None or left > 0:
            size = EVENTS_PER_PAGE if left is None else min(EVENTS_PER_PAGE, left)
            parameters = [*self.parameters, ("limit", str(size)), *([("page", page)] if page else [])]
            path = session_path(self.session, "events")
            events, page = self.transport.send(pinned.pin(ApiCall("GET", path, _read, tuple(parameters))))
            for event in events if left is None or self._whole_pages else events[:left]:
                # Line ends inside an event are between its tokens: in JSON texts they are escaped.
                yield event.replace(b"\n", b" ").replace(b"\r", b" ")
            if page is None:
                return
            left = None if left is None else left - len(events)


def _read(answer: httpx2.Response) -> tuple[list[bytes], str | None]:
    """Return the events of a page, undecoded, and the token of the next page."""
    try:
        page = msgspec.json.decode(answer.content, type=_Page)
        return [bytes(event) for event in page.data], page.next_page
    except msgspec.DecodeError:
        pass
    try:
        return _scanned(answer.content)
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise UnexpectedAnswerError(str(answer.request.url), f"no page of events, {error}") from error


def _scanned(content: bytes) -> tuple[list[bytes], str | None]:
    """Do the same for a page with lone surrogates, which the log stores but the fast decoder refuses."""
    text = content.decode()
    at = text.index("[") + 1
    events = []
    while text[at] != "]":
        _, end = _SCANNER.raw_decode(text, at)
        events.append(text[at:end].encode())
        at = end + (text[end] == ",")
    return events, json.loads('{"data":[' + text[at:])["next_page"]

"""Tables of the page without script: what waits for a person, what was decided, what a search has found."""

from collections.abc import Mapping
from html import escape
from urllib.parse import quote, urlencode

import msgspec

from durable_sessions.rendering.human_times import minute, moment
from durable_sessions.rendering.text import one_line

_TEXT_CHARACTERS = 300


class _Asked(msgspec.Struct):
    id: str
    question: str = ""
    actor: str = ""


class _Decided(msgspec.Struct):
    decision: str
    reason: str = ""
    actor: str = ""


class _Approval(msgspec.Struct):
    """A request that waits, or one with its decision."""

    session: str
    position: int
    request: _Asked
    title: str | None = None
    decision: _Decided | None = None
    asked_at: str = ""
    decided_at: str = ""


class _Approvals(msgspec.Struct):
    data: list[_Approval]
    next_page: str | None = None
    up_to_date: bool = True


class _Session(msgspec.Struct):
    id: str
    title: str | None = None


class _Place(msgspec.Struct):
    snippet: str
    position: int


class _Hit(msgspec.Struct):
    type: str
    search: _Place
    name: str | msgspec.Raw = ""


class _Group(msgspec.Struct):
    session: _Session
    hits: list[_Hit]


class _Found(msgspec.Struct):
    data: list[_Group]
    total_hits: int
    total_sessions: int
    next_page: str | None = None
    up_to_date: bool = True


class Tables:
    """Makes tables of answers of the API; ``base`` is the path below which all is served."""

    def __init__(self, base: str) -> None:
        self._base = base

    def approvals(self, body: bytes, query: Mapping[str, list[str]]) -> str:
        """Return what waits for a person, or what was decided; deciding needs script, or the API."""
        found = msgspec.json.decode(body, type=_Approvals)
        is_decided = query.get("state") == ["decided"]
        heads = ("Decision", "Reason", "By", "At, UTC") if is_decided else ("Question", "By", "Since, UTC")
        rows = [[self._session(one.session, one.title, one.position), *_cells(one)] for one in found.data]
        other = (
            '<a href="?plain=1">Pending</a>'
            if is_decided
            else '<a href="?plain=1&amp;state=decided">Decided</a>'
        )
        nothing = "Nothing was decided yet." if is_decided else "Nothing waits for you."
        how = (
            ""
            if is_decided
            else " To decide, use this page with script, or <code>durable-sessions approve</code>."
        )
        return (
            f"<p>{other}.{how}</p>{_not_all(found.up_to_date)}"
            f"{_table(('Session', *heads), rows) if rows else f'<p>{nothing}</p>'}"
            f"{following(query, found.next_page, 'More')}"
        )

    def search(self, body: bytes, query: Mapping[str, list[str]]) -> str:
        """Return what a search in all sessions has found."""
        found = msgspec.json.decode(body, type=_Found)
        rows = [
            [self._session(group.session.id, group.session.title, hit.search.position), *_hit(hit)]
            for group in found.data
            for hit in group.hits
        ]
        said = f"<p>{found.total_hits:,} hits in {found.total_sessions:,} sessions.</p>"
        table = _table(("Session", "What", "Text"), rows) if rows else "<p>No hits.</p>"
        return (
            f"{said}{_not_all(found.up_to_date)}{table}{following(query, found.next_page, 'More sessions')}"
        )

    def _session(self, name: str, title: str | None, position: int) -> str:
        address = f"{self._base}/sessions/{quote(name, safe='')}?plain=1&amp;from={position}"
        return f'<a href="{address}"><bdi>{_text(title or name)}</bdi> #{position:,}</a>'


def following(query: Mapping[str, list[str]], page: str | None, words: str) -> str:
    """Return a link to the next page of what an address shows, nothing after the last one."""
    if page is None:
        return ""
    asked = urlencode({**query, "plain": 1, "page": page}, doseq=True)
    return f'<p><a href="?{escape(asked)}" rel="next">{words}</a></p>'


def _cells(one: _Approval) -> list[str]:
    if one.decision is None:
        return [_text(one.request.question), _text(one.request.actor), _time(one.asked_at)]
    said = one.decision
    return [_text(said.decision), _text(said.reason), _text(said.actor), _time(one.decided_at)]


def _hit(hit: _Hit) -> list[str]:
    name = hit.name if isinstance(hit.name, str) and hit.name else hit.type
    return [_text(name), f'<span dir="auto">{_text(hit.search.snippet)}</span>']


def _table(heads: tuple[str, ...], rows: list[list[str]]) -> str:
    head = "".join(f"<th>{one}</th>" for one in heads)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _text(text: str) -> str:
    return escape(one_line(text, _TEXT_CHARACTERS))


def _time(text: str) -> str:
    at_ms = moment(text)
    return "" if at_ms is None else minute(at_ms)


def _not_all(up_to_date: bool) -> str:
    return "" if up_to_date else "<p>Not all events were searched yet.</p>"

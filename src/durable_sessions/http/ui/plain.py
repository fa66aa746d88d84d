"""The page without script: lists as tables, a session as a transcript, and a form to sign in.

It is made of what the API answers, so that whoever may not read there reads nothing here.
"""

from collections.abc import Awaitable, Callable, Mapping
from html import escape
from urllib.parse import parse_qs, quote, urlencode

import msgspec

from durable_sessions.exporters.html import transcript
from durable_sessions.http.carrier.message import Answer, Request, Response
from durable_sessions.http.ui.assets import Assets
from durable_sessions.http.ui.plain_tables import Tables, following
from durable_sessions.http.ui.shell import PLAIN_POLICY, page_headers
from durable_sessions.rendering.human_times import minute, moment
from durable_sessions.rendering.text import one_line
from durable_sessions.threads import CPU

EVENTS_MAX = 500
"""Events on a page."""
_SESSIONS = 100
_CLIP = 16_384
_ROLES = ["user", "agent", "tool", "error"]
"""Who is heard unless the address says: without bookkeeping, which would rank first."""
_INBOX = ("state", "page")
_SEARCHED = ("q", "role", "session", "agent", "after", "before", "page")
_NEEDS_SCRIPT = (
    "<p>The view “{view}” needs script. Without it there are the list of sessions and their transcripts, "
    "the search, and what waits for a person.</p>"
)
_PASSED = (b"host", b"cookie", b"authorization", b"x-api-key", b"x-forwarded-proto")

Ask = Callable[[Request], Answer | Awaitable[Answer]]


class _Listed(msgspec.Struct):
    """What the table says of a session."""

    id: str
    title: str | None = None
    status: str = ""
    lifecycle: str = ""
    event_count: int = 0
    last_activity_at: str = ""


class _List(msgspec.Struct):
    data: list[_Listed]
    next_page: str | None = None


class _Events(msgspec.Struct):
    data: list[msgspec.Raw]
    first: int | None = None
    up_to_date: bool = True


class PlainPages:
    """Renders pages; ``ask`` answers requests to the API as if the browser had sent them."""

    def __init__(self, assets: Assets, base: str, ask: Ask) -> None:
        self._base = base
        self._tables = Tables(base)
        self._ask_api = ask
        self._styles = "".join(
            f'<link rel="stylesheet" href="{base}{assets.url(name)}">'
            for name in ("tokens.css", "transcript.css", "plain.css")
        )
        # Without a referrer a form would say that it comes from nowhere, and be refused.
        self._headers = page_headers(PLAIN_POLICY, b"same-origin")

    async def page(self, request: Request) -> Response:
        """Return the page at an address."""
        query = parse_qs(request.query.decode("latin-1"))
        given = {name: values[0] for name, values in query.items()}
        path = request.path.decode("latin-1")
        if path == "/login":
            return self._login(given.get("next", "/"), wrong="wrong" in given)
        session = path.removeprefix("/sessions/").partition("/")[0] if path.startswith("/sessions/") else ""
        if session:
            return await self._session(request, session, given)
        if path == "/approvals":
            return await self._approvals(request, query)
        if path == "/search":
            return await self._search(request, query)
        return await self._list(request, given)

    async def _approvals(self, request: Request, query: dict[str, list[str]]) -> Response:
        asked = {name: query[name] for name in _INBOX if name in query}
        answer = await self._get(request, "/v1/approvals", asked)
        if answer.status != 200:
            return self._refused(answer, request)
        return self._framed("Approvals", f"{self._home()}{self._tables.approvals(answer.body, query)}")

    async def _search(self, request: Request, query: dict[str, list[str]]) -> Response:
        found, (words,) = "", query.get("q", [""])[:1]
        if words:
            asked = {"role": _ROLES} | {name: query[name] for name in _SEARCHED if name in query}
            answer = await self._get(request, "/v1/search", asked)
            if answer.status != 200:
                return self._refused(answer, request)
            found = self._tables.search(answer.body, query)
        return self._framed("Search", f"{self._home()}{_form('Words', words, 'Search')}{found}")

    def _home(self) -> str:
        return f'<nav><a href="{self._base}/?plain=1">All sessions</a></nav>'

    async def _list(self, request: Request, given: dict[str, str]) -> Response:
        asked = {"limit": str(_SESSIONS), "sort": "activity"}
        asked |= {name: given[name] for name in ("q", "page") if given.get(name)}
        answer = await self._get(request, "/v1/sessions", asked)
        if answer.status != 200:
            return self._refused(answer, request)
        found = msgspec.json.decode(answer.body, type=_List)
        rows = "".join(map(self._row, found.data))
        more = following({"q": [given["q"]]} if given.get("q") else {}, found.next_page, "Older sessions")
        nothing = "" if found.data else "<p>No sessions here.</p>"
        view = request.path.decode("latin-1").strip("/")
        instead = "" if view in ("", "sessions") else _NEEDS_SCRIPT.format(view=escape(view))
        return self._framed(
            "Sessions",
            f"{instead}{self._views()}{_form('Title, metadata or id', given.get('q', ''), 'Filter')}"
            "<table><thead><tr><th>Session</th><th>Status</th><th>Events</th><th>Last activity, UTC</th>"
            f"</tr></thead><tbody>{rows}</tbody></table>{nothing}{more}",
        )

    def _views(self) -> str:
        links = (
            f'<a href="{self._base}/{view}?plain=1">{view.capitalize()}</a>'
            for view in ("search", "approvals")
        )
        return f"<nav>{' · '.join(links)}</nav>"

    def _row(self, one: _Listed) -> str:
        at_ms = moment(one.last_activity_at)
        return (
            f'<tr><td><a href="{self._base}/sessions/{quote(one.id, safe="")}?plain=1"><bdi>'
            f"{escape(one_line(one.title or one.id, 200))}</bdi></a></td><td>{escape(one.lifecycle)}, "
            f"{escape(one.status)}</td><td>{one.event_count:,}</td><td>"
            f"{'' if at_ms is None else minute(at_ms)}</td></tr>"
        )

    async def _session(self, request: Request, session: str, given: dict[str, str]) -> Response:
        start = int(given["from"]) if given.get("from", "").isdigit() and len(given["from"]) < 13 else 0
        about = await self._get(request, f"/v1/sessions/{session}", {})
        if about.status != 200:
            return self._refused(about, request)
        asked = {"from": str(start), "limit": str(EVENTS_MAX), "clip": str(_CLIP)}
        answer = await self._get(request, f"/v1/sessions/{session}/events", asked)
        if answer.status != 200:
            return self._refused(answer, request)
        found = msgspec.json.decode(answer.body, type=_Events)
        # In a thread: 500 events take longer to render than the event loop may be held.
        shown = await CPU.run(transcript, [bytes(one) for one in found.data])
        info = msgspec.json.decode(about.body, type=_Listed)
        links = [f'<a href="{self._base}/?plain=1">All sessions</a>']
        if start:
            before = max(0, start - EVENTS_MAX)
            links.append(f'<a href="?plain=1&amp;from={before}" rel="prev">Earlier</a>')
        end = start + len(found.data)
        if not found.up_to_date:
            links.append(f'<a href="?plain=1&amp;from={end}" rel="next">Later</a>')
        where = f"Events {start:,} to {max(start, end - 1):,} of {info.event_count:,}."
        bar = f"<nav>{' · '.join(links)} · {where}</nav>"
        return self._framed(one_line(info.title or info.id, 200), f"{bar}{shown}{bar}")

    def _login(self, after: str, *, wrong: bool) -> Response:
        said = (
            '<p class="bad" role="alert">The key is not known, was revoked, or has expired.</p>'
            if wrong
            else ""
        )
        return self._framed(
            "Sign in",
            f'{said}<form method="post" action="{self._base}/v1/login"><input type="hidden" name="next" '
            f'value="{escape(after)}"><label>Key <input name="key" type="password" '
            f'autocomplete="current-password" required></label> <button>Sign in</button></form>',
        )

    async def _get(self, request: Request, path: str, asked: Mapping[str, str | list[str]]) -> Response:
        """Ask the API what the browser may see; that another site led here does not matter to a page."""
        headers = {name: request.headers[name] for name in _PASSED if name in request.headers}
        inner = Request(
            b"GET",
            path.encode("latin-1"),
            urlencode(asked, doseq=True).encode(),
            # It is this page that asks. Whether its own request came from another site was decided before.
            headers | {b"sec-fetch-site": b"same-origin"},
            b"",
        )
        inner.id = request.id
        answer = self._ask_api(inner)
        whole = answer if isinstance(answer, Response) else await _awaited(answer)
        assert isinstance(whole, Response), "none of these answers is a stream"
        return whole

    def _refused(self, answer: Response, request: Request) -> Response:
        if answer.status == 401:
            return self._login(
                f"{request.path.decode('latin-1')}?{request.query.decode('latin-1')}", wrong=False
            )
        try:
            told = msgspec.json.decode(answer.body)["error"]["message"]
        except (msgspec.MsgspecError, KeyError, TypeError):
            told = f"The server has answered {answer.status}."
        said = f'<p>{escape(str(told))}</p><p><a href="{self._base}/?plain=1">All sessions</a></p>'
        return self._framed("Not there" if answer.status in (404, 410) else "Refused", said, answer.status)

    def _framed(self, title: str, body: str, status: int = 200) -> Response:
        made = (
            '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" '
            f'content="width=device-width, initial-scale=1"><title>{escape(title)} · Durable Sessions</title>'
            f"{self._styles}</head><body><main><h1><bdi>{escape(title)}</bdi></h1>{body}</main><footer>"
            f'<a href="{self._base}/docs">Documentation</a></footer></body></html>\n'
        )
        return Response(status, self._headers, made.encode())


def _form(label: str, words: str, button: str) -> str:
    return (
        f'<form method="get"><input type="hidden" name="plain" value="1"><label>{label} '
        f'<input name="q" value="{escape(words)}"></label> <button>{button}</button></form>'
    )


async def _awaited(answer: Answer | Awaitable[Answer]) -> Answer:
    return answer if isinstance(answer, Answer) else await answer

"""A session as one HTML page: nothing is loaded from elsewhere, nothing in an event is taken for HTML.

Everything is readable without the script. Beside the escaping, the page's policy lets no other script run.

A long page is in parts. The first are as any HTML; later ones stand in ``noscript``, which a browser that
runs the script keeps as one text: the page is there at once, and the script makes elements of them.
"""

import base64
import hashlib
import itertools
import re
from collections.abc import Iterable, Iterator
from html import escape
from importlib.resources import files

from durable_sessions.exporters import prose
from durable_sessions.exporters.options import ExportOptions, Session
from durable_sessions.exporters.summary import ExportSummary, Rows, facts
from durable_sessions.rendering import human_times
from durable_sessions.rendering.content import Diff, Fields, Part, Picture, Preformatted, Prose
from durable_sessions.rendering.entries import EntryRole, TranscriptEntry
from durable_sessions.rendering.text import lines_of, one_line, plural
from durable_sessions.times import rfc3339

FOLDED_LINES = 24
FOLDED_CHARACTERS = 3_000
"""How many lines or characters of a long block are visible before it is expanded."""
FOLDED_PROSE_CHARACTERS = 12_000
FOLDED_ASIDE_CHARACTERS = 2_000
"""How much of a long message is visible before it is expanded: of users and agents, and of the system."""
JUMPS_MAX = 2_000
"""How many prompts and errors the contents list."""
PART_ENTRIES = 50
"""How many entries a part of the page has: what is not on the screen is neither styled nor laid out."""
PLAIN_PARTS = 4
"""How many parts are elements from the beginning."""
PICTURES_BYTES_MAX = 64 * 1024 * 1024
"""How many bytes of images a page holds; further ones are named only."""

_IMAGES = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif"}
_BASE64 = re.compile(r"[A-Za-z0-9+/\s]*={0,2}\s*", re.ASCII)


def _asset(package: str, name: str) -> str:
    return files(package).joinpath(name).read_text(encoding="utf-8")


def export(session: Session, lines: Iterable[bytes], options: ExportOptions) -> Iterator[bytes]:
    """Return an HTML page."""
    for piece in _Page(options).pieces(session, lines):
        yield piece.encode()


def transcript(lines: Iterable[bytes]) -> str:
    """Return the entries of a page alone, for one that is made elsewhere."""
    return "".join(_Page(ExportOptions()).entries(lines))


class _Page:
    """The page while it is being written."""

    def __init__(self, options: ExportOptions) -> None:
        self._options = options
        self._summary = ExportSummary()
        self._jumps: list[str] = []
        self._left_out = 0
        self._pictures_bytes = 0

    def pieces(self, session: Session, lines: Iterable[bytes]) -> Iterator[str]:
        """Yield the page in pieces; what is known only at the end is written there and shown at the side."""
        title, rows = facts(session)
        yield _head(title)
        head = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in rows)
        yield f'<body>\n<header><h1>{escape(title)}</h1><dl class="facts">{head}</dl></header>\n<main>\n'
        yield from self._parts(lines)
        yield "</main>\n"
        yield self._side()
        yield "<footer>Times are UTC. Exported by Durable Sessions.</footer>\n"
        yield f"<script>{_SCRIPT}</script>\n</body>\n</html>\n"

    def _parts(self, lines: Iterable[bytes]) -> Iterator[str]:
        """Yield the entries in parts; later ones wait for the script, if there is one."""
        entries = self.entries(lines)
        for number in itertools.count():
            inner = "".join(itertools.islice(entries, PART_ENTRIES))
            if not inner:
                return
            if number >= PLAIN_PARTS:
                inner = f"<noscript>{inner}</noscript>"
            yield f'<section class="part">\n{inner}</section>\n'

    def entries(self, lines: Iterable[bytes]) -> Iterator[str]:
        """Yield the entries, with a heading for each day."""
        day = ""
        for number, entry in enumerate(self._summary.entries(lines)):
            if entry.at_ms is not None and not entry.quiet and human_times.day(entry.at_ms) != day:
                day = human_times.day(entry.at_ms)
                yield f'<h2 class="day">{day}</h2>\n'
            yield self._entry(entry, f"e{number if entry.position is None else entry.position}")
        if not self._summary.events:
            yield '<p class="empty">This session has no events yet.</p>\n'

    # The side ---------------------------------------------------------------------------

    def _side(self) -> str:
        jumps = ""
        if self._jumps:
            more = f"<li>… and {self._left_out:,} more</li>" if self._left_out else ""
            jumps = f'<h2 class="jump">Contents</h2><ol>{"".join(self._jumps)}{more}</ol>'
        return (
            f'<nav aria-label="Summary and contents"><h2>Summary</h2>{_rows(self._summary.rows())}'
            f'<h2 class="jump">Show</h2><div class="switches">{_SWITCHES}</div>{_BUTTONS}{jumps}</nav>\n'
        )

    def _jump(self, name: str, entry: TranscriptEntry) -> None:
        if len(self._jumps) >= JUMPS_MAX:
            self._left_out += 1
            return
        kind = ' class="bad"' if entry.role is EntryRole.ERROR else ""
        text = escape(one_line(entry.line, 100) or entry.title)
        self._jumps.append(f'<li{kind}><a href="#{name}">{text}</a></li>')

    # Entries ----------------------------------------------------------------------------

    def _entry(self, entry: TranscriptEntry, name: str) -> str:
        if entry.role in (EntryRole.USER, EntryRole.ERROR):
            self._jump(name, entry)
        classes = [entry.role.value]
        if entry.failed and entry.role is not EntryRole.ERROR:
            classes.append("failed")
        if entry.role is EntryRole.TOOL and entry.result is None:
            classes.append("open")
        if entry.nested:
            classes.append("nested")
        if entry.quiet:
            classes.append("quiet")
        if entry.role is EntryRole.TOOL:
            inner = self._call(entry, name)
        elif entry.role is EntryRole.THINKING:
            inner = self._thinking(entry, name)
        elif entry.role is EntryRole.STATUS and not entry.parts:
            line = f'<span class="line">{escape(entry.line)}</span>'
            inner = f'<div class="who">{escape(entry.title)} {line}{_when(entry, name)}</div>'
        else:
            inner = self._said(entry, name)
        return f'<article class="entry {" ".join(classes)}" id="{name}">{inner}</article>\n'

    def _said(self, entry: TranscriptEntry, name: str) -> str:
        head = f'<div class="who">{escape(entry.title)}{_thread(entry)}{_when(entry, name)}</div>'
        typed = entry.role is EntryRole.USER
        most = FOLDED_PROSE_CHARACTERS if typed or entry.role is EntryRole.AGENT else FOLDED_ASIDE_CHARACTERS
        parts = "".join(self._part(part, bad=entry.failed, typed=typed, most=most) for part in entry.parts)
        if not entry.parts or entry.role in (EntryRole.ERROR, EntryRole.STATUS):
            parts = f'<div class="plain">{escape(entry.line)}</div>{parts}'
        return f'<div class="say">{head}{parts}</div>'

    def _thinking(self, entry: TranscriptEntry, name: str) -> str:
        line = f'<span class="line">{escape(entry.line)}</span>'
        parts = "".join(map(self._part, entry.parts)) or '<p class="empty">Not recorded.</p>'
        return (
            f"<details><summary>Thinking {line}{_thread(entry)}</summary>"
            f'<div class="inside">{parts}</div></details>{_when(entry, name)}'
        )

    def _call(self, entry: TranscriptEntry, name: str) -> str:
        took = entry.took_ms
        aside = "" if took is None else f'<span class="took">{human_times.duration(took)}</span>'
        head = (
            f"<summary><b>{escape(entry.title)}</b><code>{escape(entry.line)}</code>"
            f"{aside}{_thread(entry)}</summary>"
        )
        inside = "".join(self._part(part) for part in entry.parts)
        why = pictures = ""
        if entry.result is not None:
            shown = [part for part in entry.result.parts if not isinstance(part, Picture)]
            pictures = "".join(self._part(part) for part in entry.result.parts if isinstance(part, Picture))
            output = "".join(self._part(part, bad=entry.failed) for part in shown)
            place = "" if entry.result.position is None else f' id="e{entry.result.position}"'
            inside += f'<p class="caption"{place}>Result</p>' + (output or '<p class="empty">Nothing.</p>')
            if entry.failed:
                why = f'<div class="why">{escape(_first_line(entry.result))}</div>'
        else:
            inside += '<p class="empty">No result was recorded.</p>'
        # The link is not in the summary: whoever presses a link there would also open the entry.
        opened = f'<details>{head}<div class="inside">{inside}</div></details>'
        return f"{opened}{_when(entry, name)}{why}{pictures}"

    # Parts ------------------------------------------------------------------------------

    def _part(
        self, part: Part, *, bad: bool = False, typed: bool = False, most: int = FOLDED_PROSE_CHARACTERS
    ) -> str:
        match part:
            case Prose(text):
                return _prose(text, typed=typed, most=most)
            case Preformatted(text, label):
                caption = f'<p class="caption">{escape(label)}</p>' if label else ""
                return caption + _folded(text, "bad-output" if bad else "")
            case Diff(lines):
                return _diff(lines)
            case Fields(rows):
                return _rows(rows, "fields")
            case Picture():
                return self._picture(part)

    def _picture(self, picture: Picture) -> str:
        label = escape(picture.label)
        data = _decoded(picture.base64) if picture.base64 else None
        if data is None and picture.artifact:
            data = self._options.artifact(picture.artifact)
        media_type = None if data is None else _image_type(data)
        if data is None or media_type is None or self._pictures_bytes + len(data) > PICTURES_BYTES_MAX:
            return f'<p class="named">{label}</p>'
        self._pictures_bytes += len(data)
        source = f"data:{media_type};base64,{base64.b64encode(data).decode()}"
        image = f'<img src="{source}" alt="{label}" loading="lazy">'
        return f"<figure>{image}<figcaption>{label}</figcaption></figure>"


def _first_line(entry: TranscriptEntry) -> str:
    return next((one_line(line, 200) for line in lines_of(entry.text) if line.strip()), "failed")


def _head(title: str) -> str:
    script = base64.b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode()
    policy = f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{script}'"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n"
    )


def _when(entry: TranscriptEntry, name: str) -> str:
    if entry.at_ms is None:
        return f'<a class="when" href="#{name}">#</a>'
    at = rfc3339(entry.at_ms)
    title = f"{entry.type} {entry.id}".strip()
    return (
        f'<a class="when" href="#{name}" title="{escape(title)}">'
        f'<time datetime="{at}">{human_times.clock(entry.at_ms)}</time></a>'
    )


def _thread(entry: TranscriptEntry) -> str:
    return f'<span class="thread">{escape(entry.thread)}</span>' if entry.thread else ""


def _rows(rows: Rows | tuple[tuple[str, str], ...], kind: str = "") -> str:
    items = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in rows)
    return f'<dl class="{kind}">{items}</dl>' if kind else f"<dl>{items}</dl>"


def _prose(text: str, *, typed: bool, most: int) -> str:
    """Return the HTML of a message; text typed by a user is Markdown only if it has a code fence."""
    rendered = prose.as_typed(text) if typed and "```" not in text else prose.to_html(text)
    rendered = f'<div class="prose">{rendered}</div>'
    if len(text) <= most:
        return rendered
    return _fold(escape(one_line(text, 300)), rendered, _extent(text), "fold text")


def _folded(text: str, kind: str = "") -> str:
    """Return a block; a long one shows its beginning, and the rest when it is expanded."""
    attribute = f' class="{kind}"' if kind else ""
    lines = lines_of(text)
    head = "\n".join(lines[:FOLDED_LINES])[:FOLDED_CHARACTERS]
    if len(lines) <= FOLDED_LINES + 4 and len(text) <= FOLDED_CHARACTERS * 4 // 3:
        return f"<pre{attribute}>{_whole(text)}</pre>"
    rest = text[len(head) :].removeprefix("\n")
    return _fold(
        f"<pre{attribute}>{_whole(head)}</pre>", f"<pre{attribute}>{_whole(rest)}</pre>", _extent(text)
    )


def _extent(text: str) -> str:
    """Return how long a text is: in lines, or in characters if its lines are long."""
    count = len(lines_of(text))
    if len(text) > 1_000 * count:
        return f"{len(text):,} characters"
    return f"{count:,} {plural(count, 'line')}"


def _fold(head: str, rest: str, extent: str, kind: str = "fold") -> str:
    more = f'<span class="more">Show all {extent}</span>'
    return f'<details class="{kind}"><summary>{head}{more}</summary>{rest}</details>'


def _whole(text: str) -> str:
    """Return text for a pre element, which swallows a newline at its beginning."""
    return ("\n" if text.startswith("\n") else "") + escape(text, quote=False)


def _diff(lines: tuple[str, ...]) -> str:
    kinds = {"+": "a", "-": "r", "@": "h", "*": "h"}
    shown = [
        f'<span class="{kinds[line[0]]}">{escape(line, quote=False)}</span>'
        if line[:1] in kinds
        else f"<span>{escape(line, quote=False)}</span>"
        for line in lines
    ]
    if len(shown) <= 2 * FOLDED_LINES:
        return f'<pre class="diff">{"".join(shown)}</pre>'
    head, rest = (
        f'<pre class="diff">{"".join(some)}</pre>' for some in (shown[:FOLDED_LINES], shown[FOLDED_LINES:])
    )
    return _fold(head, rest, f"{len(shown):,} {plural(len(shown), 'line')}")


def _decoded(text: str) -> bytes | None:
    if not _BASE64.fullmatch(text):
        return None
    try:
        return base64.b64decode(text)
    except ValueError:
        return None


def _image_type(data: bytes) -> str | None:
    """Return the type of an image by its first bytes; what the event claims does not count."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for magic, kind in _IMAGES.items() if data.startswith(magic)), None)


def _switch(name: str, text: str, checked: str) -> str:
    return f'<label><input type="checkbox" id="show-{name}"{checked}> {text}</label>'


_STYLE = _asset("durable_sessions", "ui/tokens.css") + _asset("durable_sessions", "ui/transcript.css")
_SCRIPT = _asset(__package__, "page.js")
_SWITCHES = (
    _switch("tools", "Tool calls", " checked")
    + _switch("thinking", "Thinking", " checked")
    + _switch("quiet", "Bookkeeping", "")
)
_BUTTONS = (
    '<div class="buttons"><button type="button" id="open-all">Open all</button>'
    '<button type="button" id="close-all">Close all</button>'
    '<button type="button" id="theme">Light / dark</button></div>'
)

"""A session as a Markdown document, for reading and for pasting.

Nothing in an event can change the document around it: what people and agents wrote is quoted, everything else
stands in fences that it cannot close, and a text with raw HTML in it stands in a fence as well.
"""

import re
from collections.abc import Iterable, Iterator

from markdown_it import MarkdownIt

from durable_sessions.exporters.options import ExportOptions, Session
from durable_sessions.exporters.summary import ExportSummary, facts
from durable_sessions.rendering import human_times
from durable_sessions.rendering.content import Diff, Fields, Part, Picture, Preformatted, Prose
from durable_sessions.rendering.entries import EntryRole, TranscriptEntry
from durable_sessions.rendering.text import lines_of, one_line, shortened

BLOCK_LINES_MAX = 60
BLOCK_CHARACTERS_MAX = 6_000
PROSE_CHARACTERS_MAX = 100_000
"""Longer texts are not parsed as Markdown."""

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~&$])|^(?=[-+=:])|^(\d{1,9})(?=[.)])")
_LINK_SCHEMES = re.compile(r"(?:javascript|vbscript|data|file)\s*:", re.IGNORECASE)
_BACKTICKS = re.compile(r"`+")
_MARKDOWN = MarkdownIt("commonmark", {"html": True}).enable("table")


def export(session: Session, lines: Iterable[bytes], options: ExportOptions) -> Iterator[bytes]:
    """Return a Markdown document."""
    title, rows = facts(session)
    yield f"# {escaped(title)}\n\n".encode()
    if rows:
        table = "".join(f"| {escaped(name)} | {escaped(value)} |\n" for name, value in rows)
        yield f"| | |\n|---|---|\n{table}\n".encode()
    summary = ExportSummary()
    day = ""
    for entry in summary.entries(lines):
        if entry.quiet and not options.full:
            continue
        if entry.at_ms is not None and human_times.day(entry.at_ms) != day:
            day = human_times.day(entry.at_ms)
            yield f"## {day}\n\n".encode()
        yield "".join(_entry(entry, options)).encode()
    table = "".join(f"| {name} | {escaped(value)} |\n" for name, value in summary.rows())
    yield f"## Summary\n\n| | |\n|---|---|\n{table}".encode()


def escaped(text: str) -> str:
    """Return one line with every character that is special in Markdown escaped."""
    return _SPECIAL.sub(lambda found: f"{found[2] or ''}\\{found[1] or ''}", one_line(text, 1_000))


def code(text: str) -> str:
    """Return one line as code."""
    line = one_line(text, 1_000)
    if not line:
        return ""
    fence = "`" * (1 + max(map(len, _BACKTICKS.findall(line)), default=0))
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{pad}{line}{pad}{fence}"


def fenced(text: str, language: str = "") -> str:
    """Return lines in a fence that they cannot close."""
    # A fence ends at a line of as many backticks as it has, so one more than any in the text never ends
    # early.
    fence = "`" * max(3, 1 + max(map(len, _BACKTICKS.findall(text)), default=0))
    return f"{fence}{language}\n{text}\n{fence}\n\n"


def quoted(text: str) -> str:
    """Return Markdown of a message as a quotation that it cannot break out of."""
    if not _harmless(text):
        return fenced(text, "text")
    return "".join(f"> {line}".rstrip() + "\n" for line in lines_of(text)) + "\n"


def _harmless(text: str) -> bool:
    # Looked for in the whole text, not in links alone: readers differ in what they take for a link.
    if len(text) > PROSE_CHARACTERS_MAX or _LINK_SCHEMES.search(text):
        return False
    for token in _MARKDOWN.parse(text):
        # An image is fetched when the document is opened, which tells its server who reads it.
        if token.type in ("html_block", "image"):
            return False
        if any(child.type in ("html_inline", "image") for child in token.children or ()):
            return False
    return True


def _entry(entry: TranscriptEntry, options: ExportOptions) -> Iterator[str]:
    time = f" · {human_times.clock(entry.at_ms)}" if entry.at_ms is not None else ""
    where = "" if entry.position is None else f" · {entry.position}"
    thread = f" · {escaped(entry.thread)}" if entry.thread else ""
    aside = f"<sub>{(where + time + thread).removeprefix(' · ')}</sub>" if where or time or thread else ""
    if entry.role in (EntryRole.USER, EntryRole.AGENT, EntryRole.ERROR):
        yield f"### {escaped(entry.title)} {aside}".rstrip() + "\n\n"
        if not entry.parts:
            yield f"{escaped(entry.line)}\n\n"
    elif entry.role is EntryRole.TOOL:
        yield from _call(entry, aside, options)
        return
    else:
        line = "" if entry.parts and entry.line == one_line(entry.text) else escaped(entry.line)
        failed = " **failed**" if entry.failed else ""
        yield f"*{escaped(entry.title)}*{failed} {line} {aside}".replace("  ", " ").rstrip() + "\n\n"
    for part in entry.parts:
        yield _part(part, options)


def _call(entry: TranscriptEntry, aside: str, options: ExportOptions) -> Iterator[str]:
    took = "" if entry.took_ms is None else f" · {human_times.duration(entry.took_ms)}"
    verdict = " · **failed**" if entry.failed else "" if entry.result else " · no result"
    yield f"**{escaped(entry.title)}** {code(entry.line)}{took}{verdict} {aside}".rstrip() + "\n\n"
    for part in entry.parts:
        if not (isinstance(part, Preformatted) and part.text == entry.line):
            yield _part(part, options)
    if entry.result is not None:
        for part in entry.result.parts:
            yield _part(part, options)


def _part(part: Part, options: ExportOptions) -> str:
    match part:
        case Prose(text):
            return quoted(text)
        case Preformatted(text, label, language):
            head = f"{escaped(label)}:\n\n" if label else ""
            return head + fenced(_cut(text, options), language)
        case Diff(lines):
            return fenced(_cut("\n".join(lines), options), "diff")
        case Fields(rows):
            return "".join(f"- {escaped(name)}: {code(value)}".rstrip() + "\n" for name, value in rows) + "\n"
        case Picture():
            return f"*{escaped(part.label)}*\n\n"


def _cut(text: str, options: ExportOptions) -> str:
    return text if options.full else shortened(text, BLOCK_LINES_MAX, BLOCK_CHARACTERS_MAX)

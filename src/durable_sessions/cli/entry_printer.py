"""Prints transcript entries, with colours on a terminal and as plain text elsewhere."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.markdown import Markdown
from rich.padding import Padding
from rich.text import Text

from durable_sessions.cli.terminal import Output
from durable_sessions.rendering import human_times
from durable_sessions.rendering.content import Diff, Fields, Part, Picture, Preformatted, Prose
from durable_sessions.rendering.entries import EntryRole, TranscriptEntry
from durable_sessions.rendering.text import lines_of, shortened

RESULT_LINES_MAX = 6
DIFF_LINES_MAX = 16
PROSE_LINES_MAX = 80
CHARACTERS_MAX = 4_000
LINE_CHARACTERS_MAX = 200
MARKDOWN_CHARACTERS_MAX = 20_000
"""Longer texts are not rendered as Markdown."""

_COLOURS = {
    EntryRole.USER: "bold blue",
    EntryRole.AGENT: "bold magenta",
    EntryRole.THINKING: "dim italic",
    EntryRole.TOOL: "bold",
    EntryRole.RESULT: "bold",
    EntryRole.SYSTEM: "bold dim",
    EntryRole.ERROR: "bold red",
    EntryRole.STATUS: "dim",
    EntryRole.OTHER: "bold cyan",
}
_DIFF_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


class EntryPrinter:
    """Prints entries one after the other; with ``full``, without shortening."""

    def __init__(self, output: Output, *, full: bool) -> None:
        self._output = output
        self._full = full
        self._day = ""
        self._compact = True

    def paint(self, entry: TranscriptEntry) -> None:
        """Print an entry, unless it is bookkeeping."""
        if entry.quiet and not self._full:
            return
        self._new_day(entry)
        short = entry.role in (EntryRole.TOOL, EntryRole.RESULT, EntryRole.STATUS, EntryRole.THINKING)
        if not (short and self._compact):
            self._output.show()
        self._compact = short
        for line in self._painted(entry):
            self._output.show(line)

    def _new_day(self, entry: TranscriptEntry) -> None:
        day = "" if entry.at_ms is None else human_times.day(entry.at_ms)
        if day and day != self._day:
            self._output.show(Text(f"\n{day}", style="dim"))
            self._day = day
            self._compact = False

    def _painted(self, entry: TranscriptEntry) -> Iterator[RenderableType]:
        if entry.role in (EntryRole.TOOL, EntryRole.RESULT):
            yield from self._call(entry)
            return
        head = self._head(entry, _COLOURS[entry.role])
        # A line is enough for what nobody reads whole: changes of status, and thinking unless it is asked
        # for.
        brief = entry.role is EntryRole.STATUS or (entry.role is EntryRole.THINKING and not self._full)
        if brief:
            head.append(f"  {entry.line}", style="red" if entry.failed else _COLOURS[entry.role])
        yield head
        if brief and not self._full:
            return
        if not brief and (not entry.parts or entry.role is EntryRole.ERROR):
            yield self._indented(Text(entry.line), 2)
        for part in entry.parts:
            yield from self._part(part, 2, RESULT_LINES_MAX * 3, typed=entry.role is EntryRole.USER)

    def _head(self, entry: TranscriptEntry, style: str, mark: Text | None = None) -> Text:
        head = Text("" if entry.at_ms is None else human_times.clock(entry.at_ms), style="dim")
        if entry.position is not None:
            head.append(f" #{entry.position}")
        head = Text.assemble(head, "  ", mark or "", (entry.title, style))
        if entry.thread:
            head.append(f"  {entry.thread}", style="dim")
        return head

    def _call(self, entry: TranscriptEntry) -> Iterator[RenderableType]:
        is_result = entry.role is EntryRole.RESULT
        result = entry if is_result else entry.result
        mark, colour = ("✗", "red") if entry.failed else ("✓", "green") if result else ("▸", "yellow")
        line = self._head(entry, "bold", Text(f"{mark} ", style=colour))
        if not is_result and entry.line:
            line.append(f"  {entry.line}")
        took = entry.after_ms if is_result else entry.took_ms
        if took is not None:
            line.append(f"  {human_times.duration(took)}", style="dim")
        if entry.failed:
            line.append("  failed", style="red")
        yield line
        if not is_result:
            for part in entry.parts:
                if self._full or isinstance(part, Diff):
                    yield from self._part(part, 4, RESULT_LINES_MAX)
        for part in result.parts if result else ():
            yield from self._part(part, 4, RESULT_LINES_MAX, style="red" if entry.failed else "dim")

    def _part(
        self, part: Part, indent: int, lines_max: int, style: str = "", *, typed: bool = False
    ) -> Iterator[RenderableType]:
        match part:
            case Prose(text):
                yield from self._prose(text, indent, typed=typed)
            case Preformatted(text, label):
                if label:
                    yield self._indented(Text(f"{label}:", style="dim"), indent)
                yield self._indented(Text(self._narrow(self._cut(text, lines_max)), style=style), indent)
            case Diff(lines):
                for line in lines_of(self._cut("\n".join(lines), DIFF_LINES_MAX)):
                    yield self._indented(Text(line, style=_DIFF_COLOURS.get(line[:1], "dim")), indent)
            case Fields(rows):
                for name, value in rows:
                    yield self._indented(Text.assemble((f"{name}: ", "dim"), value), indent)
            case Picture():
                yield self._indented(Text(f"[{part.label}]", style="dim"), indent)

    def _prose(self, text: str, indent: int, *, typed: bool) -> Iterator[RenderableType]:
        """Print a message; what a person typed is rendered as Markdown only if it has a code fence."""
        text = self._cut(text, PROSE_LINES_MAX)
        is_markdown = len(text) <= MARKDOWN_CHARACTERS_MAX and not (typed and "```" not in text)
        if self._output.is_terminal and is_markdown:
            drawn = Markdown(text.rstrip(), code_theme="ansi_dark", hyperlinks=False)
            yield Padding(drawn, (0, 0, 0, indent))
        else:
            yield self._indented(Text(text.rstrip()), indent)

    def _cut(self, text: str, lines_max: int) -> str:
        return text if self._full else shortened(text, lines_max, CHARACTERS_MAX)

    def _narrow(self, text: str) -> str:
        """Return the text with long lines cut off."""
        if self._full:
            return text
        most = LINE_CHARACTERS_MAX
        return "\n".join(line if len(line) <= most else f"{line[: most - 1]}…" for line in lines_of(text))

    def _indented(self, text: Text, indent: int) -> RenderableType:
        """Return indented text; wrapped lines are indented, too."""
        if self._output.is_terminal:
            return Padding(text, (0, 0, 0, indent), expand=False)
        margin = " " * indent
        return Text("\n".join(f"{margin}{line}".rstrip() for line in lines_of(text.plain)))

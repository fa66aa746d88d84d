"""The transcripts that an import selects, and what was left out or refused."""

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from durable_sessions.importers import (
    directory_walk,
    duplicate_sources,
    format_detection,
    jsonl,
    session_filter,
)
from durable_sessions.importers.registry import Tool
from durable_sessions.importers.sources import SourceError, Transcript, empty_file

LINKS_TOLD_MAX = 20
ROOTS_TOLD_MAX = 5
LINK_REASON = "a link that leads out of the folder"


class TranscriptSelection:
    """The selected transcripts, how many were left out for which reasons, and files that were refused."""

    def __init__(
        self,
        tool: Tool,
        roots: list[Path],
        since: float | None,
        project: str | None,
        tell: Callable[[str], None],
    ) -> None:
        self._tell = tell
        self._reported: set[Path] = set()
        self._tool = tool
        self._roots = roots
        self._since = since
        self._project = project
        self.left_out: Counter[str] = Counter()
        self.problems: dict[Path, str] = {}
        """The files that were named and cannot be imported, with the reason."""
        self.is_empty = True

    def where_it_looked(self) -> str:
        """Return a sentence for when nothing was found."""
        roots = [f"{root}{'' if root.exists() else ' (not there)'}" for root in self._roots[:ROOTS_TOLD_MAX]]
        more = " …" if len(self._roots) > ROOTS_TOLD_MAX else ""
        return f"Nothing was found. Looked for {self._tool.what} in: {', '.join(roots)}{more}"

    def find(self) -> list[Transcript]:
        """Find transcripts."""
        self.left_out.clear()
        self.problems.clear()
        wanted = []
        with directory_walk.collect_skipped_links() as skipped_links:
            found = self._discover()
        self._tell_links(skipped_links)
        self.is_empty = not found and not skipped_links and not self.problems
        is_strict = self._tool.name == jsonl.TOOL
        found, reasons = duplicate_sources.without_copies(found, self._roots, is_strict=is_strict)
        self.left_out.update(reasons)
        for transcript, reason in session_filter.choose(found, since=self._since, project=self._project):
            if reason is None:
                wanted.append(transcript)
            else:
                self.left_out[reason] += 1
        return wanted

    def _discover(self) -> list[Transcript]:
        try:
            found = self._tool.discover(self._roots)
        except SourceError:
            found = self._tool.discover([root for root in self._roots if self._is_readable(root)])
        self._find_fruitless(found)
        return found

    def _is_readable(self, root: Path) -> bool:
        """Say whether a path can be read by itself: one that cannot is refused, and stops no other."""
        try:
            self._tool.discover([root])
        except SourceError as error:
            self.problems[root] = self._why_not(root) or str(error)
            return False
        return True

    def _find_fruitless(self, found: Iterable[Transcript]) -> None:
        """Note the named files in which nothing was found, if it can be said why or others had something."""
        used = {part.path.absolute() for transcript in found for part in transcript.parts}
        for root in self._roots:
            if root in self.problems or not root.is_file() or root.absolute() in used:
                continue
            if said := self._why_not(root):
                self.problems[root] = said
            elif used:
                self.problems[root] = f"Nothing was found in {root}. Looked for {self._tool.what}."

    def _why_not(self, root: Path) -> str | None:
        if root.is_file() and root.stat().st_size == 0:
            return empty_file(root)
        other = format_detection.of_another_tool(root, self._tool.name)
        return None if other is None else str(format_detection.ForeignFileError(root, other))

    def _tell_links(self, skipped_links: set[Path]) -> None:
        """Report links that were not followed, each once; beyond a limit only their number."""
        if skipped_links:
            self.left_out[LINK_REASON] += len(skipped_links)
        for link in sorted(skipped_links - self._reported)[: LINKS_TOLD_MAX - len(self._reported)]:
            self._tell(f"{link} leads out of the folder that was named, and is passed over. Name what it is.")
            self._reported.add(link)

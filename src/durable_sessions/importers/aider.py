"""Aider: the chat history that it writes as Markdown, one session for each run."""

import re
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

from durable_sessions.importers import directory_walk
from durable_sessions.importers.conversation import Conversation
from durable_sessions.importers.documents import DOCUMENT_BYTES_MAX, relative, transcript
from durable_sessions.importers.events import Event, local_instant, text_block
from durable_sessions.importers.sources import SourceError, Transcript

TOOL = "aider"
NAME = ".aider.chat.history.md"
_START = re.compile(r"# aider chat started at (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\s*")
_USER, _NOTICE, _ANSWER = "#### ", "> ", ""


def discover(paths: Iterable[Path]) -> list[Transcript]:
    """Return the runs in history files: those that were named, and those below folders."""
    found = []
    for given in paths:
        root = given if given.is_dir() else given.parent
        for path in directory_walk.below(given, NAME) if given.is_dir() else [given]:
            place = blake2b(str(path.absolute()).encode(errors="surrogatepass"), digest_size=6).hexdigest()
            for number, (started, _) in enumerate(_runs(path)):
                source = f"{place}-{number}-{started.replace(' ', 'T')}"
                found.append(
                    transcript(
                        TOOL,
                        source,
                        path,
                        root,
                        _produce(path, number),
                        part=str(number),
                        directory=str(path.parent),
                    )
                )
    return found


def _runs(path: Path) -> list[tuple[str, list[str]]]:
    if path.stat().st_size > DOCUMENT_BYTES_MAX:
        raise SourceError(f"{relative(path, path.parent)} is larger than {DOCUMENT_BYTES_MAX} bytes.")
    runs: list[tuple[str, list[str]]] = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        if found := _START.fullmatch(line):
            runs.append((found.group(1), []))
        elif runs:
            runs[-1][1].append(line)
    return runs


def _produce(path: Path, number: int) -> Any:
    def produce(talk: Conversation) -> Iterator[Event]:
        runs = _runs(path)
        if number >= len(runs):
            return
        started, lines = runs[number]
        at = local_instant(started)
        talk.about.note(cwd=str(path.parent))
        yield talk.event("session.updated", "start", at=at, started_at_local=started)
        for place, kind, words in _passages(lines):
            talk.tally.records += 1
            record = f"P{place}"
            if kind == _USER:
                yield talk.user(record, [text_block(words)])
            elif kind == _NOTICE:
                yield talk.keep(record, "notice", words)
            else:
                yield from talk.agent(record, "answer", [text_block(words)])

    return produce


def _passages(lines: list[str]) -> Iterator[tuple[int, str, str]]:
    """Group consecutive lines of one kind: typed by the user, notices of the program, or answers."""
    kind, start, gathered = "", 0, list[str]()
    for number, line in enumerate(lines):
        now = _kind(line)
        if now != kind and (line.strip() or now != _ANSWER):
            if any(one.strip() for one in gathered):
                yield start, kind, "\n".join(gathered).strip()
            kind, start, gathered = now, number, []
        gathered.append(line[len(kind) :] if line.startswith(kind) else line)
    if any(one.strip() for one in gathered):
        yield start, kind, "\n".join(gathered).strip()


def _kind(line: str) -> str:
    return (
        _USER if line.startswith(_USER) else _NOTICE if line.startswith(_NOTICE) or line == ">" else _ANSWER
    )

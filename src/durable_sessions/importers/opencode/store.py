"""Finds the sessions of OpenCode, and their subagents."""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from durable_sessions.importers import directory_walk
from durable_sessions.importers.events import Event, EventMaker, SessionMetadata, session_id, text
from durable_sessions.importers.opencode.mapping import TOOL, OpenCodeMapping
from durable_sessions.importers.opencode.store_formats import Database, Exported, StorageTree, Store
from durable_sessions.importers.sources import DocumentPart, SourceError, Transcript
from durable_sessions.importers.tally import Tally

ANCESTORS_MAX = 100
"""Whoever wrote the files may have made two of them each other's parent."""


def default_paths(environment: Mapping[str, str], home: Path) -> list[Path]:
    """Return where the program keeps its sessions on this machine."""
    base = environment.get("XDG_DATA_HOME")
    return [(Path(base) if base else home / ".local" / "share") / "opencode"]


def discover(paths: Iterable[Path]) -> list[Transcript]:
    """Return the sessions of databases, trees and exports; a database takes precedence over a stale tree."""
    found: dict[str, tuple[Store, dict[str, Any], Path]] = {}
    for given in paths:
        for store in _stores(given):
            for info in store.sessions():
                found.setdefault(
                    text(info.get("id")), (store, info, given if given.is_dir() else given.parent)
                )
    made: dict[str, Transcript] = {}
    for name in sorted(found, key=lambda name: (bool(found[name][1].get("parentID")), name)):
        store, info, root = found[name]
        top = _root(name, found)
        transcript = made.setdefault(top, Transcript(TOOL, session_id(TOOL, top), []))
        transcript.directory = transcript.directory or text(info.get("directory")) or None
        transcript.parts.append(_part(store, info, root, is_child=top != name))
    return list(made.values())


def _stores(given: Path) -> list[Store]:
    """Return the places below a path, databases first."""
    if given.is_file():
        if given.suffix == ".json":
            return [Exported(given)]
        return [Database(given)]
    if not given.is_dir():
        return []
    stores: list[Store] = []
    for path in directory_walk.below(given, "opencode*.db"):
        with suppress(SourceError):  # another program of the same name has databases, too
            stores.append(Database(path))
    parents = [given, *(path.parent for path in directory_walk.below(given, "message"))]
    seen: set[Path] = set()
    for folder in parents:
        tree = folder.parent if folder.name == "session" and (folder / "info").is_dir() else folder
        if tree not in seen and (tree / "session").is_dir():
            seen.add(tree)
            stores.append(StorageTree(tree))
    return stores


def _root(name: str, found: Mapping[str, tuple[Store, dict[str, Any], Path]]) -> str:
    for _ in range(ANCESTORS_MAX):
        parent = text(found[name][1].get("parentID"))
        if not parent:
            return name
        if parent not in found:
            return parent
        name = parent
    return name


def _part(store: Store, info: dict[str, Any], root: Path, *, is_child: bool) -> DocumentPart:
    session = text(info.get("id"))
    file = os.path.relpath(store.path, root).replace(os.sep, "/")
    return DocumentPart(
        store.path,
        f"{file}#{session}",
        _produce(store, info, file, is_child),
        fingerprint=lambda: f"{store.fingerprint(session)} {info.get('time')}",
    )


def _produce(
    store: Store, info: dict[str, Any], file: str, is_child: bool
) -> Callable[[SessionMetadata, Tally], Iterator[Event]]:
    session = text(info.get("id"))

    def produce(about: SessionMetadata, tally: Tally) -> Iterator[Event]:
        try:
            mapping = OpenCodeMapping(
                info,
                store.extras(session),
                EventMaker(TOOL, session, file),
                about,
                tally,
                is_child=is_child,
                now_ms=int(time.time() * 1000),
            )
            yield from mapping.events(store.messages(session))
        except OSError as error:
            raise SourceError(f"{store.path} cannot be read: {error}") from error

    return produce

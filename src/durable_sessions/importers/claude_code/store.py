"""Finds the sessions of Claude Code, and the files of each."""

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from durable_sessions.importers import directory_walk, line_format
from durable_sessions.importers.claude_code import forks, outputs
from durable_sessions.importers.claude_code.context import TOOL
from durable_sessions.importers.claude_code.parser import ClaudeCodeParser
from durable_sessions.importers.events import members, session_id, text
from durable_sessions.importers.lines import LineReader, parse_document
from durable_sessions.importers.sources import ForkPoint, LinesPart, Parser, Part, Transcript

PEEKED_RECORDS_MAX = 200
META_BYTES_MAX = 1024 * 1024
_AGENT = re.compile(r"agent-(.{1,150})\.jsonl")


def default_paths(environment: Mapping[str, str], home: Path) -> list[Path]:
    """Return where the program keeps its projects on this machine."""
    configured = environment.get("CLAUDE_CONFIG_DIR")
    return [(Path(configured) if configured else home / ".claude") / "projects"]


@dataclass(slots=True)
class _Session:
    """The files of one session, while they are gathered."""

    root: Path
    main: Path | None = None
    agents: dict[str, Path] = field(default_factory=dict)
    others: list[Path] = field(default_factory=list)
    others_of_its_name: list[Path] = field(default_factory=list)

    @property
    def first(self) -> Path:
        """The main file of the session."""
        return self.main or next(iter([*self.agents.values(), *self.others]))


def discover(paths: Iterable[Path]) -> list[Transcript]:
    """Return the sessions in files and folders, subagents with the session that started them."""
    sessions: dict[str, _Session] = {}
    for given in paths:
        root = given if given.is_dir() else given.parent
        for path in directory_walk.below(given, "*.jsonl") if given.is_dir() else [given]:
            if path.is_file():
                _gather(sessions, root, path)
        if not given.is_dir():
            _gather_agents(sessions, root, given)
    peeks = {name: peek(found.first) for name, found in sessions.items()}
    made = {name: _transcript(name, found, peeks[name]) for name, found in sessions.items()}
    mains = {name: found.main for name, found in sessions.items() if found.main is not None}
    heads = {name: text(peeks[name].get("uuid")) for name in mains}
    for name, (source, uuid) in forks.find(mains, heads).items():
        # The id of an event follows from what the parser has read before it, so that the source is parsed
        # again up to the fork.
        behind = forks.last_event(mains[source], _main(source, sessions[source], {}), uuid)
        if behind is not None:
            made[name].origin = ForkPoint(session_id(TOOL, source), behind)
    return [*_others_of_the_same_name(sessions), *made.values()]


def _others_of_the_same_name(sessions: Mapping[str, _Session]) -> list[Transcript]:
    """Return transcripts for further files with the id of a session that exists already, to report them."""
    return [
        _transcript(name, _Session(path.parent, path), peek(path))
        for name, found in sessions.items()
        for path in found.others_of_its_name
    ]


def _gather(sessions: dict[str, _Session], root: Path, path: Path) -> None:
    """Assign a file to its session; a file without a complete record is left for later."""
    known = peek(path)
    if not known:
        return
    agent = _AGENT.fullmatch(path.name)
    # Newer versions put subagents into <session>/subagents, some of them one or two folders deeper; older
    # ones put them beside the session, where only the records inside say to which session they belong.
    inside = "subagents" in path.parts[-4:-1]
    if agent is None and not inside:
        session = sessions.setdefault(path.stem, _Session(root))
        if session.main is not None and session.main.resolve() != path.resolve():
            session.others_of_its_name.append(session.main)
        session.main = path
        return
    owner = _folder_owner(path) if inside else text(known.get("sessionId"))
    session = sessions.setdefault(owner or path.stem, _Session(root))
    if agent is not None:
        session.agents[agent.group(1)] = path
    else:
        session.others.append(path)


def _gather_agents(sessions: dict[str, _Session], root: Path, path: Path) -> None:
    """Add the subagents of a session that was named by its file."""
    if _AGENT.fullmatch(path.name):
        return
    for found in directory_walk.below(path.parent / path.stem / "subagents", "*.jsonl", path.parent):
        _gather(sessions, root, found)
    for found in directory_walk.below(path.parent, "agent-*.jsonl", deep=False):
        if text(peek(found).get("sessionId")) == path.stem:
            _gather(sessions, root, found)


def _folder_owner(path: Path) -> str:
    """Return the session in whose folder a file is: the name above ``subagents``."""
    parts = path.parts
    return parts[len(parts) - 1 - parts[::-1].index("subagents") - 1]


def peek(path: Path) -> dict[str, Any]:
    """Return session, directory and first uuid from the first records of a file."""
    found: dict[str, Any] = {}
    number = -1
    try:
        with path.open("rb") as file:
            for number, record in enumerate(LineReader().read(file, ending=True)):
                for name in ("sessionId", "cwd", "uuid"):
                    if name not in found and (value := text(members(record.value).get(name))):
                        found[name] = value
                if len(found) == 3 or number >= PEEKED_RECORDS_MAX:
                    break
    except OSError:
        return {}
    return {"records": number + 1, **found} if number >= 0 else {}


def _check(path: Path) -> None:
    line_format.check(path, "records of Claude Code", line_format.is_typed)


def _transcript(name: str, found: _Session, known: dict[str, Any]) -> Transcript:
    metas = {agent: _meta(path) for agent, path in found.agents.items()}
    # A file beside a subagent's own names the call that started it. Without one, the records of the main file
    # say it later.
    calls = {call: agent for agent, meta in metas.items() if (call := text(meta.get("toolUseId")))}
    parts: list[Part] = []
    if found.main is not None:
        relative = _relative(found.main, found.root)
        parts.append(LinesPart(found.main, relative, _main(name, found, calls), _check))
    for agent, path in found.agents.items():
        parts.append(
            LinesPart(path, _relative(path, found.root), _agent(name, found, agent, metas[agent], calls))
        )
    parts += [
        LinesPart(path, _relative(path, found.root), _other(name, found, path)) for path in found.others
    ]
    saved = found.main.with_suffix("") / outputs.FOLDER if found.main is not None else None
    if saved is not None and saved.is_dir() and directory_walk.lies_in(saved, found.root):
        parts.append(outputs.outputs(name, saved, _relative(saved, found.root)))
    return Transcript(TOOL, session_id(TOOL, name), parts, text(known.get("cwd")) or None)


def _main(name: str, found: _Session, calls: dict[str, str]) -> Callable[[], Parser]:
    assert found.main is not None
    file = _relative(found.main, found.root)
    return lambda: ClaudeCodeParser(name, file, agents_by_call=calls)


def _agent(
    name: str, found: _Session, agent: str, meta: dict[str, Any], calls: dict[str, str]
) -> Callable[[], Parser]:
    file = _relative(found.agents[agent], found.root)
    return lambda: ClaudeCodeParser(name, file, agent=agent, agent_meta=meta, agents_by_call=calls)


def _other(name: str, found: _Session, path: Path) -> Callable[[], Parser]:
    file = _relative(path, found.root)
    return lambda: ClaudeCodeParser(f"{name} {file}", file)


def _meta(path: Path) -> dict[str, Any]:
    beside = path.with_name(path.name.removesuffix(".jsonl") + ".meta.json")
    try:
        if beside.stat().st_size > META_BYTES_MAX or not directory_walk.lies_in(beside, path.parent):
            return {}
        return members(parse_document(beside.read_bytes()))
    except (OSError, ValueError):
        return {}


def _relative(path: Path, root: Path) -> str:
    return os.path.relpath(path, root).replace(os.sep, "/")

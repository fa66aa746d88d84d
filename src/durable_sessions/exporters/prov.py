"""PROV-JSON of the W3C: which event came from which, in which activity, and who is responsible for it.

Events and artifacts are entities, the session and its tool calls are activities, principals are agents. What
events say is not in it. An event's name begins with the session that it was appended to, so that documents of
several sessions can be merged, and what one of them refers to is what the other one describes.
"""

import zlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import quote

from durable_sessions.exporters.options import ExportOptions, Session
from durable_sessions.exporters.references import references
from durable_sessions.rendering.events import (
    CALLS,
    Event,
    call_of,
    decode,
    encode,
    happened_ms,
    position,
    text_member,
)
from durable_sessions.rendering.human_times import moment
from durable_sessions.rendering.text import one_line
from durable_sessions.times import rfc3339

VERSION = "durable-sessions-prov/2"
PREFIXES = {
    "ds": "urn:durable-sessions:",
    "session": "urn:durable-sessions:session:",
    "event": "urn:durable-sessions:event:",
    "call": "urn:durable-sessions:call:",
    "memory": "urn:durable-sessions:memory:",
    "artifact": "urn:durable-sessions:artifact:sha256:",
    "principal": "urn:durable-sessions:principal:",
    "export": "urn:durable-sessions:export:",
}
_SECTIONS = (
    "activity",
    "agent",
    "wasGeneratedBy",
    "used",
    "wasAttributedTo",
    "wasAssociatedWith",
    "wasDerivedFrom",
    "wasInformedBy",
)
"""Behind the entities, which are written as the events come."""
_PIECE_BYTES = 64 * 1024
HELD_CALLS_MAX = 1_000
"""How many calls may wait for their results, which are else not told as theirs."""
_KNOWN_ARTIFACTS_MAX = 10_000
INHERITED_IDS_MAX = 1_000_000
"""How many events that a fork inherits are known by their ids; refs to others are told as to its own."""
_ANCESTORS_MAX = 1_000


class _Packed:
    """The members of a section, compressed until they are written: an object has each section once."""

    def __init__(self) -> None:
        self._packer = zlib.compressobj(6)
        self._packed: list[bytes] = []
        self._is_empty = True

    def add(self, name: str, said: dict[str, Any]) -> None:
        """Add a member."""
        separator = b"" if self._is_empty else b",\n"
        self._is_empty = False
        packed = self._packer.compress(b"%b%b:%b" % (separator, encode(name), encode(said)))
        if packed:
            self._packed.append(packed)

    def pieces(self) -> Iterator[bytes]:
        """Yield the members again."""
        unpacker = zlib.decompressobj()
        self._packed.append(self._packer.flush())
        for packed in self._packed:
            waiting = packed
            while waiting:
                yield unpacker.decompress(waiting, _PIECE_BYTES)
                waiting = unpacker.unconsumed_tail
        yield unpacker.flush()


class _Lineage:
    """To which session the events of a fork were appended: what it inherits is its ancestors'."""

    def __init__(self, session: Session, options: ExportOptions) -> None:
        self._own = str(session.get("id") or "unknown")
        self._begins: list[tuple[int, str]] = []
        self._inherited: dict[str, str] = {}
        shown: Session | None = session
        end: int | None = None
        while shown is not None and len(self._begins) < _ANCESTORS_MAX:
            source = shown.get("forked_from")
            source = source if isinstance(source, dict) else {}
            name, begin = source.get("session_id"), source.get("position")
            if not isinstance(name, str) or not isinstance(begin, int):
                return
            # A fork of a fork may begin before the place where that one begins.
            end = begin if end is None else min(end, begin)
            self._begins.append((end, name))
            # A source that was deleted may have left its id to another session.
            shown = None if source.get("deleted") else options.other_session(name)

    @property
    def ancestors(self) -> list[str]:
        """What it was forked from, and what that was forked from, the nearest first."""
        return list(dict.fromkeys(name for _, name in self._begins if name != self._own))

    def owner(self, at: int | None) -> str:
        """Return the session to which the event at a position was appended."""
        owner = self._own
        for begin, name in self._begins:
            if at is None or at >= begin:
                break
            owner = name
        return owner

    def inherit(self, event: str, owner: str) -> None:
        """Remember that an event was inherited: refs in the fork name it by its id alone."""
        if len(self._inherited) < INHERITED_IDS_MAX:
            self._inherited[event] = owner

    def owner_of(self, event: str) -> str:
        """Return the session to which an event was appended that is named by its id."""
        return self._inherited.get(event, self._own)


class _Document:
    """Makes entities of events, and keeps activities, agents and relations until the end."""

    def __init__(self, session: Session, options: ExportOptions) -> None:
        self._own = str(session.get("id") or "unknown")
        self._session = _named("session", self._own)
        self._lineage = _Lineage(session, options)
        self._start_ms: int | None = moment(session.get("created_at"))
        self._end_ms: int | None = None
        self.sections = {name: _Packed() for name in _SECTIONS}
        self._count = 0
        self._agents: set[str] = set()
        self._artifacts: set[str] = set()
        self._calls: OrderedDict[str, str] = OrderedDict()

    def take(self, event: Event) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the entities that an event is, or names."""
        kind, name = text_member(event, "type"), text_member(event, "id")
        if not name:
            return
        owner = self._lineage.owner(position(event))
        if owner != self._own:
            self._lineage.inherit(name, owner)
        entity = _named("event", owner, name)
        at_ms = happened_ms(event)
        said: dict[str, Any] = {"prov:type": _text(one_line(kind, 128) or "unknown")}
        if offset := text_member(event, "offset"):
            said["ds:offset"] = _text(one_line(offset, 64))
        yield entity, said
        if at_ms is not None:
            self._start_ms = at_ms if self._start_ms is None else min(self._start_ms, at_ms)
            self._end_ms = at_ms if self._end_ms is None else max(self._end_ms, at_ms)
        self._attribute(entity, event)
        yield from self._derive(entity, event)
        made_by = _named("session", owner)
        if kind in CALLS:
            self._call(entity, owner, event, at_ms)
        elif (call := call_of(event)) is not None and call in self._calls:
            of_call = self._calls.pop(call)
            made_by = _named("call", of_call, call)
            self._relate(entity, _named("event", of_call, call), "result_of")
        generated: dict[str, Any] = {"prov:entity": entity, "prov:activity": made_by}
        if at_ms is not None:
            generated["prov:time"] = rfc3339(at_ms)
        self._add("wasGeneratedBy", generated)

    def finish(self) -> None:
        """Add the session itself, and what it was forked from."""
        said: dict[str, Any] = {"prov:type": _text("session")}
        if self._start_ms is not None:
            said["prov:startTime"] = rfc3339(self._start_ms)
            said["prov:endTime"] = rfc3339(max(self._start_ms, self._end_ms or self._start_ms))
        self.sections["activity"].add(self._session, said)
        for agent in sorted(self._agents):
            self._add("wasAssociatedWith", {"prov:activity": self._session, "prov:agent": agent})
        informed = self._session
        for ancestor in self._lineage.ancestors:
            source = _named("session", ancestor)
            self.sections["activity"].add(source, {"prov:type": _text("session")})
            self._add("wasInformedBy", {"prov:informed": informed, "prov:informant": source})
            informed = source

    def _call(self, entity: str, owner: str, event: Event, at_ms: int | None) -> None:
        name = text_member(event, "id")
        activity = _named("call", owner, name)
        self._calls[name] = owner
        if len(self._calls) > HELD_CALLS_MAX:
            self._calls.popitem(last=False)
        said: dict[str, Any] = {"prov:type": _text("tool_call")}
        said["ds:tool"] = _text(one_line(text_member(event, "name"), 200) or "unknown")
        if at_ms is not None:
            said["prov:startTime"] = rfc3339(at_ms)
        self.sections["activity"].add(activity, said)
        self._add("wasInformedBy", {"prov:informed": activity, "prov:informant": _named("session", owner)})
        self._add("used", {"prov:activity": activity, "prov:entity": entity})

    def _attribute(self, entity: str, event: Event) -> None:
        actor = text_member(event, "actor")
        if not actor:
            return
        agent = _named("principal", actor)
        if agent not in self._agents:
            self._agents.add(agent)
            self.sections["agent"].add(agent, {"prov:label": _text(one_line(actor, 200))})
        self._add("wasAttributedTo", {"prov:entity": entity, "prov:agent": agent})

    def _derive(self, entity: str, event: Event) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the artifacts that an event names, and relate it to all that it refers to."""
        for ref in references(event):
            if ref.artifact is not None:
                source = _named("artifact", ref.artifact)
                # Beyond so many they are only related to, which is allowed: none may be described twice.
                if source not in self._artifacts and len(self._artifacts) < _KNOWN_ARTIFACTS_MAX:
                    self._artifacts.add(source)
                    yield source, {"prov:type": _text("artifact")}
            elif ref.scope is not None:
                source = _named("memory", ref.scope, ref.id)
            else:
                source = _named("event", ref.session or self._lineage.owner_of(ref.id), ref.id)
            self._relate(entity, source, ref.rel)
            if ref.rel == "reads":
                self._add("used", {"prov:activity": self._session, "prov:entity": source})

    def _relate(self, entity: str, source: str, rel: str) -> None:
        said = {"prov:generatedEntity": entity, "prov:usedEntity": source, "prov:type": _text(rel)}
        self._add("wasDerivedFrom", said)

    def _add(self, section: str, said: dict[str, Any]) -> None:
        self._count += 1
        self.sections[section].add(f"_:r{self._count}", said)


def export(session: Session, lines: Iterable[bytes], options: ExportOptions) -> Iterator[bytes]:
    """Return one document."""
    document = _Document(session, options)
    yield b'{"prefix":%b,"entity":{' % encode(PREFIXES)
    about = {"prov:type": _text("export"), "ds:format": _text(VERSION)}
    yield b"\n%b:%b" % (encode(_named("export", str(session.get("id") or "unknown"))), encode(about))
    for line in lines:
        for name, said in document.take(decode(line)):
            yield b",\n%b:%b" % (encode(name), encode(said))
    document.finish()
    for name, section in document.sections.items():
        yield b'\n},"%b":{\n' % name.encode()
        yield from section.pieces()
    yield b"\n}}\n"


def _named(prefix: str, *names: str) -> str:
    """Return a qualified name of several parts; characters that have a meaning there are escaped."""
    return f"{prefix}:{'/'.join(quote(name[:512], safe='-._~', errors='replace') for name in names)}"


def _text(text: str) -> dict[str, str]:
    return {"$": text, "type": "xsd:string"}

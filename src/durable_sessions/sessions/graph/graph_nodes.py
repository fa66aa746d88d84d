"""Nodes and edges of a graph: how they are named, and what is said of each."""

from collections.abc import Iterator
from typing import Annotated, Literal, NamedTuple

import msgspec

from durable_sessions import lenient
from durable_sessions.rendering.text import one_line
from durable_sessions.rendering.work_events import described
from durable_sessions.schema_notes import Offset, about
from durable_sessions.sessions.graph import strict
from durable_sessions.sessions.graph.happened import CALLS, RESULTS, Happened
from durable_sessions.sessions.tombstones import is_tombstone
from durable_sessions.streams import offsets

LABEL_MAX = 100
"""The longest label, in characters; longer ones are cut."""
NodeKind = Literal["session", "event", "artifact", "principal", "sandbox"]


class GraphNode(msgspec.Struct, omit_defaults=True):
    """A session, an event, an artifact, a principal or a sandbox."""

    id: str
    kind: NodeKind
    label: str
    type: Annotated[str | msgspec.UnsetType, about("Of an event.")] = msgspec.UNSET
    offset: Annotated[Offset | msgspec.UnsetType, about("Of an event, in its session.")] = msgspec.UNSET
    actor: Annotated[str | msgspec.UnsetType, about("Who appended an event.")] = msgspec.UNSET
    redacted: Annotated[bool, about("True if its content was erased.")] = False
    missing: Annotated[bool, about("True if it is gone: only its name is left.")] = False


class GraphEdge(msgspec.Struct, frozen=True):
    """An edge: a ref, stored or implied, or `forked_from`, `in`, `by`, `ran_in`."""

    from_: str = msgspec.field(name="from")
    to: str
    rel: str


class SessionGraph(msgspec.Struct):
    """What led to what in a session; both ends of every edge are among the nodes."""

    session: str
    offset: Offset
    nodes: list[GraphNode]
    edges: list[GraphEdge]
    truncated: Annotated[bool, about("True if there is more than a graph may have.")]


def encoded(graph: SessionGraph) -> Iterator[bytes]:
    """Yield a graph as JSON in small pieces, so that encoding a large one holds nobody up."""
    for number, name in enumerate(graph.__struct_fields__):
        value = getattr(graph, name)
        yield b'%b"%b":' % (b"," if number else b"{", name.encode())
        if isinstance(value, list):
            yield b"["
            for place, one in enumerate(value):
                yield (b"," if place else b"") + msgspec.json.encode(one)
            yield b"]"
        else:
            yield msgspec.json.encode(value)
    yield b"}"


class MissingEvent(msgspec.Struct, frozen=True):
    """Evidence that is gone, as it was named; no session for an artifact."""

    id: str
    session: str | None


class WhyGraph(SessionGraph):
    """What an event rests on."""

    missing: Annotated[list[MissingEvent], about("What is gone: deleted since, or of another life.")]


class MemoryReader(msgspec.Struct, frozen=True):
    """A read that returned a memory, and what the reader said it was for."""

    session: str
    id: str
    influence: str


class ImpactGraph(SessionGraph):
    """What could have flowed from an event."""

    readers: Annotated[list[MemoryReader], about("If the event is a memory: the reads that returned it.")]
    up_to_date: Annotated[bool, about("False while the index does not have all events yet.")]


class SessionLife(NamedTuple):
    """One life of a session: its id, its incarnation, and whether that life is gone."""

    session: str
    life: str
    is_gone: bool = False

    @property
    def name(self) -> str:
        """How nodes name it."""
        return f"{self.session}~{self.life}" if self.is_gone else self.session

    @property
    def node(self) -> str:
        """The id of its node."""
        return f"session:{self.name}"

    def event(self, event: str) -> str:
        """Return the id of the node of an event that was appended to it."""
        return f"event:{self.name}/{event}"


class _Block(msgspec.Struct):
    text: msgspec.Raw = lenient.NULL


_BLOCKS = msgspec.json.Decoder(list[_Block])


def session_node(life: SessionLife) -> GraphNode:
    """Return the node of a session."""
    return GraphNode(life.node, "session", life.name)


def event_node(life: SessionLife, happened: Happened) -> GraphNode:
    """Return the node of an event that was appended to a session."""
    is_erased = is_tombstone(happened.body)
    return GraphNode(
        life.event(happened.id),
        "event",
        one_line(happened.type if is_erased else _label(happened), LABEL_MAX) or "event",
        happened.type,
        offsets.encode(happened.position),
        happened.actor,
        redacted=is_erased,
    )


def missing_event(name: str, event: str) -> GraphNode:
    """Return the node of an event of which only the name is left."""
    return GraphNode(f"event:{name}/{event}", "event", one_line(event, LABEL_MAX) or "event", missing=True)


def artifact_node(digest: str, *, redacted: bool = False, missing: bool = False) -> GraphNode:
    """Return the node of an artifact."""
    return GraphNode(
        f"artifact:{digest}", "artifact", f"sha256:{digest[:12]}…", redacted=redacted, missing=missing
    )


def principal_node(name: str) -> GraphNode:
    """Return the node of who appended events."""
    return GraphNode(f"principal:{name}", "principal", one_line(name, LABEL_MAX) or "principal")


def sandbox_node(name: str) -> GraphNode:
    """Return the node of a sandbox in which calls ran."""
    return GraphNode(f"sandbox:{name}", "sandbox", one_line(name, LABEL_MAX) or "sandbox")


def _label(happened: Happened) -> str:
    if strict.is_strict(happened.type):
        return _strict_label(happened) or happened.type
    members = happened.members
    if happened.type in CALLS:
        return members.text("name") or happened.type
    if happened.type in RESULTS:
        return f"{happened.type} (error)" if members.failed else happened.type
    said = _first_text(members.content)
    return f"{happened.type}: {said}" if said else happened.type


def _strict_label(happened: Happened) -> str | None:
    if happened.strict is None:
        return None
    try:
        entry = described(lenient.loads(happened.body))
    except (ValueError, RecursionError):
        return None
    return None if entry is None else f"{entry.title}: {entry.line}"


def _first_text(content: msgspec.Raw) -> str | None:
    if (text := lenient.text(content)) is not None:
        return text
    try:
        blocks = lenient.decode(_BLOCKS, bytes(content))
    except (msgspec.MsgspecError, RecursionError):
        return None
    return next((text for block in blocks if (text := lenient.text(block.text))), None)

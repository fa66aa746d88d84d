"""What an event leads to: the refs that it states, and those that its members imply."""

from typing import NamedTuple

import msgspec

from durable_sessions import lenient
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.sessions.graph import schemas, strict
from durable_sessions.sessions.graph.happened import RESULTS, Happened
from durable_sessions.sessions.graph.schemas import ARTIFACT_REF

_REFS_MAX = DEFAULT_LIMITS.refs_per_event_max
_ID_MAX = DEFAULT_LIMITS.event_id_max


class LinkTarget(NamedTuple):
    """An event, or an artifact, as another event names it.

    ``session`` is None for the session that names it, whose inherited events count, too. ``life`` is the
    incarnation that the server noted when the ref was stored; None where it noted none.
    """

    id: str
    session: str | None = None
    life: str | None = None

    @property
    def artifact(self) -> str | None:
        """The digest of the artifact that this names, None if it names an event."""
        return self.id.removeprefix(ARTIFACT_REF) if self.id.startswith(ARTIFACT_REF) else None


class EventLink(NamedTuple):
    """An edge that begins at an event.

    Nobody checked an ``unchecked`` one, of a free event or an import, when it was stored: it counts only if
    it leads to something that was there before.
    """

    rel: str
    target: LinkTarget
    unchecked: bool = False


class _Lives(msgspec.Struct):
    ref_incarnations: list[str | None] = []


_LIVES = msgspec.json.Decoder(_Lives)


def links(happened: Happened) -> list[EventLink]:
    """Return what an event leads to, each edge once.

    What was there before under the same key (of a fact, of a memory) is not among them: that is not in the
    event.
    """
    if strict.is_strict(happened.type):
        event = happened.strict
        found = [] if event is None else _strict(event, lives(happened))
        unchecked = happened.imported is not None
    else:
        found, unchecked = _free(happened), True
    return [EventLink(rel, target, unchecked) for rel, target in dict.fromkeys(found)]


def adopted_ids(happened: Happened) -> list[str]:
    """Return the events that an adoption took over; whoever refers to them here means this event."""
    event = happened.strict
    if not isinstance(event, schemas.Adopted):
        return []
    return _taken(event)


def _free(happened: Happened) -> list[tuple[str, LinkTarget]]:
    refs = happened.refs
    if len(refs) > _REFS_MAX:
        refs = []
    found: list[tuple[str, LinkTarget]] = [(ref.rel, LinkTarget(ref.id, ref.session)) for ref in refs]
    if happened.type in RESULTS and (call := happened.members.call) and len(call) <= _ID_MAX:
        found.append(("result_of", LinkTarget(call)))
    return found


def _strict(event: schemas.StrictEvent, lives: list[str | None]) -> list[tuple[str, LinkTarget]]:
    """Return the edges of a strict event; ``lives`` are in the order of its refs and then of its members."""
    noted = iter(lives)
    found: list[tuple[str, LinkTarget]] = [
        (ref.rel, LinkTarget(ref.id, ref.session, next(noted, None))) for ref in event.refs
    ]
    match event:
        case schemas.ApprovalDecided():
            found.append(("answers", LinkTarget(event.request)))
        case schemas.ContextReset():
            found.append(("uses", LinkTarget(event.checkpoint)))
        case schemas.MemoryRead():
            for write in event.returned:
                life = next(noted, None)
                if write.session is not None:  # else no event wrote it, but a request to a memory store
                    found.append(("reads", LinkTarget(write.id, write.session, life)))
        case schemas.MemoryRolledBack():
            found.append(("undoes", LinkTarget(event.write, event.session, next(noted, None))))
        case schemas.ArtifactAttached():
            found.append(("uses", LinkTarget(ARTIFACT_REF + event.sha256)))
        case schemas.Adopted():
            life = next(noted, None)
            found += [("adopts", LinkTarget(one, event.session, life)) for one in _taken(event)]
    return found


def _taken(event: schemas.Adopted) -> list[str]:
    facts, verdicts = (one.id for one in event.facts), (one.id for one in event.verdicts)
    return list(dict.fromkeys((*facts, *verdicts, *(one.id for one in event.artifacts))))


def lives(happened: Happened) -> list[str | None]:
    """Return the incarnations that the server noted, one per ref first; none if it noted none."""
    if b'"ref_incarnations"' not in happened.body:
        return []
    try:
        return lenient.decode(_LIVES, happened.body).ref_incarnations
    except (msgspec.MsgspecError, RecursionError):
        return []

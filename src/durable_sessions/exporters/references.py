"""What an event refers to, by its refs and by its members; what does not fit is left out."""

from collections.abc import Iterator
from typing import NamedTuple

from durable_sessions.rendering.events import Event, text_member

_RELS = frozenset(
    {
        *("because", "about", "evaluates", "answers", "uses"),
        *("reads", "undoes", "supersedes", "result_of", "adopts"),
    }
)
_REFS_MAX = 64
_RETURNED_MAX = 100
_ADOPTED_MAX = 10_000
_ARTIFACT = "sha256:"
_TAKEN = ("facts", "verdicts", "artifacts")


class EventReference(NamedTuple):
    """A relation of an event to another one, or to an artifact.

    ``session`` is None for an event of the same session. What no session wrote, but a request to a memory
    store, has its ``scope`` instead.
    """

    rel: str
    id: str
    session: str | None = None
    scope: str | None = None

    @property
    def artifact(self) -> str | None:
        """The digest of the artifact that this names, None if it names something else."""
        return self.id.removeprefix(_ARTIFACT) if self.id.startswith(_ARTIFACT) else None


def references(event: Event) -> Iterator[EventReference]:
    """Yield what an event refers to."""
    for ref in _objects(event, "refs", _REFS_MAX):
        rel, session = text_member(ref, "rel"), text_member(ref, "session")
        if rel in _RELS and (target := text_member(ref, "id")):
            yield EventReference(rel, target, session or None)
    match text_member(event, "type"):
        case "ds.artifact" if digest := text_member(event, "sha256"):
            yield EventReference("uses", _ARTIFACT + digest)
        case "ds.approval.decided" if request := text_member(event, "request"):
            yield EventReference("answers", request)
        case "ds.context.reset" if checkpoint := text_member(event, "checkpoint"):
            yield EventReference("uses", checkpoint)
        case "ds.memory.read":
            yield from _reads(event)
        case "ds.memory.rolled_back" if write := text_member(event, "write"):
            yield EventReference("undoes", write, text_member(event, "session") or None)
        case "ds.adopted" if session := text_member(event, "session"):
            for name in _TAKEN:
                for one in _objects(event, name, _ADOPTED_MAX):
                    if taken := text_member(one, "id"):
                        yield EventReference("adopts", taken, session)


def _reads(event: Event) -> Iterator[EventReference]:
    scope = text_member(event, "scope")
    for one in _objects(event, "returned", _RETURNED_MAX):
        write, session = text_member(one, "id"), text_member(one, "session")
        if write:
            yield EventReference("reads", write, session or None, None if session else scope)


def _objects(event: Event, name: str, most: int) -> Iterator[Event]:
    values = event.get(name)
    for value in values[:most] if isinstance(values, list) else ():
        if isinstance(value, dict):
            yield value

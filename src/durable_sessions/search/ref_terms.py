"""What an event leads to, as terms of the index: whoever looks for what led to an event finds these.

A ref names its target by incarnation and id if the server noted one, by the id of a session if a free event
has it, and else within its own stream. Facts are found by their keys and memories by their ids, because one
replaces another without naming it.
"""

from collections.abc import Iterator

from durable_sessions.sessions.graph import schemas
from durable_sessions.sessions.graph.links import links
from durable_sessions.sessions.graph.stored import happened

_REFS, _CALL, _STRICT = b'"refs"', b'tool_use_id"', b'"ds.'
"""Of these an event that leads somewhere has one, however its JSON is spaced."""


def in_life(life: str, event: str) -> str:
    """Return the term of a ref to an event of one life of a session."""
    return f"{life}/{event}"


def in_session(session: str, event: str) -> str:
    """Return the term of a ref to an event of whichever session has an id."""
    return f"@{session}/{event}"


def in_stream(stream: int, event: str) -> str:
    """Return the term of a ref within a session, to one of its own events or to an inherited one."""
    return f"#{stream}/{event}"


def fact(stream: int, key: str) -> str:
    """Return the term of events of a session that say a fact or retract it."""
    return f"={stream}/{key}"


def memory(event: str) -> str:
    """Return the term of a memory, by the id of its event: a later one replaces it without naming it."""
    return f"+{event}"


def terms_of(stream: int, event: bytes) -> tuple[str, ...]:
    """Return the terms of a stored event; none for most."""
    if _REFS not in event and _CALL not in event and _STRICT not in event:
        return ()
    return tuple(dict.fromkeys(_terms(stream, event)))


def _terms(stream: int, event: bytes) -> Iterator[str]:
    read = happened(event, 0, 0)
    for _, target, _ in links(read):
        if target.artifact is not None:
            continue
        if target.life is not None:
            yield in_life(target.life, target.id)
        elif target.session is not None:
            yield in_session(target.session, target.id)
        else:
            yield in_stream(stream, target.id)
    match read.strict:
        case schemas.Fact() | schemas.FactRetracted() as said:
            yield fact(stream, said.key)
        case schemas.MemoryWritten():
            yield memory(read.id)
        case schemas.Adopted() as said:
            yield from (fact(stream, one.key) for one in said.facts)

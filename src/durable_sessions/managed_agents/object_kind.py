"""The kinds of registered objects: their names, and how a request becomes a document."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from durable_sessions.errors import DurableSessionsError

Document = dict[str, Any]
VersionOf = Callable[[str], int]
Body = TypeVar("Body")


def _as_given(body: Body, version_of: VersionOf) -> Body:
    return body


@dataclass(frozen=True, slots=True)
class Kind(Generic[Body]):
    """A kind of object: its request body, and how it is stored and shown."""

    name: str
    called: str
    """How a refusal calls one: ``An agent``."""
    prefix: str
    """The prefix of ids."""
    body: type[Body]
    native_body: type[Body]
    """The body in the native dialect, which has no unknown members."""
    wrong: type[DurableSessionsError]
    """How a body is refused."""
    new: Callable[[Body], Document]
    revise: Callable[[Document, Body], Document]
    shown: Callable[[bytes], bytes]
    """Returns an object as clients see it, from its stored bytes."""
    resolved: Callable[[Body, VersionOf], Body] = _as_given
    """Returns a body in which every reference to another object has a version."""


def patched(metadata: dict[str, str], patch: dict[str, str | None] | None) -> dict[str, str]:
    """Return metadata with a patch applied; null deletes a key."""
    merged = {**metadata, **(patch or {})}
    return {key: text for key, text in merged.items() if text is not None}

"""How members of events are made to fit the shapes that a format promises.

Events are stored as they come, so a member may be of another shape here. What does not fit is replaced by
the nearest thing that does, or left out where a member may be missing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from durable_sessions.rendering.text import compact, whole

ABSENT = object()
"""Stands for a member that is not there."""


@dataclass(frozen=True, slots=True)
class MemberShape:
    """A member: the shapes that it may have, one of which it must fit, and what it is otherwise."""

    shapes: tuple[Any, ...]
    otherwise: Any = ABSENT

    def fitted(self, value: object) -> object:
        """Return a value that fits; ``ABSENT`` if there is none."""
        if value is not ABSENT and any(_fits(value, shape) for shape in self.shapes):
            return value
        return self.otherwise


@dataclass(frozen=True, slots=True)
class Content:
    """A list of content blocks; one that must not be here becomes a text block that shows it."""

    blocks: Any
    required: bool = False

    def fitted(self, value: object) -> object:
        """Return a list of blocks."""
        if value is ABSENT or value is None or value == "":
            return [] if self.required else ABSENT
        return [self._block(one) for one in (value if isinstance(value, list) else [value])]

    def _block(self, block: object) -> object:
        if isinstance(block, str):
            return {"type": "text", "text": block}
        return block if _fits(block, self.blocks) else {"type": "text", "text": whole(compact(block))}


@dataclass(frozen=True, slots=True)
class Metadata:
    """An object of texts; other values become their JSON."""

    def fitted(self, value: object) -> object:
        """Return an object of texts."""
        if not isinstance(value, dict):
            return ABSENT
        return {name: one if isinstance(one, str) else compact(one) for name, one in value.items()}


@dataclass(frozen=True, slots=True)
class ErrorShape:
    """An error; one of a kind that is not known is an unknown error with the same message."""

    shapes: tuple[Any, ...]
    unknown: Mapping[str, Any]
    retry_status: Any = None
    """The shape of the member that says whether the request is tried again, which unknown errors keep."""

    def fitted(self, value: object) -> object:
        """Return an error."""
        if any(_fits(value, shape) for shape in self.shapes):
            return value
        said = value if isinstance(value, dict) else {}
        message = said.get("message", value if isinstance(value, str) else None)
        known = {"message": message} if isinstance(message, str) else {}
        if self.retry_status is not None and _fits(said.get("retry_status"), self.retry_status):
            known["retry_status"] = said["retry_status"]
        return {**self.unknown, **known}


Shape = dict[str, MemberShape | Content | Metadata | ErrorShape]


def _fits(value: object, shape: Any) -> bool:
    try:
        msgspec.convert(value, shape)
    except msgspec.ValidationError:
        return False
    return True


def fitted(shape: Shape, event: Mapping[str, Any]) -> dict[str, Any]:
    """Return an event whose members all fit a shape; other members stay as they are."""
    shaped = dict(event)
    for name, member in shape.items():
        value = member.fitted(shaped.get(name, ABSENT))
        if value is ABSENT:
            shaped.pop(name, None)
        else:
            shaped[name] = value
    return shaped

"""JSON bodies of requests, decoded: one wording and one code for the same fault on every route."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TypeVar

import msgspec

from durable_sessions import json_syntax
from durable_sessions.errors import DurableSessionsError, InvalidJsonError
from durable_sessions.json_problems import problem, unknown_member
from durable_sessions.limits import Limits
from durable_sessions.sessions import drafts
from durable_sessions.sessions.json_members import members
from durable_sessions.streams import messages

T = TypeVar("T")

_NAME_CHARACTERS = 80
_ANY = msgspec.json.Decoder(msgspec.Raw)


@dataclass(frozen=True, slots=True)
class Expected:
    """What a body is about, and how one of another shape is refused."""

    noun: str
    """What has the members, such as "A session"."""
    wrong: type[DurableSessionsError]
    send: str = ""
    """What to send instead, as a sentence."""
    advise: Callable[[str], str] | None = None
    """Returns what is said of an unknown member, if it is not the nearest known one."""

    def refusal(self, said: str) -> DurableSessionsError:
        """Return the refusal of a body."""
        return self.wrong(problem=f"{said} {self.send}".rstrip())


def decode(body: bytes, shape: type[T], expected: Expected, limits: Limits) -> T:
    """Return a decoded body, or refuse it.

    What is not JSON is ``invalid_json`` on every route. What is of another shape is refused as what it should
    be. Shapes that forbid unknown members do not allow a member twice, either.
    """
    check_syntax(body, limits)
    try:
        decoded = msgspec.json.decode(body, type=shape)
    except msgspec.ValidationError as error:
        said = _unknown(error, shape, expected) or f"The body is not usable: {problem(error, shape)}."
        raise expected.refusal(said) from None
    except msgspec.DecodeError as error:
        raise InvalidJsonError(problem=json_syntax.fault(body, error)) from None
    config = getattr(shape, "__struct_config__", None)
    if config is not None and config.forbid_unknown_fields:
        _require_once(body, expected)
    return decoded


def check_syntax(body: bytes, limits: Limits) -> None:
    """Refuse a body that is not JSON, or nests too deeply."""
    try:
        body.isascii() or body.decode()
        _ANY.decode(body)
    except RecursionError:
        raise messages.too_deep(limits) from None
    except UnicodeDecodeError:
        raise InvalidJsonError(problem=json_syntax.fault(body)) from None
    except msgspec.DecodeError as error:
        raise InvalidJsonError(problem=json_syntax.fault(body, error)) from None
    messages.check_depth(body, limits, levels=drafts.WRAPPING_LEVELS)


def advice(unknown: str, known: Sequence[str]) -> str:
    """Return which member may have been meant by an unknown one, or which there are."""
    near = get_close_matches(unknown, known, n=1)
    return f"Did you mean {near[0]}?" if near else f"Known are {', '.join(known)}."


def _require_once(body: bytes, expected: Expected) -> None:
    # JSON parsers differ in which of two equal members they take.
    seen: set[str] = set()
    for member in members(body):
        if member.key in seen:
            name = member.key[:_NAME_CHARACTERS]
            raise expected.refusal(f"The body is not usable: {name} is there twice; send it once.")
        seen.add(member.key)


def _unknown(error: msgspec.ValidationError, shape: type[object], expected: Expected) -> str | None:
    """Return what is said of a member that the body should not have; None if something else is wrong."""
    unknown = unknown_member(error)
    if unknown is None or " - at " in str(error):  # one of an inner object is told with its place
        return None
    if expected.advise is not None:
        said = expected.advise(unknown)
    else:
        said = advice(unknown, getattr(shape, "__struct_fields__", ()))
    return f"{expected.noun} has no member {unknown[:_NAME_CHARACTERS]} here. {said}"

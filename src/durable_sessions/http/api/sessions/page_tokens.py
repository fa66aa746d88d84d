"""Page tokens that have a place for each partition: opaque to clients, checked when they come back."""

import base64
import binascii
from typing import TypeVar

import msgspec

from durable_sessions.errors import InvalidRequestError

T = TypeVar("T")

_CHARACTERS_MAX = 8_192


def page_token(places: object) -> str:
    """Return places as a token."""
    return base64.urlsafe_b64encode(msgspec.msgpack.encode(places)).rstrip(b"=").decode()


def page_places(token: str, kind: type[T], giver: str) -> T:
    """Return the places in a token, or refuse one that its ``giver`` did not make."""
    try:
        if len(token) > _CHARACTERS_MAX:
            raise not_given(giver)
        raw = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        return msgspec.msgpack.decode(raw, type=kind)
    except (binascii.Error, ValueError, msgspec.MsgspecError):
        raise not_given(giver) from None


def not_given(giver: str) -> InvalidRequestError:
    """Return the refusal of a token."""
    return InvalidRequestError(problem=f"page is not one that this {giver} gave; send next_page as it came.")

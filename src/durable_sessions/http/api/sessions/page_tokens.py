"""Page tokens that have a place for each partition: opaque to clients, checked when they come back."""

import base64
import binascii
import hmac
from collections.abc import Sequence
from typing import TypeVar

import msgspec

from durable_sessions.errors import InvalidRequestError

T = TypeVar("T")

_CHARACTERS_MAX = 8_192
_SEAL_BYTES = 16


class PageTokens:
    """Makes tokens and takes them back; with keys they are sealed with the first, and any opens one.

    What a token says is checked by whoever gave it in any case: a seal only keeps clients from making one.
    """

    def __init__(self, keys: Sequence[bytes] = ()) -> None:
        self._keys = keys

    def token(self, places: object) -> str:
        """Return places as a token."""
        raw = msgspec.msgpack.encode(places)
        if self._keys:
            raw = _seal(self._keys[0], raw) + raw
        return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()

    def places(self, token: str, kind: type[T], giver: str) -> T:
        """Return the places in a token, or refuse one that its ``giver`` did not make."""
        try:
            if len(token) > _CHARACTERS_MAX:
                raise not_given(giver)
            raw = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
            return msgspec.msgpack.decode(self._opened(raw, giver), type=kind)
        except (binascii.Error, ValueError, msgspec.MsgspecError):
            raise not_given(giver) from None

    def _opened(self, raw: bytes, giver: str) -> bytes:
        if not self._keys:
            return raw
        seal, places = raw[:_SEAL_BYTES], raw[_SEAL_BYTES:]
        if not any(hmac.compare_digest(seal, _seal(key, places)) for key in self._keys):
            raise not_given(giver)
        return places


UNSEALED = PageTokens()
"""Where processes share no secret."""


def _seal(key: bytes, places: bytes) -> bytes:
    return hmac.digest(key, places, "sha256")[:_SEAL_BYTES]


def not_given(giver: str) -> InvalidRequestError:
    """Return the refusal of a token."""
    return InvalidRequestError(problem=f"page is not one that this {giver} gave; send next_page as it came.")

r"""Events with an escape such as ``\ud800`` without its partner: we keep them, the decoder refuses them."""

import re
from typing import TypeVar

import msgspec

T = TypeVar("T")

_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)


def decode(decoder: "msgspec.json.Decoder[T]", event: bytes) -> T:
    """Return what a decoder makes of an event; each lone surrogate in it counts as a NUL."""
    try:
        return decoder.decode(event)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        return decoder.decode(_ESCAPE.sub(lambda match: b"\\u0000" if match[1] else match[0], event))

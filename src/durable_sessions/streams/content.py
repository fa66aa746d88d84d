"""Content types: which one a stream has, and when two are the same."""

import re
from functools import lru_cache

from durable_sessions.errors import InvalidHeaderError

DEFAULT = "application/octet-stream"
_WORD = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_MEDIA_TYPE = re.compile(rf"{_WORD}/{_WORD}\s*(;[\x20-\x7e\t]*)?")


def check(content_type: str, bytes_max: int) -> str:
    """Return the content type as it may be stored, or refuse it."""
    if len(content_type) > bytes_max:
        raise InvalidHeaderError(header="Content-Type", problem=f"it is longer than {bytes_max} bytes")
    if not _MEDIA_TYPE.fullmatch(content_type):
        raise InvalidHeaderError(
            header="Content-Type", problem=f"{content_type!r} is not a media type such as application/json"
        )
    return content_type


def media_type(content_type: str) -> str:
    """Return the type without its parameters, in lower case: what is compared."""
    return content_type.partition(";")[0].strip().lower()


@lru_cache(maxsize=256)
def is_json(content_type: str) -> bool:
    """Say whether a stream of this type consists of JSON messages; cached: it is asked at every load."""
    return media_type(content_type) == "application/json"


def is_text(content_type: str) -> bool:
    """Say whether a stream of this type can be sent as text in server-sent events."""
    return media_type(content_type).startswith("text/")

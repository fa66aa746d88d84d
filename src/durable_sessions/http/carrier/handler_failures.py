"""Handling of handlers that raise, although they promise not to."""

from collections.abc import AsyncIterator

import structlog

from durable_sessions.errors import InternalError
from durable_sessions.http.carrier.message import Refuse, Response

_log = structlog.get_logger(__name__)


def internal_error(refuse: Refuse, error: BaseException, path: bytes, request_id: bytes) -> Response:
    """Log ``error`` with its traceback and return a 500 answer."""
    _log.error("handler_failed", exc_info=error)
    return refuse(path, InternalError(), request_id)


async def close_iterator(chunks: AsyncIterator[object]) -> None:
    """Run the clean-up of a streamed body; an iterator without ``aclose`` has none."""
    close = getattr(chunks, "aclose", None)
    if close is None:
        return
    try:
        await close()
    except Exception as error:
        _log.error("stream_clean_up_failed", exc_info=error)

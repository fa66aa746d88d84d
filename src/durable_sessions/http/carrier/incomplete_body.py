"""A request body that did not arrive together with its head, within a memory budget."""

from collections.abc import Hashable

from durable_sessions.errors import (
    ArtifactTooLargeError,
    BodyTooLargeError,
    DurableSessionsError,
    OverloadedError,
)
from durable_sessions.http.carrier.incomplete_head import SLICE_BYTES, headers_too_large
from durable_sessions.http.carrier.large_body import LargeBody
from durable_sessions.http.carrier.state import ServerState
from durable_sessions.limits import Limits

CHUNKED = -1
"""The length of a body that does not announce it."""


class IncompleteBody:
    """Collects one body of ``length``, or up to ``bytes_max``, counted for ``holder``.

    It is created when a request is admitted by its head and exists until the request is complete or refused,
    so an idle connection has none.
    """

    __slots__ = ("_budget", "_bytes_max", "_holder", "_length", "_limits", "_received", "_unproductive_bytes")

    def __init__(self, state: ServerState, holder: Hashable, length: int, bytes_max: int) -> None:
        self._limits = state.limits
        self._holder = holder
        self._length = length
        self._bytes_max = bytes_max
        self._unproductive_bytes = 0  # of chunk headers and trailers since the last piece of body
        self._budget = state.requests
        self._received: bytearray | LargeBody = bytearray()
        if length > bytes_max:
            raise _too_large(bytes_max, state.limits)
        reserved_bytes = bytes_max if length == CHUNKED else length
        if reserved_bytes > state.limits.append_body_bytes_max:
            self._budget = state.large_bodies
            self._received = _reserve(reserved_bytes)

    @property
    def seconds_max(self) -> float:
        """How long the body may take to arrive."""
        return self._budget.seconds_max

    def __len__(self) -> int:
        return len(self._received)

    def receive(self, parts: list[bytes], size: int) -> None:
        """Add the parts that were found in ``size`` bytes of input; raise if a limit is exceeded."""
        if not parts:
            self._unproductive_bytes += size
            if self._unproductive_bytes > self._limits.header_bytes_max + SLICE_BYTES:
                raise headers_too_large(self._limits)
            return
        # One buffer: a list of tiny parts would take many times the memory of the body.
        received = b"".join(parts)
        parts.clear()
        self._received.extend(received)
        self._unproductive_bytes = 0
        self._budget.take(self._holder, len(received))
        self._check_length()
        if self._budget.excess(self._holder):
            raise self._budget.refusal(self._holder)

    def complete(self, parts: list[bytes]) -> bytes:
        """Return the whole body, ending with ``parts``; its memory is no longer counted."""
        if len(parts) == 1 and len(parts[0]) == self._length:
            return parts.pop()  # it came in one piece: nothing was counted, and nothing is copied
        self.release()
        self._received.extend(b"".join(parts))
        parts.clear()
        self._check_length()
        received = self._received
        view = received.view() if isinstance(received, LargeBody) else received
        # Copying a large body would block the event loop, so its handlers are given a memoryview.
        is_large = len(view) > self._limits.append_body_bytes_max
        return view if is_large else bytes(view)  # type: ignore[return-value]  # as good as bytes

    def release(self) -> None:
        """Release the counted memory; nothing more may be received."""
        self._budget.give(self._holder, len(self._received))

    def _check_length(self) -> None:
        if self._length == CHUNKED and len(self._received) > self._bytes_max:
            raise _too_large(self._bytes_max, self._limits)


def _reserve(bytes_max: int) -> LargeBody:
    try:
        return LargeBody(bytes_max)
    except OSError:
        raise OverloadedError(what="memory for large bodies") from None


def _too_large(bytes_max: int, limits: Limits) -> DurableSessionsError:
    if bytes_max > limits.append_body_bytes_max:
        return ArtifactTooLargeError(artifact_bytes_max=bytes_max)
    return BodyTooLargeError(append_body_bytes_max=bytes_max)

"""The body of a request that did not come with its head: what it may hold of memory while it arrives."""

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
"""The length of a body that does not say how long it is."""


class IncompleteBody:
    """Collects one body of ``length``, or up to ``bytes_max``, on the shares of ``holder``.

    It exists from the admission of a request, which is asked for when the body is not there with the head,
    until the request is complete or refused; so an idle connection has none.
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
        """Take over the parts found in ``size`` bytes of input; raise if they are too many or too large."""
        if not parts:
            self._unproductive_bytes += size
            if self._unproductive_bytes > self._limits.header_bytes_max + SLICE_BYTES:
                raise headers_too_large(self._limits)
            return
        # One buffer, because a list of tiny pieces would take many times the memory of the body.
        received = b"".join(parts)
        parts.clear()
        self._received.extend(received)
        self._unproductive_bytes = 0
        self._budget.take(self._holder, len(received))
        self._check_length()
        if self._budget.excess(self._holder):
            raise self._budget.refusal(self._holder)

    def complete(self, parts: list[bytes]) -> bytes:
        """Return the whole body, of which ``parts`` came last; its memory is counted no longer."""
        if len(parts) == 1 and len(parts[0]) == self._length:
            return parts.pop()
        self.release()
        self._received.extend(b"".join(parts))
        parts.clear()
        self._check_length()
        received = self._received
        view = received.view() if isinstance(received, LargeBody) else received
        # To copy a large one would hold up everybody; who takes those takes them as they are.
        is_large = len(view) > self._limits.append_body_bytes_max
        return view if is_large else bytes(view)  # type: ignore[return-value]  # as good as bytes

    def release(self) -> None:
        """Give back what was counted; nothing more may be received."""
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

"""A request head that did not arrive in one piece, within a memory budget."""

from durable_sessions.errors import HeadersTooLargeError, OverloadedError, TargetTooLongError
from durable_sessions.http.carrier.state import ServerState
from durable_sessions.limits import Limits

# Input is parsed in slices of this size, so that limits are checked before much is stored.
SLICE_BYTES = 4096


class IncompleteHead:
    """Counts what has arrived of one head; it exists only until that head is complete or refused."""

    __slots__ = ("_bytes", "_state", "method_bytes")

    def __init__(self, state: ServerState) -> None:
        self._state = state
        self._bytes = 0
        self.method_bytes = b""  # the beginning, as long as the method is incomplete

    def received(self, size: int, target_bytes: int) -> None:
        """Count ``size`` more bytes; the target has ``target_bytes`` so far. Raise if that is too much.

        A short head is never refused because of the long ones of others.
        """
        state, limits = self._state, self._state.limits
        was_short = self._bytes <= limits.short_head_bytes_max
        self._bytes += size
        is_short = self._bytes <= limits.short_head_bytes_max
        if not is_short:
            state.heads_bytes += self._bytes if was_short else size
        # The parser keeps an unfinished header line to itself, so what went into it is bounded
        # here; finished lines are measured exactly at the end of the head.
        raw_bytes_max = limits.header_bytes_max + 4 * limits.header_count_max + 2 * SLICE_BYTES
        if target_bytes > limits.target_bytes_max:
            raise TargetTooLongError(target_bytes_max=limits.target_bytes_max)
        if self._bytes - target_bytes > raw_bytes_max:
            raise headers_too_large(limits)
        if not is_short and state.heads_bytes > limits.incomplete_head_bytes_max:
            raise OverloadedError(what="request heads in memory")

    def release(self) -> None:
        """Release the counted memory."""
        if self._bytes > self._state.limits.short_head_bytes_max:
            self._state.heads_bytes -= self._bytes
        self._bytes = 0


def headers_too_large(limits: Limits) -> HeadersTooLargeError:
    """Return the refusal of header lines, or trailers, that are too many or too long."""
    return HeadersTooLargeError(
        header_bytes_max=limits.header_bytes_max, header_count_max=limits.header_count_max
    )

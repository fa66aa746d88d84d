"""The seam of a log that several processes can reach: numbered slots in another system."""

from typing import Protocol


class SlotTakenError(Exception):
    """The slot is not the next free one: another frame has it, or an earlier attempt with the same frame."""


class SlotsFullError(Exception):
    """There is no room for a frame; it was not stored."""


class Slots(Protocol):
    """Frames by number; only the slot after the last one can be filled, and only once.

    ``begins_after`` and ``last`` are the number before the oldest frame and that of the newest one, as far as
    this process knows; both are equal if there is no frame. Every method raises TimeoutError if there is no
    answer; a :meth:`put` without one may have been stored, or may be stored later.
    """

    begins_after: int
    last: int

    @property
    def stored_bytes(self) -> int:
        """How many bytes all frames took when they were last looked at."""
        ...

    @property
    def location(self) -> str:
        """Where the slots are, for messages to people."""
        ...

    async def require_safe(self) -> None:
        """Raise LogMisconfiguredError if the slots are kept in a way that can lose frames."""
        ...

    async def refresh(self) -> None:
        """Look up ``begins_after`` and ``last`` again."""
        ...

    async def begin_at(self, address: int) -> None:
        """Make slots that have never had a frame begin after this address."""
        ...

    async def put(self, position: int, frame: bytes) -> None:
        """Fill the slot after the last one durably; raise SlotTakenError or SlotsFullError."""
        ...

    async def get(self, position: int) -> bytes | None:
        """Return the frame in a slot as the authority over the slots sees it; None if the slot is empty."""
        ...

    async def frames_after(self, position: int) -> list[tuple[int, bytes]]:
        """Return the next frames after a position, in order; a replica that lags may show too few."""
        ...

    async def trim(self, before: int) -> None:
        """Allow the frames before a position to be dropped."""
        ...

    async def close(self) -> None:
        """Release what is used to reach the slots."""
        ...

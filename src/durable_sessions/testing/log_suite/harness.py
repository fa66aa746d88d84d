"""The harness that connects a log to the suite, and the cases that are checked with it."""

import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from durable_sessions.errors import LogError
from durable_sessions.log import Log


class LogSuiteError(AssertionError):
    """A log failed a case, or its harness lacks what the case needs."""


class NotOfferedError(Exception):
    """The harness does not implement this fault or query."""


class LogHarness:
    """One log, empty at first, and ways to make it fail.

    ``inapplicable`` maps the names of cases that cannot apply to the reasons. A log is ``exclusive`` if it
    cannot be open twice at the same time. ``payload_bytes_max`` is the most that it stores or reads in one
    piece, ``proof_seconds`` how long a proof is valid. Methods that are not overridden count as missing.
    """

    inapplicable: ClassVar[Mapping[str, str]] = {}
    exclusive: ClassVar[bool] = False
    payload_bytes_max: ClassVar[int] = 1024 * 1024
    proof_seconds: ClassVar[float] = math.inf

    async def open(self, heard: int = 0) -> Log:
        """Open the log unclaimed, as a new process would; positions up to ``heard`` were acknowledged."""
        raise NotImplementedError

    async def close(self) -> None:
        """Release all resources."""

    async def frames(self) -> int:
        """Return how many frames are stored."""
        raise NotOfferedError("frames")

    async def lose_request(self, log: Log) -> None:
        """Lose the next request of ``log``: it never arrives and gets no answer."""
        raise NotOfferedError("lose_request")

    async def lose_answer(self, log: Log) -> None:
        """Lose the answer to the next request of ``log``, which does arrive."""
        raise NotOfferedError("lose_answer")

    async def fill(self) -> None:
        """Fill the storage, so that there is no room for another frame."""
        raise NotOfferedError("fill")

    async def hold_request(self) -> None:
        """Hold only the next request before it arrives; return at once."""
        raise NotOfferedError("hold_request")

    async def hold_answer(self) -> None:
        """Let the next request arrive and hold only its answer; return at once."""
        raise NotOfferedError("hold_answer")

    async def until_held(self) -> None:
        """Wait until something is held."""
        raise NotOfferedError("until_held")

    async def release(self) -> None:
        """Release what is held."""
        raise NotOfferedError("release")

    def now(self) -> float:
        """Return the seconds of CLOCK_BOOTTIME, as the log sees them."""
        raise NotOfferedError("now")

    async def pass_seconds(self, seconds: float) -> None:
        """Advance the log's clock."""
        raise NotOfferedError("pass_seconds")

    async def lag(self, frames: int) -> None:
        """Hide the newest frames from the next reads for a while."""
        raise NotOfferedError("lag")

    async def misconfigure(self) -> None:
        """Change the storage's configuration to one with which the log must not be opened."""
        raise NotOfferedError("misconfigure")

    async def forget(self, frames: int) -> None:
        """Lose the newest frames for good."""
        raise NotOfferedError("forget")

    async def rot(self, position: int, byte: int) -> None:
        """Change one byte of the frame at a position so that the same call again undoes the change.

        ``byte`` is an index into the frame; a negative one counts from its end.
        """
        raise NotOfferedError("rot")

    async def misplace(self, position: int, over: int) -> None:
        """Overwrite the frame at ``over`` with the one at ``position``, which is as long."""
        raise NotOfferedError("misplace")

    async def lose_frame(self, position: int) -> None:
        """Lose the frame at a position, and keep those after it."""
        raise NotOfferedError("lose_frame")


@dataclass(frozen=True, slots=True)
class LogCase:
    """One property that a log must have."""

    name: str
    run: Callable[[LogHarness], Awaitable[None]]
    always_applies: bool

    def __str__(self) -> str:
        """Return the name."""
        return self.name

    async def check(self, harness: LogHarness) -> str | None:
        """Return None if the log passes, or why the case cannot apply; raise LogSuiteError if it fails."""
        try:
            return await self._check(harness)
        finally:
            await harness.close()

    async def _check(self, harness: LogHarness) -> str | None:
        reason = harness.inapplicable.get(self.name)
        if reason is not None:
            if self.always_applies:
                raise LogSuiteError(f"{self.name} applies to every log, and was declared not to")
            if not reason.strip():
                raise LogSuiteError(f"{self.name} was declared not to apply without a reason")
            return reason
        try:
            await self.run(harness)
        except NotOfferedError as error:
            raise LogSuiteError(
                f"{self.name} needs {error}, which the harness does not offer; offer it, or say in"
                " inapplicable why the case cannot apply"
            ) from None
        except LogError as error:
            raise LogSuiteError(
                f"{self.name} ended with an error that it does not expect: {error!r}"
            ) from error
        return None


def require(shown: object, problem: str) -> None:
    """Fail the case with ``problem`` unless ``shown`` is true."""
    if not shown:
        raise LogSuiteError(problem)

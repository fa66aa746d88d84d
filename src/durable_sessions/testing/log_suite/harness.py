"""How a log is put to the test: what a harness offers, and how a case is checked with it."""

import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from durable_sessions.errors import LogError
from durable_sessions.log import Log


class LogSuiteError(AssertionError):
    """A log has not shown what a case asks for, or a harness does not say how it could."""


class NotOfferedError(Exception):
    """The harness has no way to bring this about."""


class LogHarness:
    """One log, empty at first, and ways to make it fail.

    ``inapplicable`` has the names of cases that cannot apply, each with the reason. A log is ``exclusive`` if
    it cannot be opened twice at a time. ``payload_bytes_max`` is how much it keeps or reads in one piece, and
    ``proof_seconds`` how long a proof holds. What is not overridden below is not offered.
    """

    inapplicable: ClassVar[Mapping[str, str]] = {}
    exclusive: ClassVar[bool] = False
    payload_bytes_max: ClassVar[int] = 1024 * 1024
    proof_seconds: ClassVar[float] = math.inf

    async def open(self, heard: int = 0) -> Log:
        """Open the log as another process would, unclaimed; ``heard`` is known to have been acknowledged."""
        raise NotImplementedError

    async def close(self) -> None:
        """Let go of everything."""

    async def frames(self) -> int:
        """Return how many frames are stored."""
        raise NotOfferedError("frames")

    async def lose_request(self, log: Log) -> None:
        """Let what ``log`` sends next never arrive, without an answer."""
        raise NotOfferedError("lose_request")

    async def lose_answer(self, log: Log) -> None:
        """Let what ``log`` sends next arrive, without an answer."""
        raise NotOfferedError("lose_answer")

    async def fill(self) -> None:
        """Leave no room for more."""
        raise NotOfferedError("fill")

    async def hold_request(self) -> None:
        """Let what is sent next wait on its way, and nothing else; return at once."""
        raise NotOfferedError("hold_request")

    async def hold_answer(self) -> None:
        """Let what is sent next arrive, and only its answer wait; return at once."""
        raise NotOfferedError("hold_answer")

    async def until_held(self) -> None:
        """Wait until something is held."""
        raise NotOfferedError("until_held")

    async def release(self) -> None:
        """Let go on what is held."""
        raise NotOfferedError("release")

    def now(self) -> float:
        """Return the seconds of CLOCK_BOOTTIME, as the log sees them."""
        raise NotOfferedError("now")

    async def pass_seconds(self, seconds: float) -> None:
        """Let the time of the log go on."""
        raise NotOfferedError("pass_seconds")

    async def lag(self, frames: int) -> None:
        """Let the newest frames be missing, for a while, from what is read next."""
        raise NotOfferedError("lag")

    async def misconfigure(self) -> None:
        """Change how the log is kept so that it must not be opened."""
        raise NotOfferedError("misconfigure")

    async def forget(self, frames: int) -> None:
        """Lose the newest frames for good."""
        raise NotOfferedError("forget")

    async def rot(self, position: int, byte: int) -> None:
        """Change one byte of the frame at a position, always alike: the second change undoes the first.

        The byte is an index of the frame's bytes, from its end if it is negative.
        """
        raise NotOfferedError("rot")

    async def misplace(self, position: int, over: int) -> None:
        """Write the frame at a position, of the same length, over another one."""
        raise NotOfferedError("misplace")

    async def lose_frame(self, position: int) -> None:
        """Lose the frame at a position, and keep those behind it."""
        raise NotOfferedError("lose_frame")


@dataclass(frozen=True, slots=True)
class LogCase:
    """One thing that a log has to show."""

    name: str
    run: Callable[[LogHarness], Awaitable[None]]
    always_applies: bool

    def __str__(self) -> str:
        """Return the name."""
        return self.name

    async def check(self, harness: LogHarness) -> str | None:
        """Return None if the log has shown it, or the reason why it cannot apply; raises LogSuiteError."""
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
    """Fail the case if something was not shown."""
    if not shown:
        raise LogSuiteError(problem)

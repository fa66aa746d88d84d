"""Steps that the cases share: claiming a log, reading it back, and checking a failed append."""

import asyncio
from collections.abc import Awaitable

from durable_sessions.errors import LogError, LogFencedError, LogFullError
from durable_sessions.log import Claimant, Log
from durable_sessions.testing.log_suite.harness import LogHarness, LogSuiteError, require

CLAIMS_MAX = 100
_PAUSE_SECONDS = 0.01


async def owned(harness: LogHarness, node: str = "one", heard: int = 0) -> Log:
    """Return the log, opened and claimed; a claim that is fenced is repeated."""
    log = await harness.open(heard)
    for _ in range(CLAIMS_MAX):
        try:
            await log.claim(Claimant(node))
            return log
        except LogFencedError:
            await asyncio.sleep(_PAUSE_SECONDS)
    raise LogSuiteError(f"a log that nobody else wants was claimed {CLAIMS_MAX} times in vain")


async def reopened(harness: LogHarness, log: Log, node: str = "two") -> Log:
    """Close a log and return it as the next process opens and claims it."""
    await log.close()
    return await owned(harness, node)


async def replayed(log: Log, after: int = 0) -> list[tuple[int, bytes]]:
    """Return the batches of a replay."""
    return [batch async for batch in log.replay(after)]


async def written(log: Log, payloads: list[bytes]) -> list[tuple[int, bytes]]:
    """Append batches and return them with their positions."""
    return [(await log.append(payload), payload) for payload in payloads]


async def require_refused(append: Awaitable[int], kind: type[LogError], acknowledged: str) -> None:
    """Require that an append fails with this error; ``acknowledged`` says what it means if it does not."""
    try:
        await append
    except kind:
        return
    except LogError as error:
        raise LogSuiteError(f"{error!r} instead of {kind.__name__}") from error
    raise LogSuiteError(acknowledged)


async def require_fenced(log: Log, why: str) -> None:
    """Require that an append fails with LogFencedError."""
    await require_refused(log.append(b"too late"), LogFencedError, f"{why}: an append was acknowledged")


async def require_loud(harness: LogHarness, kind: type[LogError], what: str, heard: int = 0) -> None:
    """Require that opening, claiming or replaying the log fails with this error."""
    log = None
    try:
        log = await harness.open(heard)
        await log.claim(Claimant("two"))
        found = await replayed(log)
    except kind:
        return
    except LogError as error:
        raise LogSuiteError(f"{what}: {error!r} instead of {kind.__name__}") from error
    finally:
        if log is not None:
            await log.close()
    raise LogSuiteError(f"{what} went unnoticed: {len(found)} batches were replayed")


async def judge_unknown(harness: LogHarness, log: Log, before: list[tuple[int, bytes]]) -> None:
    """Append once under the fault that the harness has prepared, and check what the log reports of it."""
    payload = b"maybe there"
    outcome: LogError | None = None
    position = None
    try:
        position = await log.append(payload)
    except LogError as error:
        outcome = error
    if outcome is not None:
        try:
            await log.append(b"after a failure")
        except LogError:
            pass
        else:
            raise LogSuiteError("the log took an append after one whose outcome it did not know")
    found = await replayed(await reopened(harness, log))
    require(found[: len(before)] == before, "what was acknowledged before is not what is found after")
    later = found[len(before) :]
    if outcome is None:
        require(later == [(position, payload)], f"an acknowledged batch is there {len(later)} times")
    elif isinstance(outcome, LogFencedError | LogFullError):
        require(later == [], f"{type(outcome).__name__} means certainly not there, but it is")
    else:
        require(
            [data for _, data in later] in ([], [payload]),
            "a batch of unknown outcome is not there whole, or twice",
        )

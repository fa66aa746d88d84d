"""What all simulated clients do: they act at random, and every call is written down with its outcome."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from durable_sessions.errors import DurableSessionsError, OutcomeUnknownError
from durable_sessions.storage.partition import Partition
from durable_sessions.testing import history
from durable_sessions.testing.history import Outcome, Recorder

T = TypeVar("T")


class RecordedCalls:
    """The calls of a client; ``problems`` gets what must never happen but did."""

    def __init__(self, client: str, recorder: Recorder, problems: list[str]) -> None:
        self.client = client
        self._recorder = recorder
        self._problems = problems

    async def record(
        self,
        partition: Partition,
        name: str,
        request: history.Request | history.SessionRequest,
        perform: Callable[[], Awaitable[Outcome]],
    ) -> Outcome:
        """Make a call that is about a stream or a session, and write it down."""

        async def answered() -> Outcome:
            try:
                return await perform()
            except OutcomeUnknownError:
                return history.Unknown()
            except DurableSessionsError as error:
                # A refusal may rest on what is not durable yet; the HTTP face waits for that as well.
                await partition.settled()
                return history.CallRefused(error.code)

        try:
            return await self._recorder.record(self.client, name, request, answered)
        except DurableSessionsError:
            return history.Unknown()
        except TimeoutError:
            raise
        except Exception as error:
            self._problems.append(f"{self.client}: {request} of {name} raised {error!r}")
            return history.Unknown()


async def act(
    chance: random.Random,
    pause_seconds: float,
    actions: Sequence[tuple[Callable[[T], Awaitable[None]], int]],
    target: T,
) -> None:
    """Do one thing after the other to a target, each as often as its weight says, for ever."""
    choices, weights = zip(*actions, strict=True)
    while True:
        await asyncio.sleep(chance.expovariate(1 / pause_seconds))
        action = chance.choices(choices, weights)[0]
        await action(target)

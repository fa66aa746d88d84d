"""Workflows for programs with an event loop, and three that compose others.

The compositions record with `ds.routed` which step has the session, so that the log tells it afterwards, and
a worker that wakes the session after a crash knows where it was.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from durable_sessions.client.async_session import AsyncSession
from durable_sessions.client.async_work import AsyncWork, woken
from durable_sessions.client.forward import is_own, name_of


class AsyncWorkflow(Protocol):
    """Works on a session; the session is the unit of composition."""

    async def forward(self, work: AsyncWork) -> AsyncWork:
        """AsyncWork on a session, and return it."""
        ...


class AsyncSequential:
    """Lets several workflows work on a session, one after the other."""

    def __init__(self, *steps: AsyncWorkflow) -> None:
        self._steps = steps

    async def forward(self, work: AsyncWork) -> AsyncWork:
        """Run the steps in their order."""
        for number, step in enumerate(self._steps, 1):
            await _enter(work, f"Sequential, step {number} of {len(self._steps)}: {name_of(step)}")
            work = await step.forward(work)
        return work


class AsyncSelect:
    """Lets one of several workflows work on a session: the one that ``choose`` names."""

    def __init__(
        self, choose: Callable[[AsyncWork], Awaitable[str]], steps: Mapping[str, AsyncWorkflow]
    ) -> None:
        self._choose = choose
        self._steps = steps

    async def forward(self, work: AsyncWork) -> AsyncWork:
        """Run the step that was chosen."""
        chosen = await self._choose(work)
        step = self._steps[chosen]
        await _enter(work, f"Select, {chosen}: {name_of(step)}")
        return await step.forward(work)


class AsyncBranch:
    """Lets each of several workflows work on a fork of the session, and adopts what one of them found.

    ``choose`` returns the index of that fork, or None for none of them; without it, the first that is done.
    """

    def __init__(
        self,
        *steps: AsyncWorkflow,
        choose: Callable[[Sequence[AsyncSession]], Awaitable[int | None]] | None = None,
    ) -> None:
        self._steps = steps
        self._choose = choose or _first_done

    async def forward(self, work: AsyncWork) -> AsyncWork:
        """Run all steps at the same time, each in a fork, then adopt the chosen one."""
        await _enter(work, f"Branch, {len(self._steps)} forks")
        forks = [await work.fork() for _ in self._steps]
        async with asyncio.TaskGroup() as group:
            for fork, step in zip(forks, self._steps, strict=True):
                group.create_task(fork.forward(step))
        chosen = await self._choose(forks)
        if chosen is None:
            await _enter(work, "Branch, adopts nothing")
            return work
        await _enter(work, f"Branch, adopts {forks[chosen].id}: {name_of(self._steps[chosen])}")
        await work.adopt(forks[chosen])
        return work


async def forward(
    session: AsyncSession, workflow: AsyncWorkflow, worker: str | None, seconds: int
) -> AsyncSession:
    """Wake a session, let a workflow work on it, and release it."""
    async with await woken(session, worker, seconds) as work:
        done = await workflow.forward(work)
        if is_own(await work.state(), work.lease.principal):
            await work.route("*", reason="The workflow has ended.")
    return AsyncSession(done.id, done._transport, done._cache, done.incarnation)


async def _enter(work: AsyncWork, reason: str) -> None:
    await work.route(work.lease.principal, reason=reason)


async def _first_done(forks: Sequence[AsyncSession]) -> int | None:
    for index, fork in enumerate(forks):
        if (await fork.state())["done"]:
            return index
    return None

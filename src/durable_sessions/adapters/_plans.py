"""Plans: what an adapter asks of the server, step by step, for a sync and an async client alike.

A plan is a generator. It yields requests, is sent their answers (or gets their errors thrown in), and returns
a result. So each operation is written once, and frameworks with two faces get both.
"""

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import anyio

from durable_sessions.client import AsyncClient, Client

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PlanStep:
    """One request, as a call of the client that carries the plan out.

    One that ``writes`` is awaited to its outcome, also when the task is cancelled meanwhile.
    """

    call: Callable[[Any], Any]
    writes: bool = False


Plan = Generator[PlanStep, Any, T]


def carry_out(plan: Plan[T], client: Client) -> T:
    """Return the result of a plan, waiting for each answer."""
    answer: Any = None
    error: Exception | None = None
    while True:
        try:
            step = plan.send(answer) if error is None else plan.throw(error)
        except StopIteration as done:
            result: T = done.value
            return result
        answer = error = None
        try:
            answer = step.call(client)
            if isinstance(answer, Iterator):
                answer = list(answer)
        except Exception as failure:
            error = failure


async def carry_out_async(plan: Plan[T], client: AsyncClient) -> T:
    """Return the result of a plan, awaiting each answer."""
    answer: Any = None
    error: Exception | None = None
    while True:
        try:
            step = plan.send(answer) if error is None else plan.throw(error)
        except StopIteration as done:
            result: T = done.value
            return result
        answer = error = None
        try:
            answer = step.call(client)
            if inspect.isawaitable(answer):
                answer = await (_to_its_end(answer) if step.writes else answer)
            elif isinstance(answer, AsyncIterator):
                answer = [item async for item in answer]
        except Exception as failure:
            error = failure


async def _to_its_end(write: Awaitable[T]) -> T:
    """Return the result of a write; a cancellation meanwhile is raised when the outcome is known."""
    task = asyncio.ensure_future(write)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            # The scope keeps out the cancellations of anyio, which would else be repeated in every turn.
            with anyio.CancelScope(shield=True):
                await asyncio.wait([task])
        except asyncio.CancelledError as cancellation:
            cancelled = cancellation
    if cancelled is None:
        return task.result()
    if not task.cancelled():
        task.exception()  # looked at, so that nobody reports that it was not
    raise cancelled

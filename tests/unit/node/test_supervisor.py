"""The supervisor: a task that fails is begun again after a pause, and until it works that can be seen."""

import asyncio
from dataclasses import replace

import pytest

from durable_sessions.clock import ManualClock
from durable_sessions.limits import DEFAULT_LIMITS, Limits
from durable_sessions.node.supervisor import Supervisor
from tests.support.trial import until

pytestmark = pytest.mark.anyio

QUICK = replace(DEFAULT_LIMITS, task_restart_seconds=0.001, task_restart_seconds_max=0.004)
NEVER = replace(DEFAULT_LIMITS, task_restart_seconds=1e6, task_restart_seconds_max=1e6)


class Work:
    """Fails as often as it was told to, then goes on until it is stopped."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.begun = 0
        self.working = asyncio.Event()
        self.was_stopped = False

    async def run(self) -> None:
        self.begun += 1
        if self.begun <= self.failures:
            raise OSError(f"failure {self.begun}")
        self.working.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.was_stopped = True


def supervisor(limits: Limits = QUICK) -> Supervisor:
    return Supervisor(ManualClock(), limits)


async def test_a_task_that_fails_is_restarted_until_it_works() -> None:
    watching, work = supervisor(), Work(failures=5)
    watching.start("work", work.run)
    await work.working.wait()
    assert (work.begun, watching.restarts) == (6, {"work": 5})
    await until(lambda: not watching.failures())
    await watching.close()
    assert work.was_stopped


async def test_a_failure_is_told_by_name_while_the_task_pauses() -> None:
    watching, work = supervisor(NEVER), Work(failures=1)
    watching.start("work", work.run)
    watching.start("other", Work(failures=0).run)
    await until(lambda: bool(watching.failures()))
    (failure,) = watching.failures()
    assert failure == ("work", "failure 1", ManualClock().now_ms(), 1)
    assert watching.restarts == {"work": 0, "other": 0}
    await watching.close()
    assert work.begun == 1


async def test_the_pause_doubles_up_to_its_bound_and_is_short_again_after_a_steady_run() -> None:
    waits: list[float] = []
    # Hours, so that no machine is so slow that a failing run counts as a steady one; nobody waits for them.
    watching, work = (
        supervisor(replace(QUICK, task_restart_seconds=1e4, task_restart_seconds_max=4e4)),
        Work(4),
    )
    sleep, here = asyncio.sleep, asyncio.get_running_loop()

    async def slept(seconds: float) -> None:
        if asyncio.get_running_loop() is not here:  # a server of another test, in a thread of its own
            await sleep(seconds)
            return
        waits.append(seconds)
        await sleep(0)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("durable_sessions.node.supervisor.asyncio.sleep", slept)
        watching.start("work", work.run)
        await work.working.wait()
    assert waits == [1e4, 2e4, 4e4, 4e4]
    await watching.close()


async def test_a_failure_without_words_is_told_by_its_kind() -> None:
    async def run() -> None:
        raise ZeroDivisionError

    watching = supervisor(NEVER)
    watching.start("work", run)
    await until(lambda: bool(watching.failures()))
    assert watching.failures()[0].error == "ZeroDivisionError()"
    await watching.close()


async def test_a_task_that_returns_is_over() -> None:
    async def run() -> None:
        ended.append(1)

    ended: list[int] = []
    watching = supervisor()
    watching.start("work", run)
    await until(lambda: bool(ended))
    assert (watching.failures(), watching.restarts) == ([], {"work": 0})
    await watching.close()
    assert ended == [1]


async def test_a_stopped_task_is_not_restarted() -> None:
    watching, work, paused = supervisor(), Work(failures=0), Work(failures=1)
    running = watching.start("work", work.run)
    await work.working.wait()
    await running.stop()
    waiting = Supervisor(ManualClock(), NEVER).start("paused", paused.run)
    await until(lambda: paused.begun == 1)
    await waiting.stop()
    assert (work.begun, paused.begun) == (1, 1)
    await watching.close()


async def test_tasks_of_one_kind_share_their_name() -> None:
    watching = supervisor(NEVER)
    for _ in range(3):
        watching.start("subscription", Work(failures=1).run)
    await until(lambda: bool(watching.failures()))
    assert [failure.task for failure in watching.failures()] == ["subscription"]
    await watching.close()

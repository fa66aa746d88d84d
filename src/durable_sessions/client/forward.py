"""Workflows: anything that takes a session under a lease and gives it back, and three that compose others.

The compositions record with `ds.routed` which step has the session, so that the log tells it afterwards, and
a worker that wakes the session after a crash knows where it was.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from durable_sessions.client.session import Session
from durable_sessions.client.work import Work, woken


class Workflow(Protocol):
    """Works on a session; the session is the unit of composition."""

    def forward(self, work: Work) -> Work:
        """Work on a session, and return it."""
        ...


class Sequential:
    """Lets several workflows work on a session, one after the other."""

    def __init__(self, *steps: Workflow) -> None:
        self._steps = steps

    def forward(self, work: Work) -> Work:
        """Run the steps in their order."""
        for number, step in enumerate(self._steps, 1):
            _enter(work, f"Sequential, step {number} of {len(self._steps)}: {name_of(step)}")
            work = step.forward(work)
        return work


class Select:
    """Lets one of several workflows work on a session: the one that ``choose`` names."""

    def __init__(self, choose: Callable[[Work], str], steps: Mapping[str, Workflow]) -> None:
        self._choose = choose
        self._steps = steps

    def forward(self, work: Work) -> Work:
        """Run the step that was chosen."""
        chosen = self._choose(work)
        step = self._steps[chosen]
        _enter(work, f"Select, {chosen}: {name_of(step)}")
        return step.forward(work)


class Branch:
    """Lets each of several workflows work on a fork of the session, and adopts what one of them found.

    ``choose`` returns the index of that fork, or None for none of them; without it, the first that is done.
    """

    def __init__(
        self, *steps: Workflow, choose: Callable[[Sequence[Session]], int | None] | None = None
    ) -> None:
        self._steps = steps
        self._choose = choose or _first_done

    def forward(self, work: Work) -> Work:
        """Run each step in a fork, then adopt the chosen one; the others stay as they are."""
        _enter(work, f"Branch, {len(self._steps)} forks")
        forks = [work.fork() for _ in self._steps]
        for fork, step in zip(forks, self._steps, strict=True):
            fork.forward(step)
        chosen = self._choose(forks)
        if chosen is None:
            _enter(work, "Branch, adopts nothing")
            return work
        _enter(work, f"Branch, adopts {forks[chosen].id}: {name_of(self._steps[chosen])}")
        work.adopt(forks[chosen])
        return work


def forward(session: Session, workflow: Workflow, worker: str | None, seconds: int) -> Session:
    """Wake a session, let a workflow work on it, and release it."""
    with woken(session, worker, seconds) as work:
        done = workflow.forward(work)
        if is_own(work.state(), work.lease.principal):
            work.route("*", reason="The workflow has ended.")
    return Session(done.id, done._transport, done._cache, done.incarnation)


def is_own(state: Mapping[str, Any], principal: str) -> bool:
    """Whether a session is routed to the worker itself: then its route is a step that is over."""
    return state["route"] is not None and state["route"]["to"] == principal


def name_of(step: object) -> str:
    """Return what a step is called in a route."""
    return str(getattr(step, "name", type(step).__name__))[:200]


def _enter(work: Work, reason: str) -> None:
    work.route(work.lease.principal, reason=reason)


def _first_done(forks: Sequence[Session]) -> int | None:
    return next((index for index, fork in enumerate(forks) if fork.state()["done"]), None)

"""Workflows through the Python clients: steps, choices, branches, and what the log tells of them."""

from collections.abc import Callable

import pytest

from durable_sessions import AsyncClient, Client
from durable_sessions.client import (
    AsyncBranch,
    AsyncSelect,
    AsyncSequential,
    AsyncSession,
    AsyncWork,
    Branch,
    Select,
    Sequential,
    Session,
    Work,
)
from durable_sessions.testing import BackgroundServer


class Note:
    """Knows something afterwards."""

    def __init__(self, key: str, value: object) -> None:
        self.name = f"note {key}"
        self._key, self._value = key, value

    def forward(self, work: Work) -> Work:
        work.append({"type": "agent.message", "content": []})
        work.fact(self._key, self._value)
        return work


class Failing:
    def forward(self, work: Work) -> Work:
        raise RuntimeError("the tests fail")


class AsyncNote:
    def __init__(self, key: str, value: object) -> None:
        self._key, self._value = key, value

    async def forward(self, work: AsyncWork) -> AsyncWork:
        await work.fact(self._key, self._value)
        return work


def routes(session: Session) -> list[str]:
    return [str(event["reason"]) for event in session.events(types="ds.routed")]


def test_a_session_goes_forward_through_steps_choices_and_branches(running: BackgroundServer) -> None:
    best: Callable[[object], int] = lambda _forks: 1  # noqa: E731
    flow = Sequential(
        Note("plan", "p"),
        Select(lambda work: "small" if "plan" in work.state()["facts"] else "large", {"small": Note("s", 1)}),
        Branch(Note("way", "left"), Note("way", "right"), choose=best),
        Branch(Note("never", 1)),
    )
    with Client(running.url, principal="coder") as client:
        session = client.sessions.create("s", goal="Go")
        after = session.forward(flow, worker="host-1")
        state = after.state()
        assert (after.id, state["lease"], state["route"]) == ("s", None, None)
        facts = {key: fact["value"] for key, fact in state["facts"].items()}
        assert facts == {"goal": "Go", "plan": "p", "s": 1, "way": "right"}
        told = routes(session)
        assert told[:3] == [
            "Sequential, step 1 of 4: note plan",
            "Sequential, step 2 of 4: Select",
            "Select, small: note s",
        ]
        assert told[-2:] == ["Branch, adopts nothing", "The workflow has ended."]
        assert len([one.id for one in client.sessions.list(forked_from="s")]) == 3, "branches are kept"
        assert len(list(session.events(types="agent.message"))) == 2, "transcripts are never merged"


def test_a_step_that_fails_leaves_word_where_it_was(running: BackgroundServer) -> None:
    with Client(running.url, principal="coder") as client:
        session = client.sessions.create("s", goal="Go")
        with pytest.raises(RuntimeError, match="the tests fail"):
            session.forward(Sequential(Note("a", 1), Failing()))
        state = session.state()
        assert state["route"]["reason"] == "Sequential, step 2 of 2: Failing"
        assert state["lease"] is None, "the next one may go on at once"
        # A step that hands the session to somebody else has the last word.

        class Hand:
            def forward(self, work: Work) -> Work:
                work.route("judge", reason="verify")
                return work

        session.forward(Sequential(Hand()))
        assert session.state()["route"]["to"] == "judge"


@pytest.mark.anyio
async def test_the_same_with_an_event_loop(running: BackgroundServer) -> None:
    async def choose(work: AsyncWork) -> str:
        return "only" if (await work.state())["goal"] else "none"

    async def second(forks: object) -> int:
        return 1

    flow = AsyncSequential(
        AsyncSelect(choose, {"only": AsyncNote("a", 1)}),
        AsyncBranch(AsyncNote("way", "left"), AsyncNote("way", "right"), choose=second),
        AsyncBranch(AsyncNote("never", 1)),
    )
    async with AsyncClient(running.url, principal="coder") as client:
        session = await client.sessions.create("s", goal="Go")
        after = await session.forward(flow)
        assert isinstance(after, AsyncSession)
        facts = {key: fact["value"] for key, fact in (await after.state())["facts"].items()}
        assert facts == {"goal": "Go", "a": 1, "way": "right"}

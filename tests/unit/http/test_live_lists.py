"""The frames of live lists: kept for a while, shared by all followers, and bounded."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from durable_sessions.access.caller import Caller, Role
from durable_sessions.http.api.sessions.live_list import LiveLists, frame
from durable_sessions.http.api.sessions.session_changes import ChangedSessions
from durable_sessions.limits import DEFAULT_LIMITS, Limits

pytestmark = pytest.mark.anyio
CALLER = Caller("default", "me", Role.READER, None)


class Source:
    """Changes that a test gives by hand."""

    def __init__(self) -> None:
        self.portions: asyncio.Queue[ChangedSessions | None] = asyncio.Queue()
        self.opened = self.closed = 0

    async def follow(self, caller: Caller) -> AsyncIterator[ChangedSessions]:
        self.opened += 1
        return self._all()

    async def _all(self) -> AsyncIterator[ChangedSessions]:
        try:
            while (portion := await self.portions.get()) is not None:
                yield portion
        finally:
            self.closed += 1


def portion(name: str, size: int = 2) -> ChangedSessions:
    return ChangedSessions([(name, b"1" * size)])


async def opened(lists: LiveLists) -> AsyncIterator[bytes]:
    chunks = await lists.follow(CALLER)
    assert (await anext(chunks)).startswith(b"event: control")
    return chunks


def made(**limits: int) -> tuple[Source, LiveLists]:
    source = Source()
    chosen: Limits = replace(DEFAULT_LIMITS, **limits)
    return source, LiveLists(source.follow, chosen)


async def test_one_source_serves_all_followers_with_the_same_bytes() -> None:
    source, lists = made()
    one, other = await opened(lists), await opened(lists)
    source.portions.put_nowait(portion("a"))
    assert await anext(one) is await anext(other)
    assert source.opened == 1
    source.portions.put_nowait(None)
    for chunks in (one, other):
        with pytest.raises(StopAsyncIteration):
            await anext(chunks)
    assert source.closed == 1
    third = await opened(lists)
    assert source.opened == 2
    await third.aclose()  # type: ignore[attr-defined]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert source.closed == 2


@pytest.mark.parametrize(
    ("limits", "kept"), [({"live_list_frames_max": 2}, 2), ({"live_list_bytes_max": 150}, 1)]
)
async def test_a_follower_that_is_too_slow_is_ended(limits: dict[str, int], kept: int) -> None:
    for behind in (kept, kept + 1):
        source, lists = made(**limits)
        slow = await opened(lists)
        fast = await opened(lists)
        for number in range(behind):
            source.portions.put_nowait(portion(str(number), size=60))
            await anext(fast)
        if behind > kept:
            with pytest.raises(StopAsyncIteration):
                await anext(slow)
        else:
            assert b'"changed":[1' in await anext(slow)
        source.portions.put_nowait(None)


async def test_a_stream_ends_after_a_while() -> None:
    _, lists = made(live_list_seconds_max=0)
    chunks = await lists.follow(CALLER)
    assert [chunk async for chunk in chunks] == [b'event: control\ndata: {"upToDate":true}\n\n']


def test_a_frame_has_no_line_breaks_of_its_own() -> None:
    encoded = frame(ChangedSessions([("a", b'{"metadata":{\n"x":1}}')], ["b"], more=True))
    assert encoded.split(b"\n") == [
        b"event: sessions",
        b'data: {"changed":[{"metadata":{',
        b'data: "x":1}}],"gone":["b"],"more":true}',
        b"",
        b"",
    ]

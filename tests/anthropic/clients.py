"""The SDK's two clients behind one face, so that a program is written once and runs with both."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable, Generator, Iterable, Iterator
from typing import Any

from anthropic import Anthropic, Stream
from anthropic._base_client import BaseSyncPage
from anthropic._resource import SyncAPIResource

_END = object()


class Threaded:
    """The synchronous client or one of its resources; a call can be awaited, and runs in a thread."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inner, name)
        if name == "with_options":
            return lambda **options: Threaded(value(**options))
        if isinstance(value, SyncAPIResource) or name.startswith("with_"):
            return Threaded(value)
        return _method(value) if callable(value) else value

    async def close(self) -> None:
        assert isinstance(self._inner, Anthropic)
        self._inner.close()


class _Call:
    """A call that was asked for: awaited it gives its result, iterated what is on its pages."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call

    def __await__(self) -> Generator[Any, None, Any]:
        return self._made().__await__()

    async def __aiter__(self) -> AsyncIterator[Any]:
        async for item in await self._made():
            yield item

    async def _made(self) -> Any:
        result = await asyncio.to_thread(self._call)
        return _Awaited(result) if isinstance(result, BaseSyncPage | Stream) else result


class _Awaited:
    """A page or a stream of the synchronous client with the methods of the other one."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inner, name)
        return _method(value) if name in ("get_next_page", "close") else value

    def __aiter__(self) -> AsyncIterator[Any]:
        return _iterate(self._inner)

    async def __aenter__(self) -> "_Awaited":
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self._inner.close)


def _method(method: Callable[..., Any]) -> Callable[..., _Call]:
    return lambda *given, **named: _Call(lambda: method(*given, **named))


async def _iterate(items: Iterable[Any]) -> AsyncIterator[Any]:
    iterator: Iterator[Any] = iter(items)
    while (item := await asyncio.to_thread(next, iterator, _END)) is not _END:
        yield item


async def taken(stream: AsyncIterable[Any], count: int = 1) -> list[Any]:
    """Return the next events of a stream."""
    found: list[Any] = []
    async for event in stream:
        found.append(event)
        if len(found) == count:
            break
    return found

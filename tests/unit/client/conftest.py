from types import SimpleNamespace

import pytest

from durable_sessions.client import async_transport, retry, transport
from tests.unit.client.shells import Shell


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "FIRST_PAUSE_SECONDS", 0.0)


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that a client makes; none of them takes any time."""
    made: list[float] = []

    async def pause(seconds: float) -> None:
        made.append(seconds)

    monkeypatch.setattr(transport, "time", SimpleNamespace(sleep=made.append))
    monkeypatch.setattr(async_transport, "asyncio", SimpleNamespace(sleep=pause))
    return made


@pytest.fixture(params=["sync", "async"])
def shell(request: pytest.FixtureRequest) -> Shell:
    return Shell(request.param)

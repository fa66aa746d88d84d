"""The slots of a stream: how long each try of a frame waits, without a server."""

from collections.abc import Mapping

import pytest

from durable_sessions.log.nats.slots import (
    PUT_AGAIN_BYTES_MAX,
    PUT_AGAIN_SECONDS_MAX,
    PUT_SECONDS_MAX,
    NatsSlots,
)
from durable_sessions.log.nats.wire import Reply

pytestmark = pytest.mark.anyio


class SilentWire:
    """NATS without a leader: nothing is answered until it is told to."""

    def __init__(self) -> None:
        self.waited: list[float] = []
        self.answer = b""

    async def request(
        self, subject: str, data: bytes, seconds: float, headers: Mapping[str, str] | None = None
    ) -> Reply:
        self.waited.append(seconds)
        if not self.answer:
            raise TimeoutError
        return Reply(self.answer)


async def tried(slots: NatsSlots, position: int, frame: bytes) -> None:
    with pytest.raises(TimeoutError):
        await slots.put(position, frame)


async def test_a_small_frame_without_an_answer_is_soon_sent_again() -> None:
    wire = SilentWire()
    slots = NatsSlots(wire, "DS_test_0_00", "log_test")  # type: ignore[arg-type]
    for _ in range(3):
        await tried(slots, 7, b"frame")
    assert wire.waited == [PUT_SECONDS_MAX, PUT_AGAIN_SECONDS_MAX, PUT_AGAIN_SECONDS_MAX]
    wire.answer = b'{"seq":7}'
    await slots.put(7, b"frame")
    wire.waited, wire.answer = [], b""
    await tried(slots, 8, b"the next one")
    assert wire.waited == [PUT_SECONDS_MAX], "it may only be slow"


async def test_a_large_frame_is_not_sent_again_and_again() -> None:
    wire = SilentWire()
    slots = NatsSlots(wire, "DS_test_0_00", "log_test")  # type: ignore[arg-type]
    for _ in range(2):
        await tried(slots, 7, bytes(PUT_AGAIN_BYTES_MAX + 1))
    assert wire.waited == [PUT_SECONDS_MAX, PUT_SECONDS_MAX]

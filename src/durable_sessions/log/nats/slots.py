"""The slots of a log in a JetStream stream."""

import base64
from typing import Any

import msgspec

from durable_sessions.errors import LogError, LogMisconfiguredError
from durable_sessions.log.nats.stream import REPLICAS, require_safe
from durable_sessions.log.nats.wire import NatsWire
from durable_sessions.log.shared_frame import PAYLOAD_BYTES_MAX
from durable_sessions.log.slots import SlotsFullError, SlotTakenError

PUT_SECONDS_MAX = 1.0
"""How long an acknowledgement is waited for before the same frame is sent again."""
PUT_AGAIN_SECONDS_MAX, PUT_AGAIN_BYTES_MAX = 0.2, 64 * 1024
"""How long for a small frame whose last try had no answer: most likely the stream has no leader just now, and
nobody says when it has one again."""
CALL_SECONDS_MAX = 2.0
HEADROOM_BYTES = 4096
"""What a frame's header and those of its message take at most."""
_BATCH_MESSAGES, _BATCH_BYTES = 1000, 4 * 1024 * 1024
_WRONG_LAST = (10071, 10164)
_FULL = (10077, 10054, 10047, 10023)
"""Out of the stream's bytes, of a message's size, or of what the account or the server may store."""
_NO_STREAM, _NO_MESSAGE = 10059, 10037


class NatsSlots:
    """The messages of one stream, by sequence number; the stream must exist.

    ``lineage`` is what the stream was made for.
    """

    def __init__(self, wire: NatsWire, name: str, lineage: str, *, replicas: int = REPLICAS) -> None:
        self.begins_after = self.last = self.stored_bytes = 0
        self._wire = wire
        self._name = name
        self._lineage = lineage
        self._replicas = replicas
        self._tried = 0

    @property
    def location(self) -> str:
        """The stream, for messages to people."""
        return f"the NATS stream {self._name}"

    @property
    def payload_bytes_max(self) -> int:
        """How much of a batch fits into one message."""
        return min(PAYLOAD_BYTES_MAX, self._wire.payload_bytes_max - HEADROOM_BYTES)

    async def require_safe(self) -> None:
        """Compare the stream's configuration with what it must be."""
        info = await self._info()
        require_safe(info["config"], self.location, self._name, self._lineage, self._replicas)

    async def refresh(self) -> None:
        """Look up where the stream begins and ends."""
        self._note((await self._info())["state"])

    def _note(self, state: dict[str, Any]) -> None:
        self.last = int(state["last_seq"])
        self.stored_bytes = int(state.get("bytes", 0))
        # Of an empty stream the first number is the next one, or 0 before there ever was one.
        self.begins_after = int(state["first_seq"]) - 1 if state.get("messages") else self.last

    async def begin_at(self, address: int) -> None:
        """Begin after this address; the stream has never had a frame."""
        await self.refresh()
        if self.last == self.begins_after < address:
            await self._call("STREAM.PURGE", {"seq": address + 1})
            await self.refresh()

    async def put(self, position: int, frame: bytes) -> None:
        """Publish a frame on the condition that the one before it is the last."""
        headers = {"Nats-Expected-Last-Sequence": str(position - 1), "Nats-Expected-Stream": self._name}
        reply = await self._wire.request(self._name, frame, self._patience(position, frame), headers)
        if "Status" in reply.headers or not reply.data:
            raise TimeoutError("no server is responsible for the stream now")
        answer = msgspec.json.decode(reply.data)
        error = answer.get("error")  # looked for first: an answer with an error has a sequence number, too
        if error is None:
            if answer.get("seq") != position or answer.get("duplicate"):
                raise TimeoutError(f"the answer is of sequence {answer.get('seq')} instead of {position}")
            self.last = max(self.last, position)
            return
        code = error.get("err_code")
        if code in _WRONG_LAST:
            raise SlotTakenError
        if code in _FULL:
            raise SlotsFullError
        raise TimeoutError(str(error.get("description")))

    def _patience(self, position: int, frame: bytes) -> float:
        """Return how long an answer is waited for, and remember which frame is tried."""
        is_again, self._tried = position == self._tried, position
        again = is_again and len(frame) <= PUT_AGAIN_BYTES_MAX
        return PUT_AGAIN_SECONDS_MAX if again else PUT_SECONDS_MAX

    async def get(self, position: int) -> bytes | None:
        """Return the frame at a position, as the leader has it."""
        answer = await self._call("STREAM.MSG.GET", {"seq": position}, allowed=_NO_MESSAGE)
        if answer is None:
            return None
        return base64.b64decode(answer["message"].get("data", ""))

    async def frames_after(self, position: int) -> list[tuple[int, bytes]]:
        """Return the next frames, as any replica has them."""
        asked = {"seq": position + 1, "batch": _BATCH_MESSAGES, "max_bytes": _BATCH_BYTES}
        replies = await self._wire.request_many(
            f"$JS.API.DIRECT.GET.{self._name}", msgspec.json.encode(asked), CALL_SECONDS_MAX
        )
        return [(int(reply.headers["Nats-Sequence"]), reply.data) for reply in replies]

    async def trim(self, before: int) -> None:
        """Purge the frames before a position; idempotent."""
        # Never beyond the end: a purge beyond it would make a stream that has lost frames look complete.
        await self.refresh()
        if self.begins_after + 1 < before <= self.last:
            await self._call("STREAM.PURGE", {"seq": before})
            self.begins_after = before - 1

    async def close(self) -> None:
        """Do nothing: the connection belongs to the process."""

    async def _info(self) -> dict[str, Any]:
        answer = await self._call("STREAM.INFO", None)
        assert answer is not None
        return answer

    async def _call(
        self, operation: str, body: dict[str, Any] | None, *, allowed: int = 0
    ) -> dict[str, Any] | None:
        data = b"" if body is None else msgspec.json.encode(body)
        reply = await self._wire.request(f"$JS.API.{operation}.{self._name}", data, CALL_SECONDS_MAX)
        if "Status" in reply.headers or not reply.data:
            raise TimeoutError("no server answers for JetStream now")
        answer: dict[str, Any] = msgspec.json.decode(reply.data)
        error = answer.get("error")
        if error is None:
            return answer
        code = error.get("err_code")
        if allowed and code == allowed:
            return None
        if code == _NO_STREAM:
            raise LogMisconfiguredError(log=self.location, problem="the stream does not exist")
        if error.get("code") == 503:
            raise TimeoutError(str(error.get("description")))
        raise LogError(reason=f"NATS refuses {operation} of {self._name}: {error.get('description')}")

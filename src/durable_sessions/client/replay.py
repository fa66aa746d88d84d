"""A recorded session as the work of a harness that is run again, for programs without an event loop."""

from collections.abc import Iterable, Iterator, Mapping
from threading import Lock
from typing import Any, TypeVar, Unpack

from durable_sessions.client.artifact import Artifact
from durable_sessions.client.call import ApiCall
from durable_sessions.client.calls import Appended
from durable_sessions.client.context import Context
from durable_sessions.client.errors import ReplayWriteError
from durable_sessions.client.event import Event
from durable_sessions.client.pages import EventFilters
from durable_sessions.client.placement import UNPLACED
from durable_sessions.client.placement_record import CommandRun, Prepare, given_to
from durable_sessions.client.producer import ProducerCache
from durable_sessions.client.recorded_sandbox import RecordedSandbox, recorded_run
from durable_sessions.client.recording import TYPES, Recording, lease
from durable_sessions.client.session import Session
from durable_sessions.client.tool import WorkCall
from durable_sessions.client.tool_record import Effect
from durable_sessions.client.transport import Transport
from durable_sessions.client.work import Work
from durable_sessions.client.work_calls import SessionLease
from durable_sessions.sandbox import Backend, Sandbox, SandboxError, SandboxSpec

T = TypeVar("T")


class Replay(Work):
    """Work on a session that was recorded: tools are not run, and nothing is written.

    ``tool`` gives the next call that was recorded, with its result; ReplayDivergedError if the harness calls
    something else. State, context and events are as they were just before that call. What the harness appends
    is in ``appended``, for comparison.
    """

    def __init__(
        self,
        id: str,  # noqa: A002
        transport: Transport,
        producers: ProducerCache[Lock],
        incarnation: str | None,
        held: SessionLease,
        recording: Recording,
    ) -> None:
        super().__init__(id, ReadOnlyTransport(transport), producers, incarnation, held)
        self._recording = recording
        self._recorded_sandbox: RecordedSandbox | None = None

    @property
    def appended(self) -> list[dict[str, Any]]:
        """The events that the harness would have appended."""
        return self._recording.appended

    @property
    def position(self) -> int:
        """Where the replay is: just before the next call that was recorded, or at the end."""
        return self._recording.position

    @property
    def is_complete(self) -> bool:
        """Whether the harness has asked for every call that was recorded."""
        return self._recording.is_complete

    def __enter__(self) -> "Replay":
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is held, so nothing is released."""

    def renew(self) -> str:
        """Do nothing: there is no lease."""
        return ""

    def release(self, reason: str | None = None) -> str:
        """Do nothing: there is no lease."""
        return self.lease.offset

    def append_body(self, body: bytes, if_match: str | None = None, *, source: str | None = None) -> Appended:
        """Keep the events in ``appended``."""
        return self._recording.append(body)

    def tool(
        self,
        name: str,
        input: Mapping[str, Any],  # noqa: A002 - the name on the wire
        *,
        effect: Effect | None = None,
        key: str | None = None,
        id: str | None = None,  # noqa: A002
    ) -> WorkCall:
        """Return the next call that was recorded, which must be this one."""
        return WorkCall(self, self._recording.tool(name, input))

    def to(
        self,
        backend: str | Backend = "local",
        spec: SandboxSpec | None = None,
        *,
        prepare: Prepare | None = None,
    ) -> Sandbox:
        """Open nothing: what commands gave is recorded."""
        self._recorded_sandbox = RecordedSandbox(backend, spec)
        return self._recorded_sandbox

    @property
    def sandbox(self) -> Sandbox:
        """What stands for the sandbox; raises SandboxError if the harness has called for none."""
        if self._recorded_sandbox is None:
            raise SandboxError(UNPLACED)
        return self._recorded_sandbox

    def run(
        self,
        command: str,
        *,
        timeout: float | None = None,
        env: Mapping[str, str] | None = None,
        input: str | bytes | None = None,  # noqa: A002
        effect: Effect | None = None,
        key: str | None = None,
        role: str = "test_log",
    ) -> CommandRun:
        """Return what the next recorded command gave, which must be this one; both outputs are ``stdout``."""
        return recorded_run(self._recording, command, given_to(timeout, env, input), effect, key)

    def suspend(self, reason: str | None = None) -> None:
        """Do nothing: there is no sandbox."""

    def leave(self, reason: str | None = None) -> None:
        """Forget the sandbox that was never opened."""
        self._recorded_sandbox = None

    def state(self, *, at: str | int | None = None) -> dict[str, Any]:
        """Return the state as it was where the replay is, or ``at`` an offset or position."""
        return super().state(at=self.position if at is None else at)

    def context(
        self,
        *,
        budget_tokens: int | None = None,
        q: str | None = None,
        at: str | int | None = None,
        types: str | Iterable[str] | None = None,
        see_all: bool = False,
    ) -> Context:
        """Return the context as it was where the replay is, or ``at`` an offset or position."""
        place = self.position if at is None else at
        return super().context(budget_tokens=budget_tokens, q=q, at=place, types=types, see_all=see_all)

    def events(self, **filters: Unpack[EventFilters]) -> Iterator[Event]:
        """Yield the events before the place where the replay is."""
        return (event for event in super().events(**filters) if event.position < self.position)

    def _store(self, call: ApiCall[Artifact]) -> str:
        return call.path.rpartition("/")[2]


class ReadOnlyTransport(Transport):
    """Sends what only reads, over the connections of another transport."""

    def __init__(self, transport: Transport) -> None:
        self.options = transport.options
        self._http = transport._http

    def send(self, call: ApiCall[T]) -> T:
        """Return the result of a call that only reads."""
        if call.method != "GET":
            raise ReplayWriteError(call.method, call.path)
        return super().send(call)


def replayed(session: Session) -> Replay:
    """Return a session as it was recorded."""
    recorded = list(session.events(types=TYPES))
    state = session.state()
    recording = Recording(recorded, state["event_count"])
    principal = recorded[0].actor if recorded else "replay"
    return Replay(
        session.id,
        session._transport,
        session._cache,
        session.incarnation,
        lease(session.state(at=recording.position), principal),
        recording,
    )

"""Which application the fast path of a process gives an append to."""

from types import SimpleNamespace
from typing import Any

import pytest

from durable_sessions.access.caller import Caller, Role
from durable_sessions.errors import DurableSessionsError, PartitionStoppedError
from durable_sessions.http.api.fast_appends import CommonHead
from durable_sessions.http.carrier.message import Request, Response, Waiting
from durable_sessions.node.link_frames import PlainFrame
from durable_sessions.node.local_appends import LocalAppends
from durable_sessions.storage.door import Told
from durable_sessions.streams.partition_map import home_partition

NAMES = [f"stream-{number}" for number in range(8)]
FAILED = PartitionStoppedError(reason="of a test")
COMMON = CommonHead("text/plain", {b"host": b"localhost", b"content-type": b"text/plain"}, keyed=True)
ANN = Caller("default", "ann", Role.WRITER, "key_1")


class Appends:
    """Takes every append of whoever has the key; says whose refusal it was."""

    def __init__(self, number: int, caller: Caller | None) -> None:
        self.number = number
        self.known = caller
        self.taken: list[bytes] = []

    def common(self, request: Request) -> object:
        return COMMON

    def caller(self, common: object) -> Caller | None:
        assert common is COMMON
        return self.known

    def take(
        self, caller: Caller, content_type: str | None, target: bytes, body: bytes, waiting: Told[bytes]
    ) -> bool:
        assert (caller, content_type) == (ANN, "text/plain")
        self.taken.append(target)
        return True

    def refusal(
        self, caller: Caller | None, target: bytes, error: DurableSessionsError, request_id: bytes
    ) -> Response:
        return Response(503, [], b"%d" % self.number)


class Process:
    """The partitions ``here`` of ``of``; what is for others is passed on if they take it."""

    def __init__(self, of: int, here: list[int], caller: Caller | None, *, others: bool = True) -> None:
        self.apps: dict[int, Any] = {
            number: SimpleNamespace(fast_appends=Appends(number, caller)) for number in here
        }
        self.passed: list[PlainFrame] = []
        self.others_take = others
        front = lambda: next(iter(self.apps.values()), None)  # noqa: E731
        self.fast_path = LocalAppends(of, front, self.apps.get, self._pass_on)

    def _pass_on(self, sent: PlainFrame, waiting: Waiting) -> bool:
        self.passed.append(sent)
        return self.others_take

    def take(self, target: str, *, settled: bool = False) -> bool:
        waiting: Any = SimpleNamespace(is_settled=settled, request_id=b"req_1")
        return self.fast_path.take(COMMON, target.encode(), b"{}", waiting)

    def taken(self, number: int) -> list[bytes]:
        taken: list[bytes] = self.apps[number].fast_appends.taken
        return taken


@pytest.mark.parametrize("form", ["/v1/stream/{}", "/v1/sessions/{}/events"])
@pytest.mark.parametrize("others", [True, False])
def test_an_append_goes_to_the_home_of_its_name(form: str, others: bool) -> None:
    process = Process(3, [0, 2], ANN, others=others)
    folder = "" if "stream" in form else "sessions/"
    for name in NAMES:
        home = home_partition("default", folder + name, 3)
        target = form.format(name)
        if home == 1:
            assert not process.take(target), "its connection can move to the other process"
            assert process.take(target, settled=True) is others
            sent = PlainFrame(1, b"req_1", ANN, "text/plain", target.encode(), b"{}")
            assert process.passed.pop() == sent
            continue
        assert process.take(target)
        assert process.taken(home)[-1] == target.encode()
        refusal = process.fast_path.refusal(COMMON, target.encode(), FAILED, b"req_1")
        assert refusal.body == b"%d" % home
    assert process.passed == []


@pytest.mark.parametrize("target", ["/v1/sessions", "/v1/keys", "/v1/stream/__ds/subscriptions", "/"])
def test_a_path_that_names_no_stream_is_handled(target: str) -> None:
    process = Process(3, [0, 2], ANN)
    assert not process.take(target, settled=True)
    assert process.passed == []


def test_the_only_partition_takes_all() -> None:
    process = Process(1, [0], ANN)
    assert all(process.take(f"/v1/stream/{name}") for name in NAMES)
    assert len(process.taken(0)) == len(NAMES)


def test_nobody_takes_what_is_of_nobody_known() -> None:
    process = Process(3, [0, 2], None)
    assert not any(process.take(f"/v1/stream/{name}", settled=True) for name in NAMES)
    assert process.passed == []


def test_a_process_without_partitions_takes_and_learns_nothing() -> None:
    process = Process(3, [], ANN)
    assert process.fast_path.common(Request(b"POST", b"/v1/stream/s", b"", {}, b"")) is None
    assert not process.take("/v1/stream/s", settled=True)
    answer = process.fast_path.refusal(COMMON, b"/v1/stream/s", FAILED, b"req_1")
    assert answer.status == 503
    assert b"partition_stopped" in answer.body


def test_what_others_pass_on_is_taken_by_its_partition() -> None:
    process, told = Process(3, [0, 2], ANN), SimpleNamespace()
    sent = PlainFrame(2, b"req_1", ANN, "text/plain", b"/v1/stream/s", b"{}")
    assert process.fast_path.take_sent(sent, told)
    assert process.taken(2) == [b"/v1/stream/s"]
    assert process.fast_path.refuse_sent(sent, FAILED).body == b"2"
    elsewhere = PlainFrame(1, b"req_1", ANN, "text/plain", b"/v1/stream/s", b"{}")
    assert not process.fast_path.take_sent(elsewhere, told)
    assert b"partition_stopped" in process.fast_path.refuse_sent(elsewhere, FAILED).body


def test_a_request_that_was_passed_on_in_vain_is_whole_again() -> None:
    whole = Process(3, [0], ANN).fast_path.whole(COMMON, b"/v1/stream/s", b"{}")
    assert (whole.method, whole.path, whole.query, whole.body) == (b"POST", b"/v1/stream/s", b"", b"{}")
    assert whole.headers == COMMON.headers
    assert whole.headers is not COMMON.headers

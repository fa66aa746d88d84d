"""Which application the fast path of a process gives an append to."""

from types import SimpleNamespace
from typing import Any

import pytest

from durable_sessions.access.caller import Caller, Role
from durable_sessions.errors import DurableSessionsError, PartitionStoppedError
from durable_sessions.http.carrier.message import Request, Response, Waiting
from durable_sessions.node.local_appends import LocalAppends
from durable_sessions.streams.partition_map import home_partition

NAMES = [f"stream-{number}" for number in range(8)]
FAILED = PartitionStoppedError(reason="of a test")


class Appends:
    """Takes every append of whoever has the key; says whose refusal it was."""

    def __init__(self, number: int, caller: Caller | None) -> None:
        self.number = number
        self.known = caller
        self.taken: list[bytes] = []

    def common(self, request: Request) -> object:
        return "common"

    def caller(self, common: object) -> Caller | None:
        assert common == "common"
        return self.known

    def take(self, common: object, caller: Caller, target: bytes, body: bytes, waiting: Waiting) -> bool:
        self.taken.append(target)
        return True

    def refusal(
        self, caller: Caller | None, target: bytes, error: DurableSessionsError, request_id: bytes
    ) -> Response:
        return Response(503, [], b"%d" % self.number)


class Process:
    """The partitions ``here`` of ``of``."""

    def __init__(self, of: int, here: list[int], caller: Caller | None) -> None:
        self.apps: dict[int, Any] = {
            number: SimpleNamespace(fast_appends=Appends(number, caller)) for number in here
        }
        self.fast_path = LocalAppends(of, lambda: next(iter(self.apps.values()), None), self.apps.get)

    def take(self, target: str) -> bool:
        waiting: Any = None
        return self.fast_path.take("common", target.encode(), b"{}", waiting)

    def taken(self, number: int) -> list[bytes]:
        taken: list[bytes] = self.apps[number].fast_appends.taken
        return taken


ANN = Caller("default", "ann", Role.WRITER, "key_1")


@pytest.mark.parametrize("form", ["/v1/stream/{}", "/v1/sessions/{}/events"])
def test_an_append_goes_to_the_home_of_its_name(form: str) -> None:
    process = Process(3, [0, 2], ANN)
    folder = "" if "stream" in form else "sessions/"
    for name in NAMES:
        home = home_partition("default", folder + name, 3)
        target = form.format(name)
        assert process.take(target) is (home != 1), "the connection of an append for another process moves"
        if home != 1:
            assert process.taken(home)[-1] == target.encode()
            refusal = process.fast_path.refusal("common", target.encode(), FAILED, b"req_1")
            assert refusal.body == b"%d" % home


@pytest.mark.parametrize("target", ["/v1/sessions", "/v1/keys", "/v1/stream/__ds/subscriptions", "/"])
def test_a_path_that_names_no_stream_is_handled(target: str) -> None:
    assert not Process(3, [0, 1, 2], ANN).take(target)


def test_the_only_partition_takes_all() -> None:
    process = Process(1, [0], ANN)
    assert all(process.take(f"/v1/stream/{name}") for name in NAMES)
    assert len(process.taken(0)) == len(NAMES)


def test_nobody_takes_what_is_of_nobody_known() -> None:
    process = Process(3, [0, 1, 2], None)
    assert not any(process.take(f"/v1/stream/{name}") for name in NAMES)


def test_a_process_without_partitions_takes_and_learns_nothing() -> None:
    process = Process(3, [], ANN)
    assert process.fast_path.common(Request(b"POST", b"/v1/stream/s", b"", {}, b"")) is None
    assert not process.take("/v1/stream/s")
    answer = process.fast_path.refusal("common", b"/v1/stream/s", FAILED, b"req_1")
    assert answer.status == 503
    assert b"partition_stopped" in answer.body

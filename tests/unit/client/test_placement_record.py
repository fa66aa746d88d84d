"""What placing a session leaves in it: sandboxes, commands, results and logs as events."""

from typing import Any

import pytest

from durable_sessions.client.placement_record import (
    LOG_TYPE,
    CommandRecord,
    WorkPlacement,
    given_to,
    is_repeatable,
    left_behind,
    log_of,
    reason_of,
    shortened,
)
from durable_sessions.sandbox import Result, Sandbox, SandboxSpec

DONE = Result(0, "fine\n", "", 0.25)


class Opened:
    """A sandbox that only notes whether it was closed."""

    def __init__(self, spec: SandboxSpec) -> None:
        self.id = str(spec.id)
        self.described = {"workdir": "/work", "image": None, "network": False}
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True


class Backend:
    """Opens such sandboxes."""

    name = "mine"

    def __init__(self) -> None:
        self.opened: list[Opened] = []

    def open(self, spec: SandboxSpec) -> Any:
        self.opened.append(Opened(spec))
        return self.opened[-1]


def placement(spec: SandboxSpec | None = None, prepare: Any = None) -> tuple[WorkPlacement, Any]:
    backend: Any = Backend()
    return WorkPlacement(backend, spec, prepare), backend


def present(placed: WorkPlacement) -> Sandbox | None:
    return placed.sandbox


# Sandboxes ------------------------------------------------------------------------------


def test_the_first_sandbox_has_the_id_that_was_wished_and_each_other_one_its_own() -> None:
    placed, _ = placement(SandboxSpec(id="sbx-mine"))
    ids = [placed.next_spec().id for _ in range(3)]
    assert ids[0] == "sbx-mine"
    assert len(set(ids)) == 3


def test_the_life_of_a_sandbox_as_events() -> None:
    placed, _ = placement(SandboxSpec(id="one", image="python:3", env={"TOKEN": "hidden"}))
    spec = placed.next_spec()
    requested = placed.requested(spec, retry_of="older")
    assert requested == {
        "type": "ds.sandbox",
        "sandbox": "one",
        "backend": "mine",
        "status": "requested",
        "image": "python:3",
        "retry_of": "older",
        "spec": {
            "env": ["TOKEN"],
            "timeout": spec.timeout,
            "output_bytes": spec.output_bytes,
            "network": None,
        },
    }
    assert "hidden" not in str(requested)
    opened = placed.open(spec)
    ready = placed.ready(opened)
    assert (ready["status"], ready["workdir"], ready["network"]) == ("ready", "/work", False)
    assert "image" not in ready, "what nobody knows is left out"
    assert present(placed) is opened
    suspended = placed.suspended(opened, "for the night")
    assert (suspended["status"], suspended["reason"], placed.is_suspended) == (
        "suspended",
        "for the night",
        True,
    )
    placed.ready(opened)
    assert not placed.is_suspended
    assert placed.lost(opened, OSError("gone"))["reason"] == "gone"
    assert present(placed) is None
    placed.ready(opened)
    released = placed.released(opened, None)
    assert (released["status"], "reason" in released) == ("released", False)
    assert present(placed) is None


def test_a_sandbox_that_cannot_be_prepared_is_closed_again() -> None:
    def fails(_: Sandbox) -> None:
        raise KeyboardInterrupt

    placed, backend = placement(prepare=fails)
    spec = placed.next_spec()
    with pytest.raises(KeyboardInterrupt):
        placed.open(spec)
    assert [one.is_closed for one in backend.opened] == [True]
    failed = placed.failed(spec, KeyboardInterrupt())
    assert (failed["status"], failed["reason"]) == ("failed", "KeyboardInterrupt")


def test_another_workers_sandbox_is_said_to_be_lost() -> None:
    said = left_behind({"sandbox": "theirs", "backend": "docker", "status": "ready"})
    assert (said["sandbox"], said["backend"], said["status"]) == ("theirs", "docker", "lost")


def test_the_reason_of_a_failure_is_a_text_of_bounded_length() -> None:
    assert reason_of(OSError()) == "OSError"
    assert len(reason_of(OSError("x" * 10_000))) == 4_000


# Commands -------------------------------------------------------------------------------


def test_a_command_as_a_call_a_result_and_a_log() -> None:
    record = CommandRecord("pytest  -q", "sbx-1", given={"timeout": 5})
    call = record.call()
    assert (call["type"], call["name"], call["sandbox"]) == ("agent.tool_use", "run", "sbx-1")
    assert call["input"] == {"command": "pytest  -q", "timeout": 5}
    result, log = record.ended(Result(1, "out", "err", 0.5, truncated=True), "ab" * 32, 77)
    assert result["tool_use_id"] == call["id"]
    assert (result["exit_code"], result["seconds"], result["truncated"]) == (1, 0.5, True)
    assert result["is_error"] is True
    assert "timed_out" not in result
    assert "out\nerr" in str(result["content"][0]["text"])
    assert (log["type"], log["sha256"], log["bytes"], log["name"]) == (
        "ds.artifact",
        "ab" * 32,
        77,
        "pytest -q",
    )
    assert (log["role"], log["media_type"]) == ("test_log", LOG_TYPE)
    assert log["refs"] == [{"rel": "result_of", "id": call["id"]}]
    told = record.run(DONE, "cd" * 32)
    assert (told.call, told.result, told.attached) == (call["id"], result["id"], log["id"])
    assert (told.exit_code, told.stdout, told.log, told.sandbox) == (0, "fine\n", "cd" * 32, "sbx-1")


def test_a_command_that_ran_out_of_time_says_so() -> None:
    late = Result(124, "", "", 9.0, timed_out=True)
    result, _ = CommandRecord("sleep 99", "sbx-1").ended(late, "00" * 32, 1)
    assert (result["timed_out"], result["exit_code"], result["is_error"]) == (True, 124, True)
    assert log_of("sleep 99", late) == b"$ sleep 99\n\n[timed out, 9.0 s]\n"


def test_of_a_command_whose_sandbox_was_lost_nobody_knows_what_came_of_it() -> None:
    record = CommandRecord("make", "sbx-1")
    assert "outcome" not in record.failed(OSError("no room"))
    lost = record.lost(OSError("gone"))
    assert (lost["outcome"], lost["is_error"]) == ("unknown", True)


@pytest.mark.parametrize(
    ("effect", "key", "repeatable"),
    [
        (None, None, False),
        ("none", None, True),
        ("read_only", None, True),
        ("idempotent", None, False),
        ("idempotent", "k", True),
        ("non_idempotent", "k", False),
    ],
)
def test_only_what_does_no_harm_is_run_again(effect: Any, key: str | None, repeatable: bool) -> None:
    assert is_repeatable(effect, key) is repeatable
    assert CommandRecord("make", "sbx-1", effect, key).is_repeatable is repeatable


def test_of_variables_and_input_only_names_and_sizes_are_recorded() -> None:
    assert given_to(None, None, None) == {}
    assert given_to(5.0, {"B": "secret", "A": "1"}, "größe") == {
        "timeout": 5.0,
        "env": ["A", "B"],
        "input_bytes": 7,
    }
    assert given_to(None, {}, b"")["input_bytes"] == 0


def test_both_outputs_are_in_the_log() -> None:
    log = log_of("make", Result(2, "built\n", "warning", 1.5)).decode()
    assert log == "$ make\nbuilt\n\n[stderr]\nwarning\n[exit code 2, 1.5 s]\n"


def test_of_a_long_output_a_model_sees_beginning_and_end() -> None:
    short, long = "x" * 16_000, "a" * 8_000 + "bc" + "d" * 8_000
    assert shortened(short) == short
    shown = shortened(long)
    assert shown.startswith("a" * 8_000 + "\n[... 2 characters left out")
    assert shown.endswith("\n" + "d" * 8_000)

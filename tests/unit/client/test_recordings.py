"""A recording gives each call its recorded result, in order, and refuses whatever was not recorded."""

from typing import Any

import pytest

from durable_sessions.client.errors import RecordedFailureError, ReplayDivergedError
from durable_sessions.client.event import Event
from durable_sessions.client.offsets import of
from durable_sessions.client.placement_record import RUN, call_input
from durable_sessions.client.recorded_sandbox import RecordedSandbox, recorded_run
from durable_sessions.client.recording import Recording
from durable_sessions.sandbox import SandboxLostError, SandboxUnsupportedError

COMMAND = "make test"


def call(at: int, name: str, given: dict[str, Any], kind: str = "agent.tool_use") -> Event:
    return Event({"id": f"call-{at}", "offset": of(at), "type": kind, "name": name, "input": given})


def result(
    at: int, of_call: str, text: str, kind: str = "agent.tool_result", named: str = "tool_use_id", **more: Any
) -> Event:
    content = [{"type": "text", "text": text}]
    said = {"id": f"{of_call}-result", "offset": of(at), "type": kind, named: of_call, "content": content}
    return Event(said | more)


def command(at: int, **members: Any) -> list[Event]:
    made = call(at, RUN, call_input(COMMAND, {}))
    return [made, result(at + 1, made.id, members.pop("text", "ok"), **members)]


def test_calls_are_given_in_the_order_in_which_they_were_recorded() -> None:
    recording = Recording(
        [
            call(2, "search", {"q": "a"}),
            # Its result arrives behind the next call: what belongs together is told by the id.
            call(3, "fetch", {"parts": [1, 2]}, "agent.mcp_tool_use"),
            result(4, "call-3", "page", "agent.mcp_tool_result", "mcp_tool_use_id"),
            result(5, "call-2", "found"),
        ],
        end=9,
    )
    assert recording.position == 2
    first = recording.tool("search", {"q": "a"})
    assert (first.replayed(), first.is_new, recording.position) == ("found", False, 3)
    assert recording.tool("fetch", {"parts": (1, 2)}).replayed() == "page", "a tuple is a list in JSON"
    assert recording.is_complete
    assert recording.position == 9


@pytest.mark.parametrize(
    ("name", "given", "told"),
    [
        (
            "fetch",
            {"q": "a"},
            'The harness calls fetch with {"q":"a"}; recorded at position 2 is search with',
        ),
        ("search", {"q": "b"}, 'The harness calls search with {"q":"b"}; recorded at position 2 is search'),
        ("search", {}, "The harness calls search with {}; recorded at position 2"),
    ],
)
def test_another_call_than_the_recorded_one_is_refused_and_uses_nothing_up(
    name: str, given: dict[str, Any], told: str
) -> None:
    recording = Recording([call(2, "search", {"q": "a"}), result(3, "call-2", "found")], end=4)
    with pytest.raises(ReplayDivergedError) as refused:
        recording.tool(name, given)
    assert told in str(refused.value)
    assert recording.tool("search", {"q": "a"}).replayed() == "found"


def test_a_recording_that_ends_is_told() -> None:
    recording = Recording([call(2, "search", {})], end=3)
    with pytest.raises(ReplayDivergedError, match="The call call-2 at position 2 has no result"):
        recording.tool("search", {})
    with pytest.raises(ReplayDivergedError, match="no further call was recorded before position 3"):
        Recording([], end=3).tool("search", {})


def test_a_tool_that_had_failed_fails_again() -> None:
    recording = Recording(
        [call(2, "search", {}), result(3, "call-2", "no such index", is_error=True)],
        end=4,
    )
    with pytest.raises(RecordedFailureError, match="no such index"):
        recording.tool("search", {}).replayed()


def test_what_the_harness_would_have_appended_is_kept_in_both_forms() -> None:
    recording = Recording([call(2, "search", {})], end=3)
    assert recording.append(b'[{"type":"note"}]').next_offset == of(2)
    recording.append(b'{"events":[{"type":"agent.message"}]}')
    assert [event["type"] for event in recording.appended] == ["note", "agent.message"]


# Commands -------------------------------------------------------------------------------


def test_a_recorded_command_gives_what_it_gave() -> None:
    events = command(2, text="42 passed", exit_code=0, seconds=1.5, sandbox="box-1", truncated=True)
    run = recorded_run(Recording(events, 4), COMMAND, {}, None, None)
    assert (run.exit_code, run.stdout, run.stderr, run.seconds) == (0, "42 passed", "", 1.5)
    assert (run.sandbox, run.truncated, run.timed_out, run.log) == ("box-1", True, False, "")
    assert (run.call, run.result, run.attached) == ("call-2", "call-2-result", "call-2-log")


def test_a_command_that_was_repeated_after_a_loss_gives_what_the_last_one_gave() -> None:
    events = [*command(2, text="lost", outcome="unknown"), *command(4, text="ok", exit_code=3)]
    assert recorded_run(Recording(events, 6), COMMAND, {}, "read_only", None).exit_code == 3
    assert recorded_run(Recording(events, 6), COMMAND, {}, "idempotent", "key-1").exit_code == 3


@pytest.mark.parametrize(("effect", "key"), [(None, None), ("non_idempotent", "key-1"), ("idempotent", None)])
def test_a_loss_that_could_not_be_repeated_is_a_loss_again(effect: str | None, key: str | None) -> None:
    recording = Recording(command(2, text="the machine is gone", outcome="unknown"), 4)
    with pytest.raises(SandboxLostError, match="the machine is gone"):
        recorded_run(recording, COMMAND, {}, effect, key)


def test_a_command_that_was_never_run_fails_as_it_did() -> None:
    recording = Recording(command(2, text="no sandbox could be opened", is_error=True), 4)
    with pytest.raises(RecordedFailureError, match="no sandbox could be opened"):
        recorded_run(recording, COMMAND, {}, None, None)


def test_nothing_runs_in_a_replay_and_files_are_taken_without_a_place() -> None:
    with RecordedSandbox("docker", None) as box:
        assert (box.backend, box.described) == ("docker", {})
        box.write("a.txt", b"x")
        for attempt in (lambda: box.run("ls"), lambda: box.read("a.txt"), lambda: box.list(".")):
            with pytest.raises(SandboxUnsupportedError, match=r"run commands with work\.run"):
                attempt()

"""Claude Code: what becomes of its records, from small files of our own."""

import json
from pathlib import Path
from typing import Any

import pytest

from durable_sessions.importers.report import Report
from durable_sessions.importers.state import ImportState
from tests.importers.counting import count
from tests.importers.memory_destination import MemoryDestination
from tests.importers.samples import run
from tests.importers.talks import age, claude_code_talk, lines

NAME = "11111111-2222-4333-8444-555555555555"
OTHER = "99999999-2222-4333-8444-555555555555"
Event = dict[str, Any]


def user(uuid: str, parent: str | None, content: object, **more: Any) -> Event:
    return record("user", uuid, parent, message={"role": "user", "content": content}, **more)


def agent(uuid: str, parent: str | None, *content: Event, request: str = "", **more: Any) -> Event:
    message: Event = {
        "role": "assistant",
        "model": "claude-test-1",
        "content": list(content),
        "id": request or uuid,
    }
    if "usage" in more:
        message["usage"] = more.pop("usage")
    if "model" in more:
        message["model"] = more.pop("model")
    return record("assistant", uuid, parent, message=message, **more)


def record(kind: str, uuid: str, parent: str | None, **more: Any) -> Event:
    return {
        "type": kind,
        "uuid": uuid,
        "parentUuid": parent,
        "timestamp": "2026-11-15T12:00:00.000Z",
        "sessionId": NAME,
        "isSidechain": False,
        "version": "2.1.0",
        "cwd": "/srv/demo",
        **more,
    }


def say(text: str) -> Event:
    return {"type": "text", "text": text}


def call(name: str, call_id: str, **given: Any) -> Event:
    return {"type": "tool_use", "id": call_id, "name": name, "input": given}


def result(call_id: str, content: object, **more: Any) -> Event:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **more}


def imported(folder: Path, *records: Event, name: str = NAME) -> list[Event]:
    (folder / f"{name}.jsonl").write_bytes(lines(list(records)))
    destination, _ = everything(folder)
    return list(destination.sessions[f"claude-code:{name}"].events.values())


def everything(folder: Path) -> tuple[MemoryDestination, Report]:
    age(folder)
    destination = MemoryDestination()
    report = run("claude-code", [folder], destination)
    return destination, report


def kinds(events: list[Event]) -> list[str]:
    return [event["type"] for event in events]


def test_a_turn(tmp_path: Path) -> None:
    events = imported(tmp_path, *claude_code_talk(1))
    assert kinds(events) == [
        "user.message",
        "span.model_request_start",
        "agent.thinking",
        "agent.message",
        "agent.tool_use",
        "span.model_request_end",
        "agent.tool_result",
        "span.model_request_start",
        "agent.message",
        "span.model_request_end",
    ]
    by_kind = {event["type"]: event for event in events}
    assert by_kind["agent.tool_result"]["tool_use_id"] == by_kind["agent.tool_use"]["id"]
    assert events[5]["model_usage"]["output_tokens"] == 20
    assert events[0]["created_at"] == "2026-11-15T00:00:00.000Z"
    assert events[0]["source"] == {
        "tool": "claude-code",
        "version": "2.1.325",
        "file": f"{NAME}.jsonl",
        "line": 1,
        "record_id": "p0",
        "block": "said",
    }


def test_usage_that_grows_after_a_result_is_counted_once(tmp_path: Path) -> None:
    events = imported(
        tmp_path,
        user("p", None, "go"),
        agent("a", "p", call("Bash", "t1"), request="m", usage={"input_tokens": 5, "output_tokens": 1}),
        user("r", "a", [result("t1", "ok")]),
        agent("b", "a", call("Bash", "t2"), request="m", usage={"input_tokens": 5, "output_tokens": 30}),
        user("s", "b", [result("t2", "ok")]),
    )
    found = count(events)
    assert found["model_requests"] == 1
    assert found["usage"]["output_tokens"] == 30
    assert found["usage"]["input_tokens"] == 5


def test_what_the_next_record_could_change_waits(tmp_path: Path) -> None:
    """An answer whose usage is not final, and a compaction without its summary, in a file in the making."""
    meta = {"trigger": "auto"}
    talk = [
        user("p", None, "go"),
        agent("a", "p", say("I"), request="m", usage={"output_tokens": 1}),
        agent("b", "a", say("will."), request="m", usage={"output_tokens": 30}),
        record("system", "c", None, subtype="compact_boundary", logicalParentUuid="b", compactMetadata=meta),
        user("d", "c", "In short.", isCompactSummary=True),
    ]
    path, destination, state = tmp_path / f"{NAME}.jsonl", MemoryDestination(), ImportState(None, "")
    for end in (2, 2, 4, 4, 5):
        path.write_bytes(lines(talk[:end]))
        run("claude-code", [tmp_path], destination, state)
    age(tmp_path)
    run("claude-code", [tmp_path], destination, state)
    events = list(destination.sessions[f"claude-code:{NAME}"].events.values())
    assert kinds(events) == [
        "user.message",
        "span.model_request_start",
        "agent.message",
        "agent.message",
        "span.model_request_end",
        "agent.thread_context_compacted",
    ]
    assert events[4]["model_usage"]["output_tokens"] == 30
    assert events[5]["summary"] == "In short."


def test_title_metadata_and_summaries_of_others(tmp_path: Path) -> None:
    (tmp_path / f"{NAME}.jsonl").write_bytes(
        lines(
            [
                {"type": "summary", "summary": "Another talk", "leafUuid": "nowhere"},
                user("p", None, "Fix   the\n\ngreeting", gitBranch="main"),
                {"type": "ai-title", "aiTitle": "Greeting", "sessionId": NAME},
                {"type": "custom-title", "customTitle": "My greeting", "sessionId": NAME},
                {"type": "ai-title", "aiTitle": "Not this one", "sessionId": NAME},
            ]
        )
    )
    destination, _ = everything(tmp_path)
    session = destination.sessions[f"claude-code:{NAME}"]
    assert session.title == "My greeting"
    expected = {"tool": "claude-code", "cwd": "/srv/demo", "git_branch": "main", "project": "demo"}
    assert expected.items() <= session.metadata.items()
    assert kinds(list(session.events.values()))[0] == "import.record"


def test_commands_injections_and_interrupts(tmp_path: Path) -> None:
    events = imported(
        tmp_path,
        user("m", None, "Caveat: …", isMeta=True),
        user("c", "m", "<command-name>/model</command-name>"),
        user("o", "c", "<local-command-stdout>Set model</local-command-stdout>"),
        user("p", "o", [say("<system-reminder>Be brief.</system-reminder>"), say("Do it")]),
        user("i", "p", [say("[Request interrupted by user for tool use]")]),
    )
    assert kinds(events) == [
        "system.message",
        "user.message",
        "import.record",
        "user.message",
        "system.message",
        "user.interrupt",
    ]
    assert events[1]["command"] is True
    assert events[2]["command_event_id"] == events[1]["id"]
    assert events[3]["content"] == [say("Do it")]


@pytest.mark.parametrize(
    ("typed", "title"),
    [
        ("<command-message>fix</command-message><command-name>/fix</command-name>", "/fix"),
        (
            "<command-name>/fix</command-name><command-args>issue 7\n today</command-args>",
            "/fix issue 7 today",
        ),
        ("<bash-input>make  test</bash-input>", "$ make test"),
        ("<command-name></command-name>", None),
    ],
)
def test_the_first_command_is_the_title_until_there_is_a_prompt(
    tmp_path: Path, typed: str, title: str | None
) -> None:
    command = user("c", None, typed)
    answer = agent("a", "c", say("Done."))
    other = user("d", "a", "<command-name>/clear</command-name>")
    for name, records, expected in (
        ("one", (command, answer, other), title or "/clear"),
        ("two", (command, answer, other, user("p", "d", "Now the tests.")), "Now the tests."),
    ):
        folder = tmp_path / name
        folder.mkdir()
        imported(folder, *records)
        destination, _ = everything(folder)
        assert [session.title for session in destination.sessions.values()] == [expected]


def test_refused_orphaned_and_repeated_results(tmp_path: Path) -> None:
    refusal = "The user doesn't want to proceed with this tool use. STOP."
    events = imported(
        tmp_path,
        agent("a", None, call("mcp__git__log", "t1"), call("Bash", "t2")),
        user("r", "a", [result("t2", refusal, is_error=True), result("t1", [say("one"), say("two")])]),
        user("s", "r", [result("t1", "later"), result("t9", "whose?")]),
    )
    assert kinds(events) == [
        "agent.mcp_tool_use",
        "agent.tool_use",
        "user.tool_confirmation",
        "agent.tool_result",
        "agent.mcp_tool_result",
        "agent.mcp_tool_result",
        "agent.tool_result",
    ]
    first, second, orphan = events[4], events[5], events[6]
    assert (events[0]["mcp_server_name"], events[0]["name"]) == ("git", "log")
    assert (events[2]["result"], events[2]["tool_use_id"]) == ("deny", events[1]["id"])
    assert second["supersedes"] == first["id"]
    assert "supersedes" not in first
    assert (orphan["orphan"], orphan["tool_use_id"]) == (True, "t9")


def test_failed_requests(tmp_path: Path) -> None:
    events = imported(
        tmp_path,
        record("system", "s", None, subtype="api_error", error={"message": "overloaded"}, retryAttempt=1),
        agent("a", "s", say("API Error: 500"), isApiErrorMessage=True, model="<synthetic>"),
        agent("b", "a", say("No response requested."), model="<synthetic>"),
    )
    assert kinds(events) == [
        "session.error",
        "span.model_request_start",
        "span.model_request_end",
        "session.error",
        "import.record",
    ]
    assert events[0]["error"]["retry_status"] == {"type": "retrying"}
    assert events[3]["error"] == {
        "type": "unknown_error",
        "message": "API Error: 500",
        "retry_status": {"type": "terminal"},
    }


def test_compaction_twice(tmp_path: Path) -> None:
    def boundary(uuid: str, before: str) -> Event:
        meta = {"trigger": "auto", "preTokens": 9}
        return record(
            "system", uuid, None, subtype="compact_boundary", logicalParentUuid=before, compactMetadata=meta
        )

    events = imported(
        tmp_path,
        user("p", None, "go"),
        boundary("b1", "p"),
        user("s1", "b1", "First summary", isCompactSummary=True),
        boundary("b2", "s1"),
        user("s2", "b2", "Second summary", isCompactSummary=True),
        record(
            "system",
            "b3",
            None,
            subtype="microcompact_boundary",
            microcompactMetadata={"compactedToolIds": ["t"]},
        ),
        boundary("b4", "b3"),
    )
    compacted = [event for event in events if event["type"] == "agent.thread_context_compacted"]
    assert [event.get("summary") for event in compacted] == ["First summary", "Second summary", None, None]
    assert (compacted[0]["trigger"], compacted[0]["pre_tokens"]) == ("auto", 9)
    assert (compacted[2]["kind"], compacted[2]["cleared"]) == ("micro", ["t"])


def test_a_rewind_is_a_branch(tmp_path: Path) -> None:
    events = imported(
        tmp_path,
        user("p", None, "go"),
        agent("a", "p", say("left")),
        user("q", "a", "on"),
        agent("b", "q", say("further left")),
        user("q2", "a", "no, right"),
        agent("c", "q2", say("right")),
    )
    assert [event.get("branch", 0) for event in events] == [0, 0, 0, 0, 1, 1, 1]
    assert events[4]["type"] == "session.branch_created"
    assert events[4]["behind_record_id"] == "a"


def test_strange_trees_are_read(tmp_path: Path) -> None:
    """Parents that were never written, that come later, or that are the record itself."""
    events = imported(
        tmp_path,
        user("a", "a", "self"),
        user("b", "c", "forward"),
        user("c", "b", "back"),
        user("d", "gone", "dangling"),
        {"type": "brand-new", "parentUuid": {"not": "a text"}},
        {"type": "user", "message": "not an object"},
        {"type": ["not", "a", "text"]},
    )
    assert count(events)["user_messages"] == 4
    assert kinds(events).count("import.record") == 3


def test_subagents_in_files_of_their_own(tmp_path: Path) -> None:
    folder = tmp_path / NAME / "subagents"
    folder.mkdir(parents=True)
    below: Event = {"isSidechain": True, "agentId": "a1"}
    (folder / "agent-a1.jsonl").write_bytes(
        lines(
            [
                user("x", None, "Count files", **below),
                agent("y", "x", say("Two."), **below, usage={"output_tokens": 2}),
            ]
        )
    )
    (folder / "agent-a1.meta.json").write_text(json.dumps({"agentType": "Explore", "toolUseId": "t1"}))
    (tmp_path / "agent-b2.jsonl").write_bytes(
        lines([agent("z", None, say("Warm."), isSidechain=True, agentId="b2")])
    )
    events = imported(
        tmp_path,
        user("p", None, "go"),
        agent("a", "p", call("Task", "t1", prompt="Count files")),
        user("r", "a", [result("t1", "launched")], toolUseResult={"agentId": "a1", "isAsync": True}),
        user("n", "r", "<task-notification>\n<task-id>a1</task-id> done</task-notification>"),
    )
    main = [event for event in events if "session_thread_id" not in event]
    child = [event for event in events if event.get("session_thread_id") == "a1"]
    assert kinds(main) == [
        "user.message",
        "agent.tool_use",
        "agent.thread_message_sent",
        "agent.tool_result",
        "agent.thread_message_received",
    ]
    assert (main[2]["to_session_thread_id"], main[2]["tool_use_id"]) == ("a1", main[1]["id"])
    assert main[4]["from_session_thread_id"] == "a1"
    assert kinds(child) == [
        "session.thread_created",
        "agent.thread_message_received",
        "span.model_request_start",
        "agent.message",
        "span.model_request_end",
    ]
    assert child[0]["agent_name"] == "Explore"
    assert {event.get("session_thread_id") for event in events} == {None, "a1", "b2"}


def test_subagents_inside_the_session(tmp_path: Path) -> None:
    events = imported(
        tmp_path,
        agent("a", None, call("Task", "t1", prompt="Count files")),
        user("x", None, "Count files", isSidechain=True),
        agent("y", "x", say("Two."), isSidechain=True),
        user("r", "a", [result("t1", "Two.")]),
    )
    assert kinds(events) == [
        "agent.tool_use",
        "agent.thread_message_sent",
        "session.thread_created",
        "agent.thread_message_received",
        "agent.message",
        "agent.tool_result",
    ]
    assert events[1]["to_session_thread_id"] == events[4]["session_thread_id"] == "side-x"


def test_saved_outputs(tmp_path: Path) -> None:
    folder = tmp_path / NAME / "tool-results"
    folder.mkdir(parents=True)
    (folder / "toolu_1.txt").write_text("long " * 100_000)
    (folder / "image.bin").write_bytes(b"\xff\xfe")
    (folder / "outside.txt").symlink_to("/etc/hostname")
    (tmp_path / f"{NAME}.jsonl").write_bytes(lines([user("p", None, "go")]))
    destination, report = everything(tmp_path)
    events = list(destination.sessions[f"claude-code:{NAME}"].events.values())
    saved = {event["name"]: event for event in events if event.get("kind") == "saved_output"}
    assert saved.keys() == {"toolu_1.txt", "image.bin"}
    assert saved["toolu_1.txt"]["source"]["call_id"] == "toolu_1"
    assert sorted(len(data) for data, _ in destination.artifacts.values()) == [2, 500_000]
    assert everything_again(tmp_path, destination) == 0
    assert report.tally.artifacts == 2


def test_an_orphaned_subagent_has_a_session(tmp_path: Path) -> None:
    path = tmp_path / "agent-b2.jsonl"
    path.write_bytes(lines([agent("z", None, say("Warm."), isSidechain=True, agentId="b2")]))
    destination, _ = everything(tmp_path)
    assert list(destination.sessions) == [f"claude-code:{NAME}"]


def test_a_copied_session_is_a_fork(tmp_path: Path) -> None:
    """What both have is stored once, and its usage counted once in each."""
    talk = claude_code_talk(3)
    (tmp_path / f"{NAME}.jsonl").write_bytes(lines(talk))
    copied = [{**one, "sessionId": OTHER} for one in talk[:6]]
    own = [
        user("own-p", "e0", "right", sessionId=OTHER, timestamp="2027-01-01T00:00:00Z"),
        agent("own-a", "own-p", say("Right."), sessionId=OTHER),
    ]
    (tmp_path / f"{OTHER}.jsonl").write_bytes(lines(copied + own))
    destination, _ = everything(tmp_path)
    source, fork = (destination.sessions[f"claude-code:{name}"] for name in (NAME, OTHER))
    assert fork.origin is not None
    assert fork.origin.session == f"claude-code:{NAME}"
    shared = [one for one in fork.events if one in source.events]
    assert shared == list(source.events)[: len(shared)]
    assert count(fork.events.values())["user_messages"] == 2
    assert everything_again(tmp_path, destination) == 0


def everything_again(folder: Path, destination: MemoryDestination) -> int:
    return run("claude-code", [folder], destination).new_events


def test_repeated_and_colliding_uuids(tmp_path: Path) -> None:
    one = user("p", None, "go")
    (tmp_path / f"{NAME}.jsonl").write_bytes(lines([one, one, user("p", None, "something else")]))
    destination, report = everything(tmp_path)
    events = list(destination.sessions[f"claude-code:{NAME}"].events.values())
    assert [event["content"][0]["text"] for event in events if "content" in event] == ["go", "something else"]
    assert report.tally.merged["repeated record"] == 1


def test_damage_is_kept_and_told(tmp_path: Path) -> None:
    data = (
        lines([user("p", None, "go")]) + b'{"type":"user", cut\n' + lines([user("q", "p", "on")]) + b'{"half'
    )
    (tmp_path / f"{NAME}.jsonl").write_bytes(data)
    destination, report = everything(tmp_path)
    events = list(destination.sessions[f"claude-code:{NAME}"].events.values())
    assert kinds(events) == ["user.message", "import.record", "user.message"]
    assert events[1]["source_text"] == '{"type":"user", cut'
    assert report.tally.kept["not JSON"] == 1
    assert report.tally.notes["unfinished last line, imported when it is complete"] == 1


def test_names_that_ids_cannot_hold(tmp_path: Path) -> None:
    for name in ("Ümläut session", "x" * 220):
        path = tmp_path / f"{name}.jsonl"
        path.write_bytes(lines([user("p", None, "go")]))
    destination, _ = everything(tmp_path)
    assert len(destination.sessions) == 2
    for name in destination.sessions:
        assert len(name) <= 200
        assert name.isascii()
        assert " " not in name


def test_nothing_but_bookkeeping_is_a_session(tmp_path: Path) -> None:
    events = imported(tmp_path, {"type": "mode", "mode": "normal", "sessionId": NAME})
    assert kinds(events) == ["import.record"]
    (tmp_path / f"{OTHER}.jsonl").write_bytes(b"")
    destination, _ = everything(tmp_path)
    assert len(destination.sessions) == 1


def teammate(name: str, text: str) -> str:
    return f'<teammate-message teammate_id="{name}" color="blue" summary="done">\n{text}\n</teammate-message>'


def test_messages_of_teammates_are_not_the_users(tmp_path: Path) -> None:
    both = teammate("alice", "Tests pass.") + "\n\n" + teammate("bob", "So do mine.")
    queued = {"type": "queued_command", "prompt": teammate("carol", "Late."), "commandMode": "prompt"}
    events = imported(
        tmp_path,
        user("u1", None, "Start a team."),
        agent("a1", "u1", say("Started.")),
        user("u2", "a1", both),
        user("u3", "a1", [say(teammate("dan", "And mine.")), say("I said: stop.")]),
        record("attachment", "u4", "u3", attachment=queued),
    )
    found = count(events)
    assert (found["user_messages"], found["teammate_messages"]) == (2, 3)
    received = [one for one in events if one["type"] == "agent.thread_message_received"]
    assert {one["from_agent_name"] for one in received} == {"alice, bob", "dan", "carol"}
    said = [one["content"][0]["text"] for one in events if one["type"] == "user.message"]
    assert said == ["Start a team.", "I said: stop."]
    assert not [one for one in events if one["type"] == "session.branch_created"]


def test_clearing_old_results_is_told_apart_from_a_compaction(tmp_path: Path) -> None:
    micro = {"trigger": "auto", "preTokens": 60_000, "compactedToolIds": ["t1", "t2"]}
    events = imported(
        tmp_path,
        user("u1", None, "Go on."),
        record("system", "s1", "u1", subtype="microcompact_boundary", microcompactMetadata=micro),
        record("system", "s2", None, subtype="compact_boundary", compactMetadata={"trigger": "auto"}),
    )
    found = count(events)
    assert (found["microcompactions"], found["compactions"]) == (1, 1)
    (cleared,) = [one for one in events if one.get("kind") == "micro"]
    assert (cleared["cleared"], cleared["pre_tokens"]) == (["t1", "t2"], 60_000)


def test_a_request_that_was_tried_again_is_kept_with_its_attempt(tmp_path: Path) -> None:
    retried = record("system", "s1", "u1", subtype="api_error", error={}, retryAttempt=2, maxRetries=10)
    events = imported(tmp_path, user("u1", None, "Go on."), retried, agent("a1", "s1", say("Done.")))
    assert count(events)["api_retries"] == 1
    (error,) = [one for one in events if one["type"] == "session.error"]
    assert error["error"]["retry_status"] == {"type": "retrying"}
    assert error["retry_attempt"] == 2

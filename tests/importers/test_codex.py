"""Codex: one talk in every generation, forks and subagents, from small files of our own."""

import json
from pathlib import Path
from typing import Any

import pyarrow
import pytest

from durable_sessions.importers.codex.outputs import read_output
from durable_sessions.importers.events import arguments
from tests.importers.counting import count
from tests.importers.memory_destination import MemoryDestination
from tests.importers.samples import run
from tests.importers.talks import age, lines

A, B, C = (f"0000000{n}-0000-7000-8000-000000000000" for n in (1, 2, 3))
Record = dict[str, Any]


def line(kind: str, **payload: Any) -> Record:
    return {"timestamp": "2026-11-15T12:00:00.000Z", "type": kind, "payload": payload}


def meta(thread: str, **more: Any) -> Record:
    return line("session_meta", id=thread, cwd="/srv/demo", cli_version="0.64.0", **more)


def item(kind: str, **more: Any) -> Record:
    return line("response_item", type=kind, **more)


def event(kind: str, **more: Any) -> Record:
    return line("event_msg", type=kind, **more)


def said(role: str, text: str) -> Record:
    kind = "output_text" if role == "assistant" else "input_text"
    return item("message", role=role, content=[{"type": kind, "text": text}])


def tokens(total: int) -> Record:
    used = {"input_tokens": total, "cached_input_tokens": 0, "output_tokens": 1, "total_tokens": total + 1}
    return event("token_count", info={"total_token_usage": used, "last_token_usage": used})


def write(folder: Path, thread: str, records: list[Record]) -> None:
    (folder / f"rollout-2026-11-15T12-00-00-{thread}.jsonl").write_bytes(lines(records))
    age(folder)


def imported(folder: Path) -> MemoryDestination:
    destination = MemoryDestination()
    run("codex", [folder], destination)
    assert run("codex", [folder], destination).new_events == 0
    return destination


def of(destination: MemoryDestination, thread: str = A) -> list[Record]:
    return list(destination.sessions[f"codex:{thread}"].events.values())


def test_the_same_words_in_several_records_are_one_event(tmp_path: Path) -> None:
    turn = [
        said("user", "Hello"),
        event("user_message", message="Hello"),
        event("agent_reasoning", text="Hm."),
        event("agent_message", message="Hi."),
        tokens(10),
        item("reasoning", summary=[{"type": "summary_text", "text": "Hm."}], encrypted_content="blob"),
        said("assistant", "Hi."),
        tokens(10),
    ]
    again = [*turn[:4], *turn[5:7]]
    write(tmp_path, A, [meta(A), said("user", "<environment_context>…"), *turn, *again])
    found = count(of(imported(tmp_path)))
    assert (found["user_messages"], found["agent_messages"], found["thinking"]) == (2, 2, 2)
    assert found["model_requests"] == 1
    assert found["usage"]["input_tokens"] == 10


def test_words_that_only_one_kind_of_record_has(tmp_path: Path) -> None:
    write(
        tmp_path,
        A,
        [
            meta(A),
            said("user", "only as item"),
            event("agent_reasoning", text="only as event"),
            event("agent_message", message="only as event"),
            event("task_complete", last_agent_message="only at the end"),
        ],
    )
    events = of(imported(tmp_path))
    words = [
        (one["type"], one["content"][0]["text"])
        for one in events
        if one["type"].startswith(("user.", "agent."))
    ]
    assert words == [
        ("user.message", "only as item"),
        ("agent.message", "only as event"),
        ("agent.thinking", "only as event"),
        ("agent.message", "only at the end"),
    ]


def test_turns_that_end_otherwise(tmp_path: Path) -> None:
    write(
        tmp_path,
        A,
        [
            meta(A),
            event("task_started", turn_id="t1"),
            event("turn_aborted", reason="interrupted"),
            event("task_complete", error={"message": "out of quota"}),
            event("thread_rolled_back", num_turns=1),
            said("assistant", "on another branch"),
            event("thread_name_updated", thread_name="A name"),
        ],
    )
    destination = imported(tmp_path)
    events = of(destination)
    assert [one["type"] for one in events][1:] == [
        "session.status_running",
        "user.interrupt",
        "session.status_idle",
        "session.error",
        "session.status_idle",
        "session.branch_created",
        "agent.message",
        "session.updated",
    ]
    assert events[-2]["branch"] == 1
    assert destination.sessions[f"codex:{A}"].title == "A name"


def answered_and_summed_up() -> list[Record]:
    """Return a paginated history with an answer, and a summary that looks like one."""
    content = [{"type": "Text", "text": "Yes."}]
    return [
        meta(A, history_mode="paginated"),
        event("item_completed", item={"type": "AgentMessage", "content": content}),
        said("assistant", "Yes."),
        said("assistant", "All that was said."),
    ]


def test_paginated_summary_is_no_answer(tmp_path: Path) -> None:
    write(
        tmp_path,
        A,
        [
            *answered_and_summed_up(),
            line("compacted", message="", replacement_history=[]),
        ],
    )
    events = of(imported(tmp_path))
    assert count(events)["agent_messages"] == 1
    (compacted,) = [one for one in events if one["type"] == "agent.thread_context_compacted"]
    assert compacted["summary"] == "All that was said."


def test_subagents_are_threads(tmp_path: Path) -> None:
    arguments = json.dumps({"message": "Count"})
    write(
        tmp_path,
        A,
        [
            meta(A),
            item("function_call", name="spawn_agent", arguments=arguments, call_id="c1"),
            item("function_call_output", call_id="c1", output=json.dumps({"agent_id": B})),
        ],
    )
    spawn = {"subagent": {"thread_spawn": {"parent_thread_id": A, "agent_nickname": "Boyle"}}}
    write(
        tmp_path, B, [meta(B, source=spawn), event("user_message", message="Count"), said("assistant", "Two")]
    )
    spawn = {"subagent": {"thread_spawn": {"parent_thread_id": B}}}
    write(tmp_path, C, [meta(C, source=spawn), said("assistant", "Deeper")])
    destination = imported(tmp_path)
    assert list(destination.sessions) == [f"codex:{A}"]
    events = of(destination)
    (sent,) = [one for one in events if one["type"] == "agent.thread_message_sent"]
    assert (sent["to_session_thread_id"], sent["content"][0]["text"]) == (B, "Count")
    created = [one for one in events if one["type"] == "session.thread_created"]
    assert [(one["session_thread_id"], one["agent_name"]) for one in created] == [
        (B, "Boyle"),
        (C, "subagent"),
    ]


def test_a_fork_that_was_copied(tmp_path: Path) -> None:
    first = [meta(A), event("task_started", turn_id="t1"), event("user_message", message="one"), tokens(10)]
    write(tmp_path, A, [*first, event("task_started", turn_id="t2"), event("user_message", message="left")])
    own = [event("task_started", turn_id="t3"), event("user_message", message="right"), tokens(25)]
    write(tmp_path, B, [meta(B, forked_from_id=A), *first, *own])
    destination = imported(tmp_path)
    fork = of(destination, B)
    assert [one["content"][0]["text"] for one in fork if one["type"] == "user.message"] == ["one", "right"]
    assert count(fork)["usage"]["input_tokens"] == 25
    assert {one["id"] for one in of(destination)} & {one["id"] for one in fork}


def test_a_fork_without_its_source(tmp_path: Path) -> None:
    base = {"thread_id": A, "end_ordinal_exclusive": 4}
    write(tmp_path, B, [meta(B, history_mode="paginated", history_base=base), said("assistant", "own")])
    assert count(of(imported(tmp_path), B))["agent_messages"] == 1


def test_older_generations(tmp_path: Path) -> None:
    bare = [
        {"id": A, "timestamp": "2025-06-01T00:00:00Z", "instructions": "Be brief."},
        {"record_type": "state"},
        said("user", "Hello")["payload"],
        said("assistant", "Hi.")["payload"],
    ]
    write(tmp_path, A, bare)
    document = {"session": bare[0] | {"id": B}, "items": bare[2:]}
    (tmp_path / f"rollout-2025-05-01-{B}.json").write_text(json.dumps(document))
    destination = imported(tmp_path)
    for thread in (A, B):
        found = count(of(destination, thread))
        assert (found["user_messages"], found["agent_messages"]) == (1, 1)


def test_compressed_rollouts(tmp_path: Path) -> None:
    data = lines([meta(A), said("assistant", "packed")])
    path = tmp_path / f"rollout-2026-11-15T12-00-00-{A}.jsonl.zst"
    path.write_bytes(pyarrow.compress(data, codec="zstd", asbytes=True))
    age(tmp_path)
    assert count(of(imported(tmp_path)))["agent_messages"] == 1


@pytest.mark.parametrize(
    ("output", "text", "code"),
    [
        ('{"output":"hi\\n","metadata":{"exit_code":2}}', "hi\n", 2),
        ("Exit code: 0\nWall time: 0 seconds\nOutput:\nhi\n", "hi\n", 0),
        ("Chunk ID: a\nProcess exited with code 1\nOutput:\nhi\n", "hi\n", 1),
        ('{"agent_id":"x"}', '{"agent_id":"x"}', None),
        ("Plan updated", "Plan updated", None),
        ([{"type": "input_text", "text": "a"}], "a", None),
        ({"content": "no", "success": False}, "no", 1),
        ('{"a":' * 100_000, '{"a":' * 100_000, None),
    ],
)
def test_outputs(output: object, text: str, code: int | None) -> None:
    found = read_output(output)
    assert (found.content[0]["text"], found.exit_code) == (text, code)


@pytest.mark.parametrize(
    ("given", "parsed"),
    [
        ('{"a":1}', {"a": 1}),
        ('"{\\"a\\":1}"', {"a": 1}),
        ("not json", {"_raw": "not json"}),
        ("[1]", {"_raw": "[1]"}),
        ("", {"_raw": ""}),
        (None, {}),
    ],
)
def test_arguments(given: object, parsed: object) -> None:
    assert arguments(given) == parsed


def raw(text: str) -> Record:
    return event("agent_reasoning_raw_content", text=text)


def thought(summary: str = "", raw: str = "") -> Record:
    return item(
        "reasoning",
        summary=[{"type": "summary_text", "text": summary}] if summary else [],
        content=[{"type": "reasoning_text", "text": raw}] if raw else None,
    )


@pytest.mark.parametrize(
    "records",
    [
        [raw("Deep."), thought()],
        [thought(), raw("Deep.")],
        [thought(raw="Deep."), raw("Deep.")],
        [raw("Deep."), thought(raw="Deep.")],
        [raw("Deep."), event("agent_reasoning", text="Deep."), thought(raw="Deep.")],
        [thought(raw="Deep."), said("assistant", "Yes."), raw("Deep.")],
        [raw("Deep.")],
        [raw("Deep."), event("agent_reasoning", text="Deep.")],
        [event("agent_reasoning", text="Short."), raw("Deep."), thought("Short.")],
        [thought("Short.", "Deep."), event("agent_reasoning", text="Short."), raw("Deep.")],
        [event("agent_reasoning", text="Short."), raw("Deep.")],
        [
            event("item_completed", item={"type": "Reasoning", "raw_content": ["Deep."]}),
            thought(),
        ],
        [
            event(
                "item_completed",
                item={"type": "Reasoning", "summary_text": ["Short."], "raw_content": ["Deep."]},
            ),
            thought("Short."),
        ],
    ],
)
def test_raw_reasoning_is_one_thought_however_it_is_told(tmp_path: Path, records: list[Record]) -> None:
    write(tmp_path, A, [meta(A), event("user_message", message="Why?"), *records, tokens(1)])
    thinking = [one for one in of(imported(tmp_path)) if one["type"] == "agent.thinking"]
    assert len(thinking) == 1
    words = [block["text"] for block in thinking[0]["content"]]
    assert words in (["Deep."], ["Short.", "Deep."])


def test_two_thoughts_in_a_row_stay_two(tmp_path: Path) -> None:
    write(tmp_path, A, [meta(A), raw("One."), thought(), raw("Two."), thought(), thought(), raw("Three.")])
    thinking = [one for one in of(imported(tmp_path)) if one["type"] == "agent.thinking"]
    assert [one["content"][0]["text"] for one in thinking] == ["One.", "Two.", "Three."]


def test_a_summary_is_no_answer_though_its_usage_stands_before_the_compaction(tmp_path: Path) -> None:
    used = {"input_tokens": 5, "output_tokens": 1}
    write(
        tmp_path,
        A,
        [
            *answered_and_summed_up(),
            line("token_usage_record", response_id="r1", usage=used),
            event("token_count", info=None),
            event("item_completed", item={"type": "ContextCompaction", "id": "c"}),
            line("compacted", message="", replacement_history=[]),
            said("assistant", "On we go."),
            line("token_usage_record", response_id="r2", usage=used),
            event("task_complete", last_agent_message="On we go."),
        ],
    )
    events = of(imported(tmp_path))
    answers = [one for one in events if one["type"] == "agent.message"]
    assert [one["content"][0]["text"] for one in answers] == ["Yes.", "On we go."]
    (compacted,) = [one for one in events if one["type"] == "agent.thread_context_compacted"]
    assert compacted["summary"] == "All that was said."
    kinds = [one["type"] for one in events]
    assert kinds.index("span.model_request_end") < kinds.index("agent.thread_context_compacted")
    assert kinds.count("span.model_request_end") == 2
    last = events.index(answers[1])
    assert "span.model_request_end" in kinds[last:]  # what waited behind the answer kept its place


PIXEL = "data:image/png;base64,iVBORw0KGgo="


def pictures(found: Record) -> list[tuple[str, int]]:
    """The pictures of an event, which were moved to artifacts: media type and size."""
    shown = [block["source"]["artifact"] for block in found["content"] if block["type"] == "image"]
    return [(one["media_type"], one["size"]) for one in shown]


@pytest.mark.parametrize(
    "block",
    [
        {"type": "input_image", "image_url": PIXEL},
        {"type": "input_image", "image_url": {"url": PIXEL, "detail": "high"}},
        {"type": "image_url", "image_url": {"url": PIXEL}},
        {"type": "image", "url": PIXEL},
        {"type": "Image", "image_url": PIXEL},
        {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"},
        {"type": "output_image", "data": PIXEL},
    ],
)
def test_a_picture_is_one_however_it_is_written(tmp_path: Path, block: Record) -> None:
    prompt = item("message", role="user", content=[{"type": "input_text", "text": "See"}, block])
    output = item("function_call_output", call_id="c1", output=[block])
    call = item("function_call", name="shot", arguments="{}", call_id="c1")
    write(tmp_path, A, [meta(A), prompt, call, output])
    shown = {one["type"]: one for one in of(imported(tmp_path))}
    assert pictures(shown["user.message"]) == pictures(shown["agent.tool_result"]) == [("image/png", 8)]


@pytest.mark.parametrize("first", ["item", "event", "turn item"])
def test_the_picture_of_a_prompt_that_an_event_names_by_path_is_kept(tmp_path: Path, first: str) -> None:
    prompt = item(
        "message",
        role="user",
        content=[{"type": "input_text", "text": "See"}, {"type": "input_image", "image_url": PIXEL}],
    )
    told = event("user_message", message="See", images=[], local_images=["/srv/demo/a.png"])
    mode = {}
    if first == "turn item":
        mode = {"history_mode": "paginated"}
        said_twice = [{"type": "text", "text": "See"}, {"type": "local_image", "path": "/srv/demo/a.png"}]
        told = event("item_completed", item={"type": "UserMessage", "content": said_twice})
    records = [told, prompt] if first == "event" else [prompt, told]
    write(tmp_path, A, [meta(A, **mode), *records, said("assistant", "Yes.")])
    events = of(imported(tmp_path))
    assert (count(events)["user_messages"], count(events)["images"]) == (1, 1)


def test_a_picture_that_a_tool_has_opened_is_not_the_users(tmp_path: Path) -> None:
    image = item("message", role="user", content=[{"type": "input_image", "image_url": PIXEL}])
    write(
        tmp_path,
        A,
        [
            meta(A),
            event("user_message", message="Look"),
            said("user", "Look"),
            item("function_call", name="view_image", arguments="{}", call_id="c1"),
            item("function_call_output", call_id="c1", output="attached"),
            image,
            said("assistant", "A cat."),
        ],
    )
    events = of(imported(tmp_path))
    assert (count(events)["user_messages"], count(events)["images"]) == (1, 1)


def test_an_image_that_only_its_end_holds_is_the_result_of_its_call(tmp_path: Path) -> None:
    call = item("image_generation_call", id="ig1", status="generating")
    end = event("image_generation_end", call_id="ig1", status="completed", result="iVBORw0KGgo=")
    write(tmp_path, A, [meta(A), call, end, end])
    events = of(imported(tmp_path))
    (result,) = [one for one in events if one["type"] == "agent.tool_result"]
    assert pictures(result) == [("image/png", 8)]
    assert [one["type"] for one in events].count("import.record") == 1

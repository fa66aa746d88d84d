"""What of an event can be searched."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable_sessions.search.text import TEXT_CHARACTERS_MAX, Searchable, searchable
from durable_sessions.server_members import SERVER_MEMBERS

SERVERS = {
    "id": "sevt_secretid",
    "offset": "0000000000000000_0000000000000001",
    "created_at": "2026-11-15T12:00:00.123Z",
    "processed_at": "2026-11-15T12:00:00.123Z",
    "actor": "build-agent",
}


def read(**members: Any) -> Searchable:
    return searchable(msgspec.json.encode({**SERVERS, **members}))


def test_a_message() -> None:
    found = read(
        type="user.message", content=[{"type": "text", "text": "Make it"}, {"type": "text", "text": "green."}]
    )
    assert found == Searchable("Make it\ngreen.", "user.message", None, "user", False)


def test_content_may_be_a_string() -> None:
    assert read(type="agent.message", content="Done").text == "Done"


def test_a_tool_use_has_its_name_and_all_strings_and_numbers_of_its_input() -> None:
    found = read(
        type="agent.tool_use",
        name="Bash",
        session_thread_id="sthr_1",
        input={
            "command": "make test",
            "env": [{"id": "ticket-7", "port": 8080, "ratio": 0.5, "on": True, "no": None}],
        },
    )
    assert found == Searchable(
        "Bash\nmake test\nticket-7\n8080\n0.5", "agent.tool_use", "bash", "tool", call="sevt_secretid"
    )
    assert found.is_call


def test_a_tool_result_that_failed() -> None:
    content = [{"type": "text", "text": "exit 2"}]
    found = read(type="agent.tool_result", tool_use_id="toolu_1", content=content, is_error=True)
    assert found == Searchable("exit 2", "agent.tool_result", None, "tool", True, call="toolu_1")
    assert not found.is_call


def test_no_base64_but_the_text_of_documents() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aWNo"}}
    document = {
        "type": "document",
        "title": "Notes",
        "source": {"type": "text", "media_type": "text/plain", "data": "said"},
    }
    found = read(type="user.message", content=[image, document])
    assert found.text == "Notes\nsaid"
    assert read(type="agent.tool_use", name="show", input=image["source"]).text == "show\nbase64\nimage/png"


def test_thinking_has_no_signature() -> None:
    assert read(type="agent.thinking", thinking="hm", signature="abc").text == "hm"


def test_an_error_has_its_type_and_message() -> None:
    found = read(type="session.error", error={"type": "model_overloaded_error", "message": "busy"})
    assert found == Searchable("model_overloaded_error\nbusy", "session.error", None, "system", True)


@pytest.mark.parametrize(
    ("members", "is_error"),
    [
        ({"type": "mine.error"}, True),
        ({"type": "mine", "error": "boom"}, True),
        ({"type": "mine", "error": None}, False),
        ({"type": "mine", "is_error": "yes"}, False),
        ({"type": "span.model_request_end", "is_error": None}, False),
        ({"type": "workflow_run.status_ended", "result": {"type": "error", "error": {"message": "x"}}}, True),
        ({"type": "workflow_run.status_ended", "result": {"type": "completed"}}, False),
    ],
)
def test_errors(members: dict[str, Any], is_error: bool) -> None:
    assert read(**members).is_error is is_error


@pytest.mark.parametrize(
    ("kind", "role"),
    [
        ("user.message", "user"),
        ("user.define_outcome", "user"),
        ("user.tool_result", "tool"),
        ("user.custom_tool_result", "tool"),
        ("user.tool_confirmation", "user"),
        ("agent.message", "agent"),
        ("agent.thinking", "agent"),
        ("agent.tool_use", "tool"),
        ("agent.mcp_tool_use", "tool"),
        ("agent.mcp_tool_result", "tool"),
        ("agent.custom_tool_use", "tool"),
        ("system.message", "system"),
        ("session.status_idle", "system"),
        ("span.model_request_start", "system"),
        ("note", None),
    ],
)
def test_roles(kind: str, role: str | None) -> None:
    assert read(type=kind).role == role


def test_a_type_of_ones_own_may_say_its_role_and_is_text_throughout() -> None:
    found = read(type="chat", role="assistant", said={"deep": ["one", {"id": "two"}]}, exit_code=137)
    assert found == Searchable("assistant\none\ntwo\n137", "chat", None, "agent", False)


def test_what_the_server_sets_is_no_text() -> None:
    set_by_server = dict.fromkeys(SERVER_MEMBERS, "server")
    for kind in ("note", "ds.fact", "user.message", "agent.tool_use"):
        assert read(**{**set_by_server, "type": kind, "content": "said"}).text == "said"


def test_refs_are_ids_and_no_text() -> None:
    refs = [{"rel": "because", "id": "sevt_1", "session": "other"}]
    assert read(type="ds.fact", key="k", value="v", refs=refs).text == "k\nv"
    assert read(type="agent.message", content="said", refs=refs).text == "said"


def test_what_the_session_knows_of_itself_is_no_text() -> None:
    usage = {"input_tokens": 12, "speed": "standard"}
    assert read(type="span.model_request_end", model_request_start_id="sevt_1", model_usage=usage).text == ""
    assert (
        read(type="session.updated", title="Fix it", metadata={"team": "blue"}, agent={"name": "a"}).text
        == "Fix it\nblue"
    )


def test_lone_surrogates_do_not_stop_us() -> None:
    found = searchable(b'{"id":"x","type":"agent.message","content":"a \\ud800 b"}')
    assert found.text.split("\0") == ["a ", " b"]


def test_text_is_composed() -> None:
    assert read(type="agent.message", content="cafe\u0301").text == "café"


def test_there_is_an_end_to_text() -> None:
    long = "word " * TEXT_CHARACTERS_MAX
    assert len(read(type="agent.message", content=[long, long]).text) == TEXT_CHARACTERS_MAX
    assert len(read(type="mine", content=["ab"] * TEXT_CHARACTERS_MAX).text) <= TEXT_CHARACTERS_MAX


@pytest.mark.parametrize("event", [b"", b"[]", b"null", b'"x"', b"{", b"\xff", b'{"type":5,"name":7}', b"{}"])
def test_what_is_no_event_has_no_text(event: bytes) -> None:
    found = searchable(event)
    assert found.type == ""
    assert found.name is None


STRINGS = st.text(st.sampled_from('ab1 é错\ud800\u0301\n"\\'), max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.integers(-(2**70), 2**70) | STRINGS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(STRINGS | st.sampled_from(["type", "data", "input"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(
    st.dictionaries(
        st.sampled_from(["type", "name", "content", "input", "error", "result", "role", "is_error", "x"]),
        JSON,
    )
)
def test_any_object_will_do(members: dict[str, Any]) -> None:
    found = searchable(json.dumps(members).encode())
    assert isinstance(found.text, str)


def test_where_an_import_came_from_is_not_what_it_says() -> None:
    event = {
        "type": "user.message",
        "content": "hello",
        "source": {"tool": "claude-code", "file": "projects/x.jsonl"},
    }
    assert searchable(msgspec.json.encode(event)).text == "hello"
    assert "billing" in searchable(b'{"type":"app.log","source":"billing"}').text


@pytest.mark.parametrize(
    ("members", "happened"),
    [
        ({}, None),
        ({"original_created_at": "1970-01-01T00:00:01Z"}, 1_000),
        ({"original_processed_at": "1970-01-01T00:00:02Z"}, 2_000),
        ({"original_created_at": None, "original_processed_at": "1970-01-01T00:00:02Z"}, 2_000),
        ({"original_created_at": "once"}, None),
        ({"original_created_at": "1960-01-01T00:00:00Z"}, None),
    ],
)
def test_an_imported_event_counts_as_of_when_it_happened(
    members: dict[str, Any], happened: int | None
) -> None:
    event = {"created_at": "2026-01-01T00:00:00Z", "type": "note", **members}
    assert searchable(json.dumps(event).encode()).happened_ms == happened


IMPORTED = {"tool": "claude-code", "file": "x.jsonl", "record_id": "u1"}
RECORD = {"cwd": "/home/me/shop", "userType": "external", "version": "2.0.1", "gitBranch": "main"}


@pytest.mark.parametrize("name", ["source_detail", "source_record", "source_usage", "summary_record"])
def test_bookkeeping_of_an_import_is_not_searched(name: str) -> None:
    said = {"type": "agent.message", "content": "hello", "source": IMPORTED}
    assert read(**said, **{name: RECORD}).text == "hello"
    assert "external" in read(**{**said, "source": None}, **{name: RECORD}).text, "a member of one's own"


def test_of_a_record_that_became_no_event_the_record_is_searched() -> None:
    record = {**RECORD, "type": "attachment", "uuid": "u1", "attachment": {"text": "read me"}}
    found = read(type="import.record", source=IMPORTED, source_record=record, source_detail=RECORD)
    assert found.text == "read me"
    assert read(type="import.record", source=IMPORTED, source_text="{half").text == "{half"


@pytest.mark.parametrize(
    ("kind", "members", "expected"),
    [
        ("import.record", {}, True),
        ("span.model_request_end", {}, True),
        ("span.model_request_end", {"is_error": True}, False),
        ("session.status_idle", {}, True),
        ("session.updated", {"title": "x"}, True),
        ("session.error", {}, False),
        ("session.note", {}, False),
        ("agent.message", {}, False),
        ("system.message", {}, False),
        ("spanner", {}, False),
    ],
)
def test_spans_statuses_and_records_are_bookkeeping(
    kind: str, members: dict[str, Any], expected: bool
) -> None:
    assert read(type=kind, **members).is_bookkeeping is expected


@pytest.mark.parametrize(
    ("kind", "wanted", "text"),
    [
        ("claude.summary", False, ""),
        ("claude.summary", True, "hello"),
        ("claude.summary", None, "hello"),
        ("claude.summary", 0, "hello"),
        ("agent.message", False, ""),
        ("user.message", False, ""),
        ("agent.message", True, "hello"),
        ("ds.checkpoint", False, "hello"),
    ],
)
def test_a_free_event_can_keep_its_text_out_of_search(kind: str, wanted: Any, text: str) -> None:
    """Only a strict event, which an import may have given any member, is found whatever it says."""
    found = read(type=kind, content="hello", name="Fold", searchable=wanted)
    assert (found.text.split("\n")[0], found.type) == (text, kind)
    assert found.name == "fold"


def test_that_a_block_is_a_text_is_not_searched() -> None:
    assert read(type="note", content=[{"type": "text", "text": "hello"}]).text == "hello"
    assert read(type="note", content={"type": "text"}).text == "text", "no block, but a value of one's own"
    assert read(type="note", content={"type": "memo", "text": "hello"}).text == "memo\nhello"


def test_an_imported_event_without_a_time_happened_nobody_knows_when() -> None:
    assert read(type="user.message", source=IMPORTED).happened_ms == 0
    assert read(type="user.message", source={"tool": "claude-code", "hook": "Stop"}).happened_ms is None


@pytest.mark.parametrize(
    ("kind", "members", "call"),
    [
        ("agent.tool_use", {}, "sevt_secretid"),
        ("agent.tool_result", {"tool_use_id": "a"}, "a"),
        ("user.tool_result", {"tool_use_id": "a"}, "a"),
        ("agent.mcp_tool_result", {"mcp_tool_use_id": "b"}, "b"),
        ("user.custom_tool_result", {"custom_tool_use_id": "c"}, "c"),
        ("agent.tool_result", {"tool_use_id": 7}, None),
        ("agent.tool_result", {"tool_use_id": "x" * 257}, None),
        ("agent.message", {"tool_use_id": "a"}, None),
    ],
)
def test_calls_and_results_name_the_call(kind: str, members: dict[str, Any], call: str | None) -> None:
    assert read(type=kind, **members).call == call


ENVIRONMENT = (
    "<environment_context><cwd>/srv/demo</cwd>"
    "<filesystem><workspace_roots><root>/srv/demo</root></workspace_roots>"
    '<permission_profile type="denied"><file_system type="unrestricted" /></permission_profile>'
    "</filesystem></environment_context>"
)


def test_markup_of_a_tool_is_found_by_what_a_transcript_shows_of_it() -> None:
    found = read(type="system.message", content=[{"type": "text", "text": ENVIRONMENT}]).text
    assert "/srv/demo" in found
    assert "permission" not in found
    assert "denied" not in found


def test_each_text_of_a_result_is_read_for_markup_by_itself() -> None:
    result = "<path>/srv/demo/greet.py</path>\n<type>file</type>\n<content>\n1: hello\n</content>"
    found = read(type="agent.tool_result", name="read", content=[{"type": "text", "text": result}]).text
    assert "1: hello" in found
    assert "<" not in found


def test_what_an_agent_gave_to_a_tool_is_searched_as_it_is() -> None:
    assert ENVIRONMENT in read(type="agent.tool_use", name="Write", input={"content": ENVIRONMENT}).text


@pytest.mark.parametrize(
    "inside", ["[" * 100_000, '{"status":' * 100_000, '{"status":{"a":' + "[" * 900 + "]" * 900 + "}}"]
)
def test_markup_around_json_of_any_depth_is_searched(inside: str) -> None:
    text = f"<subagent_notification>{inside}</subagent_notification>"
    assert read(type="user.message", content=text).text

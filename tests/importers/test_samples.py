"""Every sample gives exactly the counts of its index, twice in a row, and while it is still being written."""

import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from durable_sessions.importers.engine import ImportEngine
from durable_sessions.importers.registry import TOOLS
from durable_sessions.importers.state import ImportState
from tests.importers.counting import count, differences
from tests.importers.memory_destination import MemoryDestination
from tests.importers.samples import SAMPLES, UNSEEN, entries, imported, run
from tests.support.samples import missing

Event = dict[str, Any]


def only(destination: MemoryDestination) -> list[Event]:
    (session,) = destination.sessions.values()
    return list(session.events.values())


# -- Claude Code ------------------------------------------------------------------------------------------


CLAUDE_CODE = [
    pytest.param(samples / "claude-code", *param.values, marks=param.marks, id=str(param.id))
    for samples in (SAMPLES, UNSEEN)
    for param in entries("claude-code", samples)
]


@pytest.mark.parametrize(("folder", "entry"), CLAUDE_CODE)
def test_claude_code(folder: Path, entry: Any) -> None:
    events = only(imported("claude-code", folder / entry["path"]))
    main = [event for event in events if "session_thread_id" not in event]
    below = [event for event in events if "session_thread_id" in event]
    if entry.get("role") == "subagent":
        assert not differences(count(below), entry["counts"])
    elif "parse_only" not in entry:
        assert not differences(count(main), entry["main"])
        assert not differences(count(below), entry["subagents"], ["count"])
        assert len({event["session_thread_id"] for event in below}) == entry["subagents"]["count"]


@pytest.mark.parametrize(("folder", "entry"), CLAUDE_CODE)
def test_claude_code_loses_no_words(folder: Path, entry: Any) -> None:
    path = folder / entry["path"]
    assert not lost_words(path, only(imported("claude-code", path)))


# -- Codex ------------------------------------------------------------------------------------------------

CODEX_UNCOUNTED = ("token_count_records", "item_completed", "usage", "usage_in_this_file")


@pytest.mark.parametrize("entry", entries("codex"))
def test_codex(entry: Any) -> None:
    """Each file by itself; one whose parent is elsewhere is a thread, or a session, all the same."""
    events = only(imported("codex", SAMPLES / "codex" / entry["path"]))
    if "parse_only" not in entry:
        check_codex(events, entry, "main")


def test_codex_families() -> None:
    """Subagents are threads of their session, and a fork shares what came before it."""
    folder = SAMPLES / "codex"
    if not folder.is_dir():
        pytest.skip(missing(folder))
    index = {param.values[0]["path"]: param.values[0] for param in entries("codex")}
    destination = imported("codex", folder)
    by_file: dict[str, dict[str, Event]] = {}
    for session in destination.sessions.values():
        for event in session.events.values():
            by_file.setdefault(event["source"]["file"], {})[event["id"]] = event
    assert by_file.keys() == index.keys()
    for name, events in by_file.items():
        if "parse_only" not in index[name]:
            check_codex(list(events.values()), index[name], "own" if "own" in index[name] else "main")
    fork = destination.sessions["codex:01a1e078-ff06-77b3-b707-845770d6770d"]
    assert fork.origin is not None
    assert count(fork.events.values())["usage"]["output_tokens"] == 160


def check_codex(events: list[Event], entry: Any, part: str) -> None:
    expected = dict(entry[part])
    found = count(events)
    kinds = Counter(event["type"].replace(".thread_status_", ".status_") for event in events)
    if entry["role"] == "subagent":
        found["user_messages"] = found.get("subagent_prompts", 0) - sum(
            "inter_agent" in one for one in events
        )
    found["inter_agent_messages"] = sum("inter_agent" in event for event in events)
    found["turns_started"] = kinds["session.status_running"]
    found["turns_completed"] = kinds["session.status_idle"] - kinds["user.interrupt"]
    injected = [event for event in events if event["type"] == "system.message" and "role" in event]
    found["developer_records"] = sum(event["role"] == "developer" for event in injected)
    found["injected_user_records"] = sum(event["role"] == "user" for event in injected)
    found["injected_user_records"] += found.get("notifications", 0)
    assert not differences(found, expected, CODEX_UNCOUNTED)
    if part == "main" and "copied_records" in entry:
        return  # what was copied from a parent that is not at hand cannot be told from its own
    used = expected.get("usage_in_this_file") or expected["usage"]
    if used is None:
        assert found["usage"] == {}
        return
    tokens = found["usage"]
    assert tokens["cache_read_input_tokens"] == used["cached_input_tokens"]
    assert tokens["output_tokens"] == used["output_tokens"]
    assert sum(tokens.values()) - tokens["output_tokens"] == used["input_tokens"]


# -- OpenCode ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("entry", entries("opencode"))
def test_opencode(entry: Any) -> None:
    destination = imported("opencode", SAMPLES / "opencode" / entry["path"])
    by_source: dict[str, list[Event]] = {}
    for name, session in destination.sessions.items():
        for event in session.events.values():
            by_source.setdefault(event.get("session_thread_id", name.partition(":")[2]), []).append(event)
    assert len(by_source) == entry["session_count"]
    for expected in entry["sessions"]:
        events = by_source[expected["id"]]
        assert not differences(count_opencode(events, expected["parent"] is not None), expected["counts"])
        assert opencode_usage(events) == expected["usage"]
        if expected["parent"] is None:
            assert destination.sessions[f"opencode:{expected['id']}"].title == expected["title"]
        reverted = [one["message_record_id"] for one in events if one["type"] == "session.reverted"]
        assert reverted == ([expected["reverted_at"]] if expected["reverted_at"] else [])


def count_opencode(events: list[Event], is_child: bool) -> dict[str, Any]:
    found = count(events)
    if is_child:
        found["user_messages"] = found.get("subagent_prompts", 0)
    found["patches"] = sum(event.get("kind") == "patch" for event in events)
    found["synthetic_texts"] = sum(event["type"] == "system.message" for event in events)
    found["summary_messages"] = found["summary_texts"] = found.get("compact_summaries", 0)
    found["tool_uses_unanswered"] = sum("unanswered" in event for event in events)
    return found


def opencode_usage(events: list[Event]) -> dict[str, int]:
    used: Counter[str] = Counter()
    for event in events:
        if event["type"] == "span.model_request_end":
            raw = event["source_usage"]
            used.update({name: raw[name] for name in ("input", "output", "reasoning")})
            used.update(cache_read=raw["cache"]["read"], cache_write=raw["cache"]["write"])
    return dict(used)


# -- the others -------------------------------------------------------------------------------------------

OTHERS = {
    "gemini": "gemini-cli",
    "pi": "pi",
    "openclaw": "openclaw",
    "swe-agent": "swe-agent",
    "inspect": "inspect-ai",
    "langgraph": "langgraph",
    "openai-agents": "openai-agents-sdk",
    "aider": "aider",
    "openhands": "openhands",
}
ELSEWHERE = ("records_gemini", "records_user", "role_assistant", "role_user", "samples", "runs", "usage")


@pytest.mark.parametrize(
    ("tool", "entry"),
    [
        pytest.param(tool, *param.values, marks=param.marks, id=f"{tool} {param.id}")
        for tool, folder in OTHERS.items()
        for param in entries(folder)
    ],
)
def test_others(tool: str, entry: Any) -> None:
    destination = imported(tool, SAMPLES / OTHERS[tool] / entry["path"])
    events = [event for session in destination.sessions.values() for event in session.events.values()]
    found, expected = count(events), entry.get("counts", {})
    assert not differences(found, expected, ELSEWHERE)
    if "runs" in expected or "samples" in expected or "threads" in entry:
        wanted = expected.get("runs") or expected.get("samples") or entry["threads"]
        assert len(destination.sessions) == wanted
    used = expected.get("usage") or entry.get("usage") or {}
    tokens = Counter(found["usage"])
    if tool == "gemini":
        assert tokens["input_tokens"] + tokens["cache_read_input_tokens"] == used["input_tokens"]
        assert tokens["output_tokens"] == used["output_tokens"] + used["thoughts"]
    elif used:
        assert tokens["input_tokens"] == used["input_tokens"]
        assert tokens["output_tokens"] == used["output_tokens"]


# -- the same talk ----------------------------------------------------------------------------------------

TALK = (
    "user.message",
    "agent.message",
    "agent.thinking",
    "agent.tool_use",
    "agent.tool_result",
    "user.interrupt",
)


def told(events: list[Event]) -> list[tuple[str, object]]:
    """What a talk says, without what each version of its writer words differently."""
    said = []
    for event in events:
        if event["type"] in TALK:
            failed = event.get("is_error") if event["type"] == "agent.tool_result" else None
            words = "".join(block.get("text", "") for block in event.get("content", []))
            marked = words.split("]] ")[-1].strip().strip('"')
            said.append((event["type"], failed if failed is not None else marked))
    return said


def test_same_talk_of_codex() -> None:
    paths = sorted((SAMPLES / "codex").glob("x06-same-talk-*/*.jsonl"))
    if not paths:
        pytest.skip(missing(SAMPLES / "codex"))
    talks = [told(only(imported("codex", path))) for path in paths]
    assert len(talks) == 3
    assert talks[0] == talks[1] == talks[2]
    outputs = [
        [event["content"] for event in only(imported("codex", path)) if event["type"] == "agent.tool_result"]
        for path in paths
    ]
    assert outputs[0] == outputs[1] == outputs[2]


def test_same_talk_of_opencode() -> None:
    folder = SAMPLES / "opencode"
    if not folder.is_dir():
        pytest.skip(missing(folder))
    firsts = []
    for place in (
        "o02-generated-sqlite-1.18.33/opencode.db",
        "o03-generated-tree-1.1.65",
        "o04-generated-tree-0.5.29",
    ):
        sessions = imported("opencode", folder / place).sessions.values()
        talks = [told(list(session.events.values())) for session in sessions]
        firsts.append(
            [talk for talk in talks if ("user.message", "Please fix the greeting in greet.py") in talk]
        )
    assert firsts[0]
    assert firsts[0] == firsts[1] == firsts[2]


# -- while it is being written ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "entry"),
    [
        pytest.param(tool, *param.values, marks=param.marks, id=f"{tool} {param.id}")
        for tool in ("claude-code", "codex")
        for param in entries(tool)
    ],
)
def test_growing(tool: str, entry: Any, tmp_path: Path) -> None:
    """Imported again and again while somebody writes it, a file gives the same events in the same order."""
    source = SAMPLES / tool / entry["path"]
    if source.with_suffix("").is_dir():
        shutil.copytree(source.with_suffix(""), tmp_path / source.stem, copy_function=shutil.copyfile)
        (tmp_path / source.stem).chmod(0o700)
    path = tmp_path / source.name
    data = source.read_bytes()
    destination, state = MemoryDestination(), ImportState(None, "memory")
    following = ImportEngine(destination, state)
    path.write_bytes(b"")
    transcripts = TOOLS[tool].discover([path])
    for end in cuts(len(data)):
        path.write_bytes(data[:end])
        transcripts = transcripts or TOOLS[tool].discover([path])
        following.run(transcripts, ending=False)
    ImportEngine(destination, state).run(TOOLS[tool].discover([path]))
    whole = MemoryDestination()
    run(tool, [path], whole)
    (grown,), (expected,) = destination.sessions.values(), whole.sessions.values()
    assert grown.events == expected.events
    assert [one for one in grown.events if one in of_file(expected.events, path.name)] == [
        one for one in expected.events if one in of_file(expected.events, path.name)
    ]


def of_file(events: dict[str, Event], name: str) -> set[str]:
    return {one for one, event in events.items() if event["source"]["file"] == name}


def cuts(size: int) -> Iterator[int]:
    """Places to stop at, most of them inside a line."""
    step = max(1, size // 40)
    yield from range(step, size, step + 7)
    yield size


# -- nothing is lost --------------------------------------------------------------------------------------


def lost_words(path: Path, events: list[Event]) -> set[str]:
    """The longer texts of a file that are in no event."""
    from durable_sessions.importers.documents import records

    found: set[str] = set()
    for event in events:
        gather(event, found)
    lost: set[str] = set()
    for record in records(path):
        wanted: set[str] = set()
        gather(record.value, wanted)
        lost |= {one for one in wanted if len(one) >= 12 and one not in found}
    return {one for one in lost if not any(one in other for other in found) and not is_lifted(one)}


def is_lifted(words: str) -> bool:
    return len(words) > 500 and " " not in words


def gather(value: object, into: set[str]) -> None:
    if isinstance(value, str):
        into.add(value)
    elif isinstance(value, dict):
        for one in value.values():
            gather(one, into)
    elif isinstance(value, list):
        for one in value:
            gather(one, into)

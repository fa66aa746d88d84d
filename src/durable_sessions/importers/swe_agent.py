"""SWE-agent: one trajectory in a ``.traj`` file; mini-SWE-agent: plain messages in a ``.traj.json`` file."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from durable_sessions.importers import chat
from durable_sessions.importers.conversation import Conversation, chat_content
from durable_sessions.importers.documents import files, load, transcript
from durable_sessions.importers.events import (
    Event,
    blocks,
    count,
    items,
    members,
    objects,
    text,
    text_block,
    usage,
    without,
)
from durable_sessions.importers.sources import SourceError, Transcript

TOOL = "swe-agent"
_OWN = ("trajectory", "history", "messages", "trajectory_format")
"""Members of which every trajectory has one."""


def discover(paths: Iterable[Path]) -> list[Transcript]:
    """Return the trajectories in files and folders."""
    return [
        transcript(TOOL, path.name.removesuffix(".json").removesuffix(".traj"), path, root, _produce(path))
        for path, root in files(paths, ".traj", ".traj.json")
    ]


def _produce(path: Path) -> Any:
    def produce(talk: Conversation) -> Iterator[Event]:
        document = members(load(path))
        if document.keys().isdisjoint(_OWN):
            raise SourceError(f"{path} holds no trajectory of SWE-agent.")
        if "trajectory" in document:
            yield from _trajectory(talk, document)
        else:
            yield from chat.conversation(talk, objects(document.get("messages")))
        yield from _info(talk, members(document.get("info")))
        rest = without(document, "trajectory", "history", "messages", "info")
        if rest:
            yield talk.keep("document", "other members", rest)

    return produce


def _trajectory(talk: Conversation, document: dict[str, Any]) -> Iterator[Event]:
    """Yield the agent's instructions, then its steps; the demonstration is not part of the run."""
    history = objects(document.get("history"))
    for number, message in enumerate(history):
        role = message.get("role")
        if message.get("is_demo"):
            talk.tally.skipped["demonstration"] += 1
        elif role == "system":
            yield talk.system(
                f"H{number}", chat_content(message.get("content")), source_detail=without(message, "content")
            )
        elif role == "user":
            yield talk.user(
                f"H{number}", chat_content(message.get("content")), source_detail=without(message, "content")
            )
        elif role == "assistant":
            break
    answers = [one for one in history if one.get("role") == "assistant" and not one.get("is_demo")]
    for number, step in enumerate(objects(document.get("trajectory"))):
        talk.tally.records += 1
        yield from _step(talk, step, number, answers[number] if number < len(answers) else {})


def _step(talk: Conversation, step: dict[str, Any], number: int, answer: dict[str, Any]) -> Iterator[Event]:
    record = f"S{number}"
    words = text(step.get("thought")) or text(step.get("response"))
    spoken = talk.agent(record, "thought", [text_block(words)] if words else [])
    detail = without(step, "action", "observation", "thought", "messages", "query")
    if spoken:
        spoken[0]["source_detail"] = detail
    yield from spoken
    calls = objects(answer.get("tool_calls"))
    call = calls[0] if calls else {}
    function = members(call.get("function"))
    yield talk.call(
        record,
        "action",
        record,
        text(function.get("name")) or "bash",
        function.get("arguments") if function else {"command": text(step.get("action"))},
        action=text(step.get("action")) or None,
        source_block=without(call, "function") or None,
        source_detail=None if spoken else detail,
    )
    yield talk.result(
        record,
        "observation",
        record,
        blocks(step.get("observation")),
        execution_seconds=step.get("execution_time"),
    )
    if extra := items(step.get("messages")):
        yield talk.keep(record, "messages of a step", extra)


def _info(talk: Conversation, info: dict[str, Any]) -> Iterator[Event]:
    """Yield the usage, which is known only for the whole run, and the outcome."""
    stats = members(info.get("model_stats"))
    requests = count(stats.get("api_calls"))
    if requests:
        used = usage(stats.get("tokens_sent"), stats.get("tokens_received"))
        yield from talk.request("run", used, stats, model_requests=requests)
    if info:
        talk.about.note(exit_status=info.get("exit_status"))
        yield talk.event(
            "session.status_idle", "run", "exit", stop_reason={"type": "end_turn"}, source_record=info
        )

"""Session files of our own making, of any length."""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def claude_code_talk(
    turns: int, session: str = "11111111-2222-4333-8444-555555555555"
) -> list[dict[str, Any]]:
    """A Claude Code session: each turn a prompt, an answer in three lines with a call, its result, an end."""
    return list(claude_code_records(turns, session))


def claude_code_records(turns: int, session: str, padding: str = "") -> Iterator[dict[str, Any]]:
    parent: str | None = None

    def record(kind: str, uuid: str, **more: Any) -> dict[str, Any]:
        nonlocal parent
        made = {
            "parentUuid": parent,
            "isSidechain": False,
            "type": kind,
            "uuid": uuid,
            "timestamp": f"2026-11-15T{(turn // 3600) % 24:02d}:{(turn // 60) % 60:02d}:{turn % 60:02d}.000Z",
            "sessionId": session,
            "cwd": "/srv/demo",
            "gitBranch": "main",
            "version": "2.1.325",
            **more,
        }
        parent = uuid
        return made

    def answer(
        name: str, request: str, tokens: int, *content: dict[str, Any], stop: str | None = None
    ) -> dict[str, Any]:
        message = {
            "id": request,
            "role": "assistant",
            "model": "claude-test-1",
            "content": list(content),
            "stop_reason": stop,
            "usage": {"input_tokens": 10, "output_tokens": tokens, "cache_read_input_tokens": 5},
        }
        return record("assistant", name, message=message)

    for turn in range(turns):
        yield record("user", f"p{turn}", message={"role": "user", "content": f"Question {turn}? {padding}"})
        yield answer(f"t{turn}", f"m{turn}", 1, {"type": "thinking", "thinking": "Hm.", "signature": "s"})
        yield answer(f"a{turn}", f"m{turn}", 7, {"type": "text", "text": f"I will look. {padding}"})
        call = {"type": "tool_use", "id": f"toolu_{turn}", "name": "Bash", "input": {"command": "ls"}}
        yield answer(f"c{turn}", f"m{turn}", 20, call, stop="tool_use")
        result = {"type": "tool_result", "tool_use_id": f"toolu_{turn}", "content": f"file-{turn} {padding}"}
        yield record("user", f"r{turn}", message={"role": "user", "content": [result]})
        yield answer(f"e{turn}", f"n{turn}", 9, {"type": "text", "text": f"Answer {turn}."}, stop="end_turn")


def age(folder: Path) -> None:
    """Let all files of a folder have been written an hour ago: nobody writes to them any more."""
    then = time.time() - 3_600
    for path in folder.rglob("*"):
        if path.is_file():
            os.utime(path, (then, then))


def lines(records: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)

"""Titles of sessions in lists and questions: a fork often has its source's, so that one is named."""

from durable_sessions.client import SessionInfo
from durable_sessions.rendering.text import one_line


def told_apart(info: SessionInfo, characters_max: int = 60) -> str:
    """Return the title of a session and, of a fork, which session it comes from."""
    title = one_line(info.title or "", characters_max)
    return " ".join(part for part in (title, fork_note(info)) if part)


def fork_note(info: SessionInfo) -> str:
    """Return which session a fork comes from, in brackets; nothing for one that is no fork."""
    if info.forked_from is None:
        return ""
    return f"(fork of {one_line(str(info.forked_from.get('session_id')), 60)})"

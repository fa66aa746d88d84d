"""Threads in the description."""

from durable_sessions.http.openapi.common import ALL_LIMIT, FROM_OFFSET, PAGE, SESSION_ID
from durable_sessions.http.openapi.errors import READING, WRITING
from durable_sessions.http.openapi.events import EVENT_DELTAS, FRAMES, EventRange, page_answer
from durable_sessions.http.openapi.parts import (
    Call,
    Noun,
    Operation,
    in_header,
    in_path,
    in_query,
    json_answer,
)
from durable_sessions.http.openapi.schemas import choice, many, page, ref, text
from durable_sessions.http.openapi.struct_schemas import StructSchemas
from durable_sessions.limits import Limits
from durable_sessions.managed_agents.thread_objects import ThreadObject
from durable_sessions.sessions.summary import STATUSES

_ROOT = "/v1/sessions/{session_id}/threads"
_THREAD_ID = in_path("thread_id", text(), "The thread.", "sthr_review")
_ONE = ("invalid_session", "session_not_found", "thread_not_found")
_SHOWN = json_answer("The thread.", ref("Thread"))


def noun(limits: Limits) -> Noun:
    """Return the description of threads."""
    return Noun(
        "Threads",
        "A thread is the part of a session that one of several agents works on. Events name it in "
        "`session_thread_id`; those that name none belong to the primary thread, which every session has. Up "
        f"to {limits.session_threads_max:,} threads of a session are listed.",
        (
            Operation(
                "get",
                _ROOT,
                "listThreads",
                "List the threads of a session",
                {200: json_answer("A page of threads, the primary one first.", page(ref("Thread")))},
                "",
                (
                    SESSION_ID,
                    ALL_LIMIT,
                    PAGE,
                    in_query(
                        "statuses[]", many(choice(*STATUSES)), "Only those with one of these.", ["idle"]
                    ),
                ),
                refusals=("invalid_session", "invalid_request", "session_not_found"),
            ),
            Operation(
                "get",
                _ROOT + "/{thread_id}",
                "getThread",
                "Read a thread",
                {200: _SHOWN},
                "",
                (SESSION_ID, _THREAD_ID),
                refusals=_ONE,
            ),
            Operation(
                "post",
                _ROOT + "/{thread_id}/archive",
                "archiveThread",
                "Archive a thread",
                {200: _SHOWN},
                "The primary thread is archived with its session only.",
                (SESSION_ID, _THREAD_ID),
                refusals=(*_ONE, "invalid_request", *WRITING),
                role="writer",
            ),
            Operation(
                "get",
                _ROOT + "/{thread_id}/events",
                "readThreadEvents",
                "Read the events of a thread",
                {200: page_answer("A page of the thread's events.")},
                "",
                (SESSION_ID, _THREAD_ID, *EventRange(limits).described()),
                refusals=(*_ONE, "invalid_request", "invalid_offset", "too_many_scans", *READING),
            ),
            Operation(
                "get",
                _ROOT + "/{thread_id}/stream",
                "streamThread",
                "Follow a thread",
                {200: FRAMES},
                "As `/events/stream`, for the events of one thread.",
                (
                    SESSION_ID,
                    _THREAD_ID,
                    FROM_OFFSET,
                    EVENT_DELTAS,
                    in_header("Last-Event-ID", text(), "Replay from behind this event."),
                ),
                refusals=(*_ONE, "invalid_request", "invalid_offset", "event_not_found", *READING),
                calls=(Call("From the start, then live", {"offset": "-1"}),),
            ),
        ),
        {"Thread": StructSchemas(limits).of(ThreadObject)},
    )

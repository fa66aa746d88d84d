"""Threads of a session: their operations and schemas."""

from dataclasses import replace

from durable_sessions.http.openapi.common import ALL_LIMIT, FROM_OFFSET, PAGE
from durable_sessions.http.openapi.error_groups import READING
from durable_sessions.http.openapi.events import EVENT_DELTAS, FRAMES, RANGE, page_answer
from durable_sessions.http.openapi.parts import Noun, Operation, in_query, json_answer
from durable_sessions.http.openapi.request_headers import ACCEPT, LAST_EVENT_ID
from durable_sessions.http.openapi.schemas import choice, many, page, ref
from durable_sessions.http.openapi.struct_schemas import schema_of
from durable_sessions.managed_agents.thread_objects import ThreadObject
from durable_sessions.sessions.summary import STATUSES

_SHOWN = {200: json_answer("The thread.", ref("Thread"))}

NOUN = Noun(
    "Threads",
    "A thread is the part of a session that one of several agents works on. Events name it in "
    "`session_thread_id`; those that name none belong to the primary thread, which every session has. Up to "
    "{session_threads_max:,} threads of a session are listed.",
    (
        Operation(
            "listThreads: GET /v1/sessions/{session_id}/threads",
            "List the threads of a session.",
            {200: json_answer("A page of threads, the primary one first.", page(ref("Thread")))},
            parameters=(
                ALL_LIMIT,
                PAGE,
                in_query("statuses[]", many(choice(*STATUSES)), "Only those with one of these.", ["idle"]),
            ),
        ),
        Operation("getThread: GET /v1/sessions/{session_id}/threads/{thread_id}", "Read a thread.", _SHOWN),
        Operation(
            "archiveThread: POST /v1/sessions/{session_id}/threads/{thread_id}/archive",
            "Archive a thread. The primary thread is archived with its session only.",
            _SHOWN,
        ),
        Operation(
            "readThreadEvents: GET /v1/sessions/{session_id}/threads/{thread_id}/events",
            "Read the events of a thread.",
            {200: page_answer("A page of the thread's events.")},
            parameters=(*RANGE, ACCEPT),
            errors=("too_many_scans", *READING),
        ),
        Operation(
            "streamThread: GET /v1/sessions/{session_id}/threads/{thread_id}/stream",
            "Follow a thread. As `/events/stream`, for the events of one thread.",
            {200: FRAMES},
            (FROM_OFFSET, EVENT_DELTAS, replace(LAST_EVENT_ID, text="Replay from behind this event.")),
            errors=READING,
        ),
    ),
    {"Thread": schema_of(ThreadObject)},
)

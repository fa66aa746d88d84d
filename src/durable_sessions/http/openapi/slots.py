"""Slots of a session: reading them, and their schemas."""

from durable_sessions.http.bodies.slots import SlotPageAnswer
from durable_sessions.http.openapi.answer_headers import STREAM_NEXT_OFFSET
from durable_sessions.http.openapi.error_groups import READING
from durable_sessions.http.openapi.parts import Noun, Operation, in_query, json_answer
from durable_sessions.http.openapi.schemas import choice, flag, many, ref, text, whole
from durable_sessions.http.openapi.struct_schemas import schema_of

LIMIT = in_query(
    "limit",
    whole(minimum=1, maximum=1_000),
    "Slots on a page, 1 to 1,000; if absent 100, or as many as are asked for by name.",
    10,
    default=100,
)
ORDER = in_query("order", choice("asc", "desc"), "By name, bytewise; `asc` if absent.", "desc", default="asc")
SLOT_NAME = text(minLength=1)
HOLDING = in_query(
    "holding",
    many(SLOT_NAME),
    "Only those in which an event holds this slot, also an inherited one. May be repeated, up to "
    "{slots_shown_max} times: all must be held.",
    ["record"],
)
SHOW = in_query(
    "show",
    many(SLOT_NAME),
    "Adds `slots` to each session: the event that holds this slot, null if none does. May be repeated, up to "
    "{slots_shown_max} times.",
    ["record"],
)

NOUN = Noun(
    "Slots",
    "A slot is a name under which a program finds its row again: the latest event that took it holds it, "
    "until another event of the session takes or empties it.",
    (
        Operation(
            "readSlots: GET /v1/sessions/{session_id}/slots",
            "Read slots of a session. Those asked for by name come first, in that order; then those with "
            "the prefix, by name. Without either, all. Slots that no event holds are left out. All of an "
            "answer is as of one moment, `next_offset`.",
            {200: json_answer("A page of slots.", ref("SlotPage"), STREAM_NEXT_OFFSET)},
            (
                in_query(
                    "slot",
                    many(SLOT_NAME),
                    "The slot with this name. May be repeated, up to {slots_asked_max} times.",
                    ["record"],
                ),
                in_query("prefix", text(), "The slots whose names begin so.", "rec"),
                ORDER,
                LIMIT,
                in_query("after", text(), "The `next_after` of the page before. Send the same `at` with it."),
                in_query(
                    "at",
                    text(),
                    "As of this position, that is after this many events, or of this offset; now if absent.",
                    "1",
                    "offset_beyond_tail",
                    "invalid_offset",
                ),
                in_query(
                    "values", flag(), "`false` tells where the events are instead of what they are.", "false"
                ),
            ),
            errors=READING,
        ),
    ),
    {"SlotPage": schema_of(SlotPageAnswer)},
)

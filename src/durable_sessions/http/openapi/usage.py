"""Usage of all sessions: its operation and schemas."""

from durable_sessions.http.bodies.usage import UsageAnswer
from durable_sessions.http.openapi.common import PAGE
from durable_sessions.http.openapi.parts import Noun, Operation, in_query, json_answer
from durable_sessions.http.openapi.schemas import ref, text, time_or_day
from durable_sessions.http.openapi.struct_schemas import schema_of

BY = in_query(
    "by",
    text(pattern=r"^(day|agent|model|metadata\[.+\])$"),
    "What to sum by: `day` (UTC; if absent), `agent`, `model`, or the value of a pair in the metadata, as "
    "`metadata[team]`.",
    "model",
    default="day",
)
AFTER = in_query(
    "after",
    time_or_day(),
    "Only what was used on the day of this time, UTC, and later.",
    "2026-01-01",
)

NOUN = Noun(
    "Usage",
    "What model requests used, over all sessions. It is summed when somebody asks, from what is kept with "
    "each session: per UTC day and model, {session_usage_rows_max} rows at most.",
    (
        Operation(
            "readUsage: GET /v1/usage",
            "Sum what sessions used. A page looks at {listed_sessions_max:,} sessions of each partition, the "
            "newest first, and has {usage_groups_max:,} groups, the rest under null: add the sums of all "
            "pages. Requests count where they were made, so forks do not count again what they inherit.",
            {200: json_answer("Sums, by day in its order, else the largest first.", ref("Usage"))},
            (BY, AFTER, PAGE),
            errors=("too_many_scans",),
            head=True,
        ),
    ),
    {"Usage": schema_of(UsageAnswer)},
)

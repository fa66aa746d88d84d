"""Dossiers: what a family of sessions has to show for itself."""

from durable_sessions.http.openapi.answer_headers import CONTENT_DISPOSITION
from durable_sessions.http.openapi.error_groups import READING, STORING
from durable_sessions.http.openapi.parts import JSON, Answer, Noun, Operation, in_query
from durable_sessions.http.openapi.schemas import choice, ref, text
from durable_sessions.http.openapi.struct_schemas import schema_of
from durable_sessions.http.openapi.work import AT
from durable_sessions.sessions.dossier.kinds import KINDS
from durable_sessions.sessions.dossier.shape import SessionDossier

MARKDOWN = "text/markdown"
ZIP = "application/zip"
FORMATS = ("json", "md", "zip")
KIND = in_query("kind", choice(*KINDS), "For whom: it decides on the sections.", "report", default=KINDS[0])
FORMAT = in_query("format", choice(*FORMATS), "How it is written.", "md", default=FORMATS[0])

NOUN = Noun(
    "Dossiers",
    "A dossier shows what was to be done, where and by whom it was done, with which tools, and who judged "
    "it. It is filled from events alone, of the session and of its whole family: the sessions that it was "
    "forked from, and their forks. Every item names the events that it rests on.",
    (
        Operation(
            "getDossier: GET /v1/sessions/{session_id}/dossier",
            "The dossier of a session. As a zip file it has the events and the artifacts, the graph, the "
            "sums of all files (`sha256sum -c SHA256SUMS`), and a statement about them (in-toto, "
            "test-result) that is signed with the key in `/v1/stream/__ds/jwks.json`. The same family as of "
            "the same `at` gives the same bytes. A family has at most {dossier_sessions_max:,} sessions and "
            "{dossier_events_max:,} events; a zip file at most {dossier_archive_bytes_max:,} bytes.",
            {
                200: Answer(
                    "The dossier.",
                    {
                        JSON: ref("SessionDossier"),
                        MARKDOWN: text(),
                        ZIP: text("The archive.", format="binary"),
                    },
                    (CONTENT_DISPOSITION,),
                )
            },
            (KIND, FORMAT, AT),
            errors=("dossier_too_large", "artifact_not_found", "view_unavailable", *READING, *STORING),
        ),
    ),
    {"SessionDossier": schema_of(SessionDossier)},
)

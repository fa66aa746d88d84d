"""Artifacts: their operations."""

from durable_sessions.http.bodies.artifacts import StoredArtifact
from durable_sessions.http.openapi.answer_headers import ACCEPT_RANGES, CONTENT_RANGE, ETAG
from durable_sessions.http.openapi.error_groups import STORING, WRITING_UNMETERED
from durable_sessions.http.openapi.parts import (
    OCTETS,
    TEXT,
    Answer,
    Body,
    Noun,
    Operation,
    json_answer,
    no_content,
)
from durable_sessions.http.openapi.request_headers import IF_NONE_MATCH, IF_RANGE, RANGE
from durable_sessions.http.openapi.schemas import text

_BYTES = text("The bytes, with the content type that they were stored with.", format="binary")

NOUN = Noun(
    "Artifacts",
    "Large payloads go into the bucket under the SHA-256 of their bytes, and an event refers to them by "
    "that name. The same bytes are stored once in a workspace. At most {artifact_bytes_max:,} bytes each. "
    "One that nothing names is removed within a day of when it was stored last, or of when what named it was "
    "erased.",
    (
        Operation(
            "putArtifact: PUT /v1/artifacts/{sha256}",
            "Store an artifact. The server computes the digest, too, and refuses bytes that do not have "
            "it. Safe to repeat.",
            {
                201: json_answer("Stored, durably.", StoredArtifact, ETAG),
                200: json_answer("It was there already.", StoredArtifact, ETAG),
            },
            body=Body(
                {OCTETS: _BYTES, TEXT: text()}, "Any content type; it is kept and answered.", required=False
            ),
            errors=(
                "invalid_header",
                "artifact_mismatch",
                "artifact_redacted",
                "artifact_too_large",
                "quota_exceeded",
                *STORING,
            ),
        ),
        Operation(
            "getArtifact: GET /v1/artifacts/{sha256}",
            "Read an artifact. Its bytes can never change, so that it may be cached for ever.",
            {
                200: Answer("The bytes.", {"*/*": _BYTES}, (ETAG, ACCEPT_RANGES)),
                206: Answer("A part of them.", {"*/*": _BYTES}, (ETAG, ACCEPT_RANGES, CONTENT_RANGE)),
                304: Answer("You have it already."),
            },
            (RANGE, IF_RANGE, IF_NONE_MATCH),
            errors=("artifact_not_found", "artifact_redacted", *STORING),
            head=True,
        ),
        Operation(
            "deleteArtifact: DELETE /v1/artifacts/{sha256}",
            "Delete an artifact. Events that refer to it stay as they are; to read it answers 404 "
            "`artifact_not_found`. It no longer counts for the quota, and the same bytes can be stored "
            "again. Safe to repeat.",
            no_content("It is gone, durably, or was not there."),
            errors=(*STORING, *WRITING_UNMETERED),
            role="admin",
        ),
    ),
    writing=(),
)

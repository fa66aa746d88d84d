"""Artifacts in the description."""

from hashlib import sha256

from durable_sessions.http.bodies.artifacts import StoredArtifact
from durable_sessions.http.openapi.errors import STORING
from durable_sessions.http.openapi.parts import (
    OCTETS,
    TEXT,
    Answer,
    Body,
    Call,
    Noun,
    Operation,
    in_header,
    in_path,
    json_answer,
)
from durable_sessions.http.openapi.schemas import text
from durable_sessions.http.openapi.struct_schemas import StructSchemas
from durable_sessions.limits import Limits

EXAMPLE = "Hello, artifact.\n"
_PATH = "/v1/artifacts/{sha256}"
_SHA256 = in_path(
    "sha256",
    text(pattern="^[0-9a-f]{64}$"),
    "The SHA-256 of the bytes: 64 lower-case hexadecimal digits.",
    sha256(EXAMPLE.encode()).hexdigest(),
)
_BYTES = text("The bytes, with the content type that they were stored with.", format="binary")
_HEADERS = ("ETag", "Accept-Ranges")


def noun(limits: Limits) -> Noun:
    """Return the description of artifacts."""
    stored = StructSchemas(limits).of(StoredArtifact)
    return Noun(
        "Artifacts",
        "Large payloads go into the bucket under the SHA-256 of their bytes, and an event refers to them by "
        f"that name. The same bytes are stored once in a workspace. At most {limits.artifact_bytes_max:,} "
        "bytes each.",
        (
            Operation(
                "put",
                _PATH,
                "putArtifact",
                "Store an artifact",
                {
                    201: json_answer("Stored, durably.", stored, "ETag"),
                    200: json_answer("It was there already.", stored, "ETag"),
                },
                "The server computes the digest, too, and refuses bytes that do not have it. Safe to repeat.",
                (_SHA256,),
                Body(
                    {OCTETS: _BYTES, TEXT: text()},
                    "Any content type; it is kept and answered.",
                    required=False,
                ),
                (
                    "invalid_request",
                    "invalid_header",
                    "artifact_mismatch",
                    "artifact_too_large",
                    "quota_exceeded",
                    *STORING,
                ),
                "writer",
                (Call("A text", body=EXAMPLE, media_type=TEXT),),
            ),
            Operation(
                "get",
                _PATH,
                "getArtifact",
                "Read an artifact",
                {
                    200: Answer("The bytes.", {"*/*": _BYTES}, _HEADERS),
                    206: Answer("A part of them.", {"*/*": _BYTES}, (*_HEADERS, "Content-Range")),
                    304: Answer("You have it already."),
                },
                "Its bytes can never change, so that it may be cached for ever.",
                (
                    _SHA256,
                    in_header("Range", text(), "`bytes=<first>-<last>`: one range."),
                    in_header("If-Range", text(), "The range counts only if this is the entity tag."),
                    in_header("If-None-Match", text(), "Entity tags that you have."),
                ),
                refusals=("invalid_request", "artifact_not_found", "range_not_satisfiable", *STORING),
                calls=(
                    Call("All of it"),
                    Call("The first five bytes", {}, {"Range": "bytes=0-4"}, status=206),
                ),
                head=True,
            ),
            Operation(
                "delete",
                _PATH,
                "deleteArtifact",
                "Delete an artifact",
                {204: Answer("It is gone, durably, or was not there.")},
                "Events that refer to it stay as they are; to read it answers 404 `artifact_not_found`. "
                "It no longer counts for the quota, and the same bytes can be stored again. Safe to repeat.",
                (_SHA256,),
                None,
                ("invalid_request", *STORING),
                "admin",
                (Call("Delete it", status=204),),
            ),
        ),
    )

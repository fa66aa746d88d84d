"""Files: their operations and schemas."""

from durable_sessions.http.bodies.files import FileDeleted, FileObject
from durable_sessions.http.openapi.answer_headers import ACCEPT_RANGES, CONTENT_RANGE, ETAG
from durable_sessions.http.openapi.common import PAGE, REGISTRY_LIMIT
from durable_sessions.http.openapi.error_groups import STORING
from durable_sessions.http.openapi.parts import Answer, Body, Noun, Operation, in_query, json_answer
from durable_sessions.http.openapi.request_headers import IF_NONE_MATCH, IF_RANGE, RANGE
from durable_sessions.http.openapi.schemas import page, ref, text
from durable_sessions.http.openapi.struct_schemas import schema_of

FORM = "multipart/form-data"
IDS = in_query("ids[]", {"type": "array", "items": text(), "maxItems": 100}, "Only these, on one page.")
SCOPE_ID = in_query("scope_id", text(), "Only files of this session; here uploads belong to none.")
_BYTES = text("The bytes, with the type that they were uploaded with.", format="binary")
_SHOWN = {200: json_answer("The file.", ref("File"))}
_FORM = {
    "type": "object",
    "properties": {"file": {"type": "string", "format": "binary"}},
    "required": ["file"],
}

NOUN = Noun(
    "Files",
    "Files as Managed Agents has them: names for artifacts, so that code that uploads files runs "
    "unchanged. The same bytes are stored once. At most {artifact_bytes_max:,} bytes each.",
    (
        Operation(
            "uploadFile: POST /v1/files",
            "Upload a file. Of its name the last part of the path is kept.",
            _SHOWN,
            body=Body({FORM: _FORM}, "A form with a part `file`, which has a filename."),
            errors=(
                "invalid_file",
                "document_too_large",
                "artifact_too_large",
                "artifact_redacted",
                "artifact_mismatch",
                *STORING,
            ),
            gives={"file_id": "$response.body#/id"},
        ),
        Operation(
            "listFiles: GET /v1/files",
            "List files.",
            {200: json_answer("A page of files, newest first.", page(ref("File")))},
            (IDS, SCOPE_ID, REGISTRY_LIMIT, PAGE),
            errors=("too_many_scans",),
        ),
        Operation("getFile: GET /v1/files/{file_id}", "Read what is known of a file.", _SHOWN),
        Operation(
            "downloadFile: GET /v1/files/{file_id}/content",
            "Download a file.",
            {
                200: Answer("The bytes.", {"*/*": _BYTES}, (ETAG, ACCEPT_RANGES)),
                206: Answer("A part of them.", {"*/*": _BYTES}, (ETAG, ACCEPT_RANGES, CONTENT_RANGE)),
                304: Answer("You have it already."),
            },
            (RANGE, IF_RANGE, IF_NONE_MATCH),
            errors=("artifact_not_found", "artifact_redacted", *STORING),
        ),
        Operation(
            "deleteFile: DELETE /v1/files/{file_id}",
            "Delete a file. Its bytes are removed when nothing names them any more.",
            {200: json_answer("Gone.", FileDeleted)},
        ),
    ),
    {"File": schema_of(FileObject)},
)

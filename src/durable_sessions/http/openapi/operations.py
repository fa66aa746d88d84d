"""The whole server: health, metrics, flush, the documentation."""

from dataclasses import replace

from durable_sessions.http.bodies.operations import Alive, FlushResult, Readiness, Reindexing, ServerStatus
from durable_sessions.http.openapi.common import PATH_PARAMETERS
from durable_sessions.http.openapi.error_groups import WRITING_UNMETERED
from durable_sessions.http.openapi.parts import JSON, TEXT, Answer, Noun, Operation, json_answer
from durable_sessions.http.openapi.request_headers import ACCEPT
from durable_sessions.http.openapi.schemas import free, text

_HTML = "text/html"
_PAGE = {200: Answer("A page that needs nothing from elsewhere.", {_HTML: text()})}

NOUN = Noun(
    "Operations",
    "For those who run the server. Health, this description and its page need no key.",
    (
        Operation(
            "index: GET /",
            "Where to go from here. To a browser, the web page.",
            {
                200: Answer(
                    "Links, as JSON; the web page if `text/html` is accepted.", {JSON: free(), _HTML: text()}
                )
            },
            parameters=(replace(ACCEPT, text="`text/html` answers with the web page."),),
            role=None,
            head=True,
        ),
        Operation(
            "openapi: GET /openapi.json",
            "This description.",
            {200: json_answer("OpenAPI 3.1.", free())},
            role=None,
            head=True,
        ),
        Operation("docs: GET /docs", "The documentation.", _PAGE, role=None, head=True),
        Operation("docsApi: GET /docs/api", "This description as a page.", _PAGE, role=None, head=True),
        Operation("docsPage: GET /docs/{page}", "A page of the documentation.", _PAGE, role=None, head=True),
        Operation(
            "docsPageInFolder: GET /docs/{folder}/{page}",
            "A page in a folder of the documentation.",
            _PAGE,
            parameters=(replace(PATH_PARAMETERS["page"], example="limits"),),
            role=None,
            head=True,
        ),
        Operation(
            "live: GET /livez",
            "Is the process alive?",
            {200: json_answer("It is.", Alive)},
            role=None,
            head=True,
        ),
        Operation(
            "ready: GET /readyz",
            "Does the server take work? With a key of the home workspace, or without any keys, the answer "
            "tells why.",
            {
                200: json_answer("It does. While the bucket is away it still does, and says so.", Readiness),
                503: json_answer("It is stopping, or the log has failed.", Readiness),
            },
            role=None,
            head=True,
        ),
        Operation(
            "metrics: GET /metrics",
            "Metrics for Prometheus. Needs a key of the home workspace.",
            {200: Answer("Metrics in Prometheus' text format.", {TEXT: text()})},
            errors=("permission_error",),
            head=True,
        ),
        Operation(
            "getStatus: GET /v1/admin/status",
            "How the server is: its processes and partitions, the log, the bucket, the search index, and how "
            "many keys there are. Partitions that do not answer are named. Needs an admin's key of the home "
            "workspace.",
            {200: json_answer("The status.", ServerStatus)},
            errors=("permission_error",),
            role="admin",
            head=True,
        ),
        Operation(
            "flush: POST /v1/admin/flush",
            "Flush to the bucket now. Needs an admin's key of the home workspace.",
            {200: json_answer("Everything acknowledged before the request is in the bucket.", FlushResult)},
            errors=("bucket_failed", "bucket_denied", "object_exists", "object_damaged", "manifest_lost"),
            role="admin",
        ),
        Operation(
            "reindex: POST /v1/admin/reindex",
            "Make the search index anew. The index is derived from the log: nothing is lost meanwhile, and "
            "searches say how far they reach. Needs an admin's key of the home workspace.",
            {202: json_answer("It has begun; `/readyz` says how far it is.", Reindexing)},
            role="admin",
        ),
    ),
    preflight=False,
    writing=WRITING_UNMETERED,
)

"""What concerns the server as a whole, in the description: health, metrics, a flush now, this description."""

from durable_sessions.http.openapi.errors import WRITING
from durable_sessions.http.openapi.parts import Answer, Call, Noun, Operation, in_path, json_answer
from durable_sessions.http.openapi.schemas import choice, constant, free, many, record, text, whole
from durable_sessions.limits import Limits

_WRITING = tuple(code for code in WRITING if code != "quota_exceeded")
_HTML = "text/html"
_SHOWN = Answer("A page that needs nothing from elsewhere.", {_HTML: text()})


def noun(_: Limits) -> Noun:
    """Return the description of operations."""
    return Noun(
        "Operations",
        "For those who run the server. Health, this description and its page need no key.",
        (*_pages(), *_health(), _flush(), _reindex()),
        preflight=False,
    )


def _health() -> tuple[Operation, ...]:
    search = record(
        {"state": choice("ready", "building", "paused", "failing")},
        {
            "events": whole("How many older events the index lacked."),
            "events_left": whole("How many of them it lacks still."),
            "reason": text("Why it fails or pauses; for callers of the home workspace."),
        },
    )
    ready = record(
        {"status": choice("ready", "degraded", "not ready"), "search": search},
        {
            "reason": text("Why it is not ready; for callers of the home workspace."),
            "reopening": record(
                {"reason": text("Why the log, which has failed, could not be opened again yet.")}
            ),
            "disk": record(
                {
                    "free_bytes": whole("How much space is left; it is little, and indexing is paused."),
                    "low_bytes": whole("Below which space left that is so."),
                }
            ),
            "tasks": many(
                record(
                    {"task": text("The name of a background task that failed.")},
                    {
                        "error": text("What it failed of; for callers of the home workspace."),
                        "since_ms": whole("Since when it fails."),
                        "failures": whole("How often it has failed since."),
                    },
                ),
                "What works again after a pause, or does not yet; then the status is degraded.",
            ),
            "listeners": many(
                record(
                    {"listener": text("What has missed a change, and is being made consistent again.")},
                    {"error": text("What it failed of; for callers of the home workspace.")},
                ),
                "Derived things that failed to take in a durable change; then the status is degraded.",
            ),
            "bucket": free(
                "Since when and why the bucket takes no flush; for callers of the home workspace."
            ),
        },
    )
    return (
        Operation(
            "get",
            "/livez",
            "live",
            "Is the process alive?",
            {200: json_answer("It is.", record({"status": constant("alive")}))},
            role=None,
            head=True,
        ),
        Operation(
            "get",
            "/readyz",
            "ready",
            "Does the server take work?",
            {
                200: json_answer("It does. While the bucket is away it still does, and says so.", ready),
                503: json_answer("It is stopping, or the log has failed.", ready),
            },
            "With a key of the home workspace, or without any keys, the answer tells why.",
            role=None,
            head=True,
        ),
        Operation(
            "get",
            "/metrics",
            "metrics",
            "Metrics for Prometheus",
            {200: Answer("Metrics in Prometheus' text format.", {"text/plain": text()})},
            "Needs a key of the home workspace.",
            refusals=("permission_error",),
            head=True,
        ),
    )


def _flush() -> Operation:
    return Operation(
        "post",
        "/v1/admin/flush",
        "flush",
        "Flush to the bucket now",
        {
            200: json_answer(
                "Everything acknowledged before the request is in the bucket.",
                record(
                    {"manifest": whole("The number of the newest manifest."), "flushed_through": whole()},
                ),
            )
        },
        "Needs an admin's key of the home workspace.",
        refusals=(
            "bucket_failed",
            "bucket_denied",
            "object_exists",
            "object_damaged",
            "manifest_lost",
            *_WRITING,
        ),
        role="admin",
    )


def _reindex() -> Operation:
    return Operation(
        "post",
        "/v1/admin/reindex",
        "reindex",
        "Make the search index anew",
        {
            202: json_answer(
                "It has begun; `/readyz` says how far it is.", record({"status": constant("building")})
            )
        },
        "The index is derived from the log: nothing is lost meanwhile, and searches say how far they reach. "
        "Needs an admin's key of the home workspace.",
        refusals=_WRITING,
        role="admin",
        calls=(Call("Begin", status=202),),
    )


def _pages() -> tuple[Operation, ...]:
    return (
        Operation(
            "get",
            "/",
            "index",
            "Where to go from here",
            {
                200: Answer(
                    "Links, as JSON; as a page if `text/html` is accepted.",
                    {"application/json": free(), _HTML: text()},
                )
            },
            role=None,
            calls=(Call("As JSON"), Call("As a page", {}, {"Accept": _HTML})),
            head=True,
        ),
        Operation(
            "get",
            "/openapi.json",
            "openapi",
            "This description",
            {200: json_answer("OpenAPI 3.1.", free())},
            role=None,
            head=True,
        ),
        Operation("get", "/docs", "docs", "The documentation", {200: _SHOWN}, role=None, head=True),
        Operation(
            "get", "/docs/api", "docsApi", "This description as a page", {200: _SHOWN}, role=None, head=True
        ),
        Operation(
            "get",
            "/docs/{page}",
            "docsPage",
            "A page of the documentation",
            {200: _SHOWN},
            parameters=(in_path("page", text(), "The name of a page.", "sessions"),),
            refusals=("route_not_found",),
            role=None,
            head=True,
        ),
        Operation(
            "get",
            "/docs/{folder}/{page}",
            "docsPageInFolder",
            "A page in a folder of the documentation",
            {200: _SHOWN},
            parameters=(
                in_path("folder", text(), "The folder.", "reference"),
                in_path("page", text(), "The name of a page.", "limits"),
            ),
            refusals=("route_not_found",),
            role=None,
            head=True,
        ),
    )

"""Operations on the whole server, in the description: health, metrics, flush, the description itself."""

from durable_sessions.http.bodies.operations import Alive, FlushResult, Readiness, Reindexing
from durable_sessions.http.openapi.errors import WRITING_UNMETERED
from durable_sessions.http.openapi.parts import Answer, Call, Noun, Operation, Parameter, in_path, json_answer
from durable_sessions.http.openapi.schemas import free, text
from durable_sessions.http.openapi.struct_schemas import StructSchemas
from durable_sessions.limits import Limits

_HTML = "text/html"


def noun(limits: Limits) -> Noun:
    """Return the description of operations."""
    schemas = StructSchemas(limits)
    return Noun(
        "Operations",
        "For those who run the server. Health, this description and its page need no key.",
        (*_pages(), *_health(schemas), _flush(schemas), _reindex(schemas)),
        preflight=False,
    )


def _health(schemas: StructSchemas) -> tuple[Operation, ...]:
    ready = schemas.of(Readiness)
    return (
        Operation(
            "get",
            "/livez",
            "live",
            "Is the process alive?",
            {200: json_answer("It is.", schemas.of(Alive))},
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


def _flush(schemas: StructSchemas) -> Operation:
    return Operation(
        "post",
        "/v1/admin/flush",
        "flush",
        "Flush to the bucket now",
        {
            200: json_answer(
                "Everything acknowledged before the request is in the bucket.",
                schemas.of(FlushResult),
            )
        },
        "Needs an admin's key of the home workspace.",
        refusals=(
            "bucket_failed",
            "bucket_denied",
            "object_exists",
            "object_damaged",
            "manifest_lost",
            *WRITING_UNMETERED,
        ),
        role="admin",
    )


def _reindex(schemas: StructSchemas) -> Operation:
    return Operation(
        "post",
        "/v1/admin/reindex",
        "reindex",
        "Make the search index anew",
        {202: json_answer("It has begun; `/readyz` says how far it is.", schemas.of(Reindexing))},
        "The index is derived from the log: nothing is lost meanwhile, and searches say how far they reach. "
        "Needs an admin's key of the home workspace.",
        refusals=WRITING_UNMETERED,
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
        _page("/docs", "docs", "The documentation"),
        _page("/docs/api", "docsApi", "This description as a page"),
        _page("/docs/{page}", "docsPage", "A page of the documentation", _named("sessions")),
        _page(
            "/docs/{folder}/{page}",
            "docsPageInFolder",
            "A page in a folder of the documentation",
            in_path("folder", text(), "The folder.", "reference"),
            _named("limits"),
        ),
    )


def _named(example: str) -> Parameter:
    return in_path("page", text(), "The name of a page.", example)


def _page(path: str, name: str, summary: str, *parameters: Parameter) -> Operation:
    refusals = ("route_not_found",) if parameters else ()
    shown = {200: Answer("A page that needs nothing from elsewhere.", {_HTML: text()})}
    return Operation(
        "get", path, name, summary, shown, "", parameters, refusals=refusals, role=None, head=True
    )

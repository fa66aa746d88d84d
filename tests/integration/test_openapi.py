"""The description is true: its examples work, and its routes are those of the application."""

import ast
import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Awaitable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

import httpx2
import pytest
from openapi_schema_validator import OAS31Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

from durable_sessions.http.carrier.message import Request, Response
from durable_sessions.http.error_codes import STATUS_BY_CODE
from durable_sessions.http.openapi import answer_headers, errors
from durable_sessions.http.openapi.common import ARTIFACT_EXAMPLE
from durable_sessions.http.openapi.document import NOUNS, document
from durable_sessions.http.openapi.parts import Call, Operation
from durable_sessions.http.openapi.samples import body_text
from durable_sessions.http.ui.addresses import is_address
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.log.disk import REAL_DISK
from durable_sessions.settings import Settings
from durable_sessions.testing.server import LocalServer
from tests.support.refusals import error_code
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.anyio

DOCUMENT = document(DEFAULT_LIMITS)
SECRET = "a-secret-of-the-tests"
OPERATIONS = [operation for noun in NOUNS for operation in noun.operations]
CALLS = [
    pytest.param(operation, call, id=f"{operation.id}-{at}")
    for operation in OPERATIONS
    for at, call in enumerate(operation.calls)
]
HTTP = Path(__file__).parents[2] / "src" / "durable_sessions" / "http"
METHODS = ("get", "put", "post", "delete", "head", "patch")


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module", params=[1, 3], ids=["one partition", "three partitions"])
async def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[LocalServer]:
    data = tmp_path_factory.mktemp("openapi") / "data"
    settings = Settings(port=0, data=data, long_poll_seconds=0.05, api_key=SECRET)
    limits = replace(DEFAULT_LIMITS, sse_seconds_max=0.2)
    running = LocalServer(settings, limits, None, REAL_DISK, request.param)
    await running.start()
    try:
        yield running
    finally:
        await running.stop()


@pytest.fixture
async def client(server: LocalServer) -> AsyncIterator[httpx2.AsyncClient]:
    key = {"Authorization": f"Bearer {SECRET}"}
    async with httpx2.AsyncClient(base_url=server.url, headers=key, timeout=PATIENCE_SECONDS) as client:
        yield client


async def prepare(client: httpx2.AsyncClient, operation: Operation, call: Call) -> dict[str, str]:
    """Make what an example is about, and return the ids that only the server can give."""
    for session in ("build-41", "build-42"):
        await client.delete(f"/v1/sessions/{session}")
        if operation.id == "putSession" and call.status == 201 and session == "build-42":
            continue
        events = [
            {"type": "user.message"},
            {"type": "agent.tool_use", "id": "call-1", "name": "bash", "session_thread_id": "sthr_review"},
        ]
        if operation.id == "appendEvents":
            events = events[:1]
        await client.put(f"/v1/sessions/{session}", json={"initial_events": events})
    await client.put("/v1/stream/wakes/summaries", headers={"Content-Type": "application/json"})
    await client.delete("/v1/stream/__ds/subscriptions/summaries")
    subscription = {"type": "pull-wake", "pattern": "agents/*", "wake_stream": "wakes/summaries"}
    await client.put("/v1/stream/__ds/subscriptions/summaries", json=subscription)
    await client.delete("/v1/stream/agents/build-42")
    if operation.id != "createStream":
        await client.put("/v1/stream/agents/build-42", json={"n": 0})
    await client.put(
        f"/v1/artifacts/{operation_example('sha256')}",
        content=ARTIFACT_EXAMPLE,
        headers={"Content-Type": "text/plain"},
    )
    found: dict[str, str] = {}
    if "{resource_id}" in operation.path:
        body = {"type": "file", "file_id": "f"}
        found["resource_id"] = (await client.post("/v1/sessions/build-42/resources", json=body)).json()["id"]
    if "{agent_id}" in operation.path:
        found["agent_id"] = (await client.post("/v1/agents", json={"name": "a", "model": "m"})).json()["id"]
    if "{environment_id}" in operation.path:
        ours = {"name": "e", "config": {"type": "self_hosted"}}
        found["environment_id"] = (await client.post("/v1/environments", json=ours)).json()["id"]
    if "{environment_id}/work" in operation.path:
        found |= await prepare_work(client, found["environment_id"], claimed="{work_id}" in operation.path)
    if "{file_id}" in operation.path:
        form = {"file": ("notes.txt", b"Hello.", "text/plain")}
        found["file_id"] = (await client.post("/v1/files", files=form)).json()["id"]
    if "{memory_store_id}" in operation.path:
        store = (await client.post("/v1/memory_stores", json={"name": "s"})).json()["id"]
        body = {"path": "/a", "content": "a"}
        memory = (await client.post(f"/v1/memory_stores/{store}/memories", json=body)).json()
        found |= {"memory_store_id": store, "memory_id": memory["id"]}
        found["memory_version_id"] = memory["memory_version_id"]
    if "{key_id}" in operation.path:
        body = {"principal": "p", "role": "reader"}
        found["key_id"] = (await client.post("/v1/keys", json=body)).json()["id"]
    if operation.id in ("getDiff", "adoptBranch"):
        forked = {"Stream-Forked-From": "/v1/sessions/build-42"}
        await client.delete("/v1/sessions/build-42-branch")
        await client.put("/v1/sessions/build-42-branch", headers=forked)
    if operation.id in ("renewLease", "releaseLease"):
        await client.post("/v1/sessions/build-42/wake", json={})
    if "Bearer <token>" in call.headers.values():
        claim = await client.post("/v1/stream/__ds/subscriptions/summaries/claim", json={"worker": "w"})
        found |= {"<token>": claim.json()["token"], "<wake_id>": claim.json()["wake_id"]}
    return found


async def prepare_work(client: httpx2.AsyncClient, environment: str, *, claimed: bool) -> dict[str, str]:
    """Route a session to an environment; return the key of its worker, and the work that it has claimed."""
    routed = {"type": "ds.routed", "to": environment, "reason": "its tools are there"}
    await client.post("/v1/sessions/build-42/events", json=routed)
    key = (await client.post("/v1/keys", json={"principal": environment, "role": "writer"})).json()["secret"]
    found = {"<worker's key>": str(key)}
    if claimed:
        as_worker = {"Authorization": f"Bearer {key}"}
        work = await client.get(f"/v1/environments/{environment}/work/poll", headers=as_worker)
        found["work_id"] = work.json()["id"]
    return found


def operation_example(name: str) -> str:
    return next(str(one.example) for op in OPERATIONS for one in op.parameters if one.name == name)


def filled_in(
    operation: Operation, call: Call, found: dict[str, str]
) -> tuple[str, dict[str, str], str | None]:
    """Return the path, the headers and the body of an example, with the ids that the server has given."""
    path = operation.path
    for parameter in operation.parameters:
        if parameter.place == "path":
            value = found.get(parameter.name, str(parameter.example))
            path = path.replace("{" + parameter.name + "}", quote(value, safe="/"))
    headers = {
        name: value.replace("<token>", found.get("<token>", "")) for name, value in call.headers.items()
    }
    if worker := found.get("<worker's key>"):
        headers["x-api-key"] = worker
    content = None
    if call.body is not None:
        headers.setdefault("Content-Type", call.media_type)
        content = body_text(call).replace("<wake_id>", found.get("<wake_id>", "")).replace("<key>", SECRET)
    return path, headers, content


def undescribed(operation: Operation, answer: httpx2.Response) -> set[str]:
    """Return the headers of an answer that are neither described for it nor a matter of HTTP."""
    described = DOCUMENT["paths"][operation.path][operation.method]["responses"][str(answer.status_code)]
    known = {name.lower() for name in resolved(described)["headers"]}
    return set(answer.headers) - known - {name.decode().lower() for name in answer_headers.OF_HTTP}


@pytest.mark.parametrize(("operation", "call"), CALLS)
async def test_examples_work(client: httpx2.AsyncClient, operation: Operation, call: Call) -> None:
    path, headers, content = filled_in(operation, call, await prepare(client, operation, call))
    async with client.stream(
        operation.method, path, params=dict(call.query), headers=headers, content=content
    ) as answer:
        assert undescribed(operation, answer) == set()
        if path.endswith("/stream") or call.query == {"live": "sse"}:  # goes on until something ends
            assert answer.status_code == call.status
            assert answer.headers["content-type"] == "text/event-stream"
            return
        await answer.aread()
    assert answer.status_code == call.status, answer.text
    described = DOCUMENT["paths"][operation.path][operation.method]["responses"][str(answer.status_code)]
    kinds = described["content"]
    if answer.content and "*/*" not in kinds:
        assert answer.headers["content-type"].partition(";")[0] in kinds
    assert "request-id" in answer.headers
    if answer.content and answer.headers["content-type"] == "application/json" and "*/*" not in kinds:
        schema = {"components": DOCUMENT["components"], **kinds["application/json"]["schema"]}
        OAS31Validator(schema).validate(answer.json())


class WatchedHeaders(dict[bytes, bytes]):
    """The headers of a request, which remember what was asked for by name."""

    def __init__(self, headers: dict[bytes, bytes]) -> None:
        super().__init__(headers)
        self.asked: set[bytes] = set()

    def __contains__(self, name: object) -> bool:
        self.asked.add(cast(bytes, name))
        return super().__contains__(name)

    def __getitem__(self, name: bytes) -> bytes:
        self.asked.add(name)
        return super().__getitem__(name)

    def get(self, name: bytes, default: Any = None) -> Any:
        self.asked.add(name)
        return super().get(name, default)


DESCRIBED_ELSEWHERE = {
    b"authorization",  # as security schemes
    b"x-api-key",
    b"content-type",  # as media types of bodies
    b"anthropic-version",  # in the introduction, because every operation of sessions can be asked with it
}
ONLY_REFUSED = {"putSession": {b"stream-fork-sub-offset"}}
"""Headers that are looked at to be refused, by operation."""
OF_BROWSERS_AND_PROXIES = {
    *(b"host", b"origin", b"sec-fetch-site", b"sec-fetch-mode", b"sec-fetch-dest", b"cookie"),
    b"x-forwarded-proto",
}


@pytest.mark.parametrize(("operation", "call"), CALLS)
async def test_every_header_that_a_handler_looks_at_is_described(
    server: LocalServer, client: httpx2.AsyncClient, operation: Operation, call: Call
) -> None:
    path, headers, content = filled_in(operation, call, await prepare(client, operation, call))
    given = {name.lower().encode(): value.encode() for name, value in headers.items()}
    watched = WatchedHeaders({b"host": b"localhost", b"x-api-key": SECRET.encode(), **given})
    query = str(httpx2.QueryParams(dict(call.query))).encode()
    body = b"" if content is None else content.encode()
    request = Request(operation.method.upper().encode(), path.encode(), query, watched, body)
    answer = server.node.handle(request)
    if isinstance(answer, Awaitable):
        answer = await answer
    assert answer.status == call.status
    if not isinstance(answer, Response):
        with contextlib.suppress(AttributeError):
            await answer.chunks.aclose()  # type: ignore[attr-defined]
    described = {parameter.key for parameter in operation.parameters if parameter.place == "header"}
    known = described | DESCRIBED_ELSEWHERE | OF_BROWSERS_AND_PROXIES | ONLY_REFUSED.get(operation.id, set())
    assert watched.asked - known == set()


EVENT = {"type": "app.note"}
PRODUCER = {"Producer-Id": "p", "Producer-Epoch": "1", "Producer-Seq": "0"}
STALE = {**PRODUCER, "Producer-Epoch": "0"}
GAP = {**PRODUCER, "Producer-Seq": "5"}
NO_KEY = {"Authorization": "Bearer none"}
REFUSED: list[tuple[str, str, dict[str, Any], str]] = [
    ("appendEvents", "/v1/sessions/open/events", {"json": EVENT, "headers": STALE}, "stale_epoch"),
    ("appendEvents", "/v1/sessions/open/events", {"json": EVENT, "headers": GAP}, "producer_gap"),
    ("appendEvents", "/v1/sessions/open/events", {"json": {}}, "invalid_event"),
    ("appendEvents", "/v1/sessions/closed/events", {"json": EVENT}, "stream_closed"),
    (
        "appendEvents",
        "/v1/sessions/open/events",
        {"json": EVENT, "headers": {"If-Match": '"0123456789ab"'}},
        "precondition_failed",
    ),
    ("readEvents", "/v1/sessions/open/events?incarnation=0123456789ab", {}, "session_replaced"),
    ("readEvents", "/v1/sessions/open/events?limit=0", {}, "invalid_request"),
    ("readEvents", "/v1/sessions/none/events", {}, "session_not_found"),
    ("readEvents", "/v1/sessions/open/events", {"headers": NO_KEY}, "authentication_error"),
    ("getThread", "/v1/sessions/open/threads/none", {}, "thread_not_found"),
    ("updateSession", "/v1/sessions/open", {"content": b"{"}, "invalid_json"),
    ("putSession", "/v1/sessions/open", {"json": {"title": "another"}}, "session_exists"),
    ("appendToStream", "/v1/stream/sessions/closed", {"json": EVENT}, "stream_closed"),
    ("appendToStream", "/v1/stream/sessions/open", {"json": EVENT, "headers": GAP}, "producer_gap"),
    ("readStream", "/v1/stream/none", {}, "stream_not_found"),
    ("getArtifact", "/v1/artifacts/" + "0" * 64, {}, "artifact_not_found"),
    ("getSubscription", "/v1/stream/__ds/subscriptions/none", {}, "subscription_not_found"),
    ("listKeys", "/v1/keys?limit=0", {}, "invalid_request"),
]


@pytest.mark.parametrize(("name", "path", "given", "code"), REFUSED)
async def test_a_refusal_has_the_described_code_and_headers(
    client: httpx2.AsyncClient, name: str, path: str, given: dict[str, Any], code: str
) -> None:
    operation = next(one for one in OPERATIONS if one.id == name)
    for session in ("open", "closed"):
        await client.delete(f"/v1/sessions/{session}")
        await client.put(f"/v1/sessions/{session}", json={"initial_events": [EVENT]})
    await client.post("/v1/sessions/open/events", json=EVENT, headers=PRODUCER)
    await client.post("/v1/sessions/closed/close")
    answer = await client.request(operation.method, path, **given)
    assert error_code(answer).lower() == code
    assert answer.status_code == STATUS_BY_CODE[code]
    assert code in errors.codes(operation)
    assert undescribed(operation, answer) == set()


def test_every_operation_has_an_example() -> None:
    without = {operation.id for operation in OPERATIONS if not operation.calls}
    assert without == {"callbackWake"}, (
        "that one needs a webhook; tests/integration/test_subscriptions.py has it"
    )


def test_the_document_is_valid() -> None:
    assert list(OpenAPIV31SpecValidator(DOCUMENT).iter_errors()) == []


def test_operations_have_names_of_their_own() -> None:
    names = [one["operationId"] for item in DOCUMENT["paths"].values() for one in item.values()]
    assert len(names) == len(set(names))


def test_every_code_that_a_client_can_meet_is_described() -> None:
    at_start = {
        "log_damaged",
        "log_locked",
        "log_version",
        "log_effect_unknown",
        "log_misconfigured",
        "log_regressed",
        "log_frame_damaged",
        "archive_behind",
        "archive_ahead",
        "archive_missing",
        "log_foreign",
        "log_diverged",
        "bucket_refused",
    }
    # What the log says of an append reaches clients as partition_stopped, partition_moved or outcome_unknown.
    of_the_log = {"log_failed", "log_fenced", "log_full"}
    # A server of one process passes no requests on, and its log is its own.
    of_links = {"partition_unavailable", "link_lost", "ownership_unproven"}
    of_commands = {"repartition_refused"}
    unmet = at_start | of_the_log | of_links | of_commands
    assert STATUS_BY_CODE.keys() - DOCUMENT["x-errors"].keys() <= unmet


# Routes ---------------------------------------------------------------------------------


def words() -> set[str]:
    """Return the words that routing compares paths with: found in the source, so that none is forgotten."""
    found: set[str] = set()
    for file in HTTP.rglob("*.py"):
        if "openapi" in file.parts:
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
                text = node.value if isinstance(node.value, str) else node.value.decode("latin-1")
                if len(text) < 60 and re.fullmatch(r"/?[a-z_][a-z0-9_./]*/?", text):
                    found.update(part for part in text.split("/") if part)
    return found


def concrete(template: str) -> str:
    known = {name: operation_example(name) for name in ("sha256", "folder")}
    known["page"] = "limits" if "{folder}" in template else "sessions"
    return re.sub(r"\{(\w+)\}", lambda one: known.get(one[1], "x"), template)


async def ask(server: LocalServer, method: str, path: str, *, key: bool = True) -> tuple[int, str]:
    headers = {b"x-api-key": SECRET.encode()} if key else {}
    answer = server.node.handle(Request(method.upper().encode(), path.encode(), b"", headers, b""))
    if isinstance(answer, Awaitable):
        answer = await answer
    if not isinstance(answer, Response):
        with contextlib.suppress(AttributeError):
            await answer.chunks.aclose()  # type: ignore[attr-defined]
        return answer.status, ""
    code = re.search(rb'"(?:error_)?code":"(\w+)"', answer.body)
    return answer.status, "" if code is None else code[1].decode().lower()


async def test_what_is_described_is_served_and_no_other_method(server: LocalServer) -> None:
    for template, item in DOCUMENT["paths"].items():
        for method in METHODS:
            _, code = await ask(server, method, concrete(template))
            if method in item:
                assert code not in ("route_not_found", "method_not_allowed"), (method, template)
            else:
                assert code in ("method_not_allowed", "route_not_found"), (method, template)
        status, _ = await ask(server, "options", concrete(template), key=False)
        assert ("options" in item) == (status == 204), template


async def test_what_is_served_is_described(server: LocalServer) -> None:
    """Try every word of the source behind every beginning of a path that is described."""
    vocabulary = words()
    anything = ("{path}", "{sha256}", "{key_id}")  # what follows is all one name
    described = [path for path in DOCUMENT["paths"] if not path.endswith(anything)]
    begins = {"/".join(path.split("/")[:end]) for path in described for end in range(1, path.count("/") + 2)}
    served = [re.compile(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(path))) for path in DOCUMENT["paths"]]
    for begin in sorted(begins - {"/v1/stream"}):
        await asyncio.sleep(0)
        for word in vocabulary:
            path = concrete(f"{begin}/{word}")
            if any(one.fullmatch(path) for one in served) or is_address(path.encode()):
                continue
            for method in METHODS[:4]:
                status, code = await ask(server, method, path)
                assert code in ("route_not_found", "method_not_allowed"), (method, path, status)


async def test_pages_need_no_key_and_nothing_from_elsewhere(server: LocalServer) -> None:
    async with httpx2.AsyncClient(base_url=server.url) as anybody:
        assert (await anybody.get("/openapi.json")).json()["openapi"] == "3.1.0"
        page = await anybody.get("/docs/api")
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert not re.findall(r"""(?:src|href)=["']?(?:https?:)?//""", page.text)
        assert re.findall(r'href="#([\w-]+)"', page.text)
        for target in set(re.findall(r'href="#([\w-]+)"', page.text)):
            assert f'id="{target}"' in page.text
        assert (await anybody.get("/")).json()["docs"] == "/docs"
        assert (await anybody.get("/")).json()["api"] == "/docs/api"
        assert 'href="/docs"' in (await anybody.get("/", headers={"Accept": "text/html"})).text
        assert (await anybody.post("/docs")).status_code == 405


def resolved(part: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in part:
        _, _, group, name = part["$ref"].split("/")
        part = DOCUMENT["components"][group][name]
    return part


def test_refusals_have_the_status_of_their_code() -> None:
    for item in DOCUMENT["paths"].values():
        for one in item.values():
            for status, answer in one["responses"].items():
                if int(status) >= 400 and resolved(answer)["description"].startswith("`"):
                    for code in re.findall(r"`(\w+)`", resolved(answer)["description"]):
                        assert STATUS_BY_CODE[code] == int(status)

"""Nobody is let in through a browser or a proxy: the rules on the wire, on every route and both carriers."""

import asyncio
from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path

import httpx2
import pytest

from durable_sessions.http.api import cors
from durable_sessions.http.api.answer_format import ANSWER_FORMAT
from durable_sessions.http.carrier.asgi import AsgiApp, asgi_app
from durable_sessions.http.openapi.document import document
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.testing.server import LocalServer, local_server
from tests.support.keys import BOOTSTRAP, bearer, code_of

pytestmark = pytest.mark.anyio

POLICY = "default-src 'none'; sandbox"
EVIL = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"}
FRIEND = {"Origin": "https://chat.example", "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"}
ARTIFACT = b"<script>document.title = 'owned'</script>"
DIGEST = sha256(ARTIFACT).hexdigest()


def concrete(path: str) -> str:
    for name, value in {"sha256": DIGEST, "path": "page"}.items():
        path = path.replace("{" + name + "}", value)
    return path.replace("{", "").replace("}", "")


ROUTES = [
    (method, concrete(path))
    for path, item in document(DEFAULT_LIMITS, "")["paths"].items()
    for method in item
    if method in ("get", "head", "put", "post", "delete", "options")
]
UNSHARED = ("/metrics", "/v1/keys", "/v1/audit", "/v1/admin/", "/livez", "/readyz", "/v1/login")


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[LocalServer]:
    friendly = local_server(
        tmp_path / "data", allowed_hosts=("sessions.test",), allowed_origins=("https://chat.example",)
    )
    async with friendly as running:
        yield running


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[LocalServer]:
    async with local_server(tmp_path / "keyed", api_key=BOOTSTRAP) as running:
        yield running


def ask(server: LocalServer, **headers: str) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url=server.url, headers=headers, timeout=30)


async def refused(client: httpx2.AsyncClient, method: str, path: str, code: str, **headers: str) -> None:
    async with client.stream(method, path, headers=headers) as answer:
        body = await answer.aread()
    assert answer.status_code == 403, (method, path, headers, body)
    assert not [name for name in answer.headers if name.startswith("access-control-")], (method, path)
    assert answer.headers["content-security-policy"] == POLICY
    assert answer.headers["cache-control"] == "no-store"
    if method != "head":
        assert code_of(answer) == code, (method, path, headers)


# Every route ------------------------------------------------------------------------------


async def test_every_answer_below_v1_is_sandboxed(server: LocalServer, guarded: LocalServer) -> None:
    html = {"Content-Type": "text/html"}
    async with ask(server) as client, ask(guarded) as nobody, ask(guarded, **bearer(BOOTSTRAP)) as admin:
        for method, path in ROUTES:
            await client.put("/v1/stream/page", headers=html, content=ARTIFACT)
            await client.put("/v1/artifacts/" + DIGEST, headers=html, content=ARTIFACT)
            for one in (client, nobody, admin):
                async with one.stream(method, path) as answer:
                    policies = answer.headers.get_list("content-security-policy")
                assert policies == [POLICY] or not path.startswith(("/v1/", "/metrics")), (method, path)
                assert answer.headers["x-content-type-options"] == "nosniff"
                assert answer.headers["cross-origin-resource-policy"] == "same-origin"
                assert "access-control-allow-origin" not in answer.headers, "nobody asked for it"


async def test_no_route_lets_a_page_of_another_origin_in(server: LocalServer, guarded: LocalServer) -> None:
    async with ask(server) as client, ask(guarded) as nobody:
        for method, path in ROUTES:
            for one in (client, nobody):
                await refused(one, method, path, "origin_not_allowed", **EVIL)
                await refused(one, method, path, "origin_not_allowed", Origin="null")
                await refused(one, method, path, "origin_not_allowed", **{"Sec-Fetch-Site": "same-site"})
            await refused(client, method, path, "host_not_allowed", Host="evil.example")
            await refused(client, method, path, "host_not_allowed", Host="127.0.0.1.evil.example:4437")
            if path != "/livez":
                await refused(client, method, path, "keys_required", **{"X-Forwarded-For": "192.0.2.1"})
        assert (await client.get("/v1/sessions")).json()["data"] == [], "and nothing was made"


async def test_what_is_let_in_is_shared_on_some_paths_only(guarded: LocalServer) -> None:
    async with ask(guarded) as client:
        for method, path in ROUTES:
            shared = cors.is_shared(path.encode())
            assert not (shared and path.startswith(UNSHARED))
            expected = "*" if shared else None
            asking = EVIL | {"Access-Control-Request-Method": method.upper()}
            preflight = await client.options(path, headers=asking)
            assert preflight.status_code == (204 if shared else 403), path
            assert preflight.headers.get("access-control-allow-origin") == expected
            async with client.stream(method, path, headers=EVIL | {"x-api-key": BOOTSTRAP}) as answer:
                assert answer.headers.get("access-control-allow-origin") == expected, path
            assert answer.status_code not in (401, 403), (method, path)


async def test_without_keys_a_preflight_of_a_stranger_allows_nothing(server: LocalServer) -> None:
    asking = EVIL | {"Access-Control-Request-Method": "DELETE"}
    async with ask(server) as client:
        for _, path in ROUTES:
            answer = await client.options(path, headers=asking)
            # The protocol wants OPTIONS on a stream to be answered; without Allow-Origin that is a refusal.
            assert answer.status_code == (204 if path.startswith("/v1/stream/") else 403), path
            assert "access-control-allow-origin" not in answer.headers


# What a page could do before ----------------------------------------------------------------


async def test_a_foreign_page_reads_writes_and_deletes_nothing(server: LocalServer) -> None:
    async with ask(server) as client:
        await client.put("/v1/sessions/mine")
        await client.post("/v1/sessions/mine/events", json=[{"type": "note", "n": 1}])
        for headers in (
            EVIL,
            {"Origin": "http://127.0.0.1:1", "Sec-Fetch-Site": "same-site"},
            {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"},
        ):
            text = headers | {"Content-Type": "text/plain"}
            for method, path in (
                ("GET", "/v1/sessions/mine/events"),
                ("GET", "/v1/sessions/mine/events/stream"),
                ("POST", "/v1/sessions/mine/events"),
                ("DELETE", "/v1/sessions/mine"),
                ("PUT", "/v1/stream/page"),
                ("POST", "/v1/keys"),
                ("POST", "/v1/admin/flush"),
            ):
                await refused(client, method, path, "origin_not_allowed", **text)
        stored = (await client.get("/v1/sessions/mine/events")).json()["data"]
        assert [event["n"] for event in stored] == [1]


async def test_an_allowed_origin_works_and_is_told_what_it_may(server: LocalServer) -> None:
    async with ask(server) as client:
        preflight = await client.options(
            "/v1/sessions/s", headers=FRIEND | {"Access-Control-Request-Method": "PUT"}
        )
        assert preflight.status_code == 204
        allowed = preflight.headers["access-control-allow-headers"].split(", ")
        assert {"session-epoch", "idempotency-key", "x-api-key"} <= set(allowed)
        assert "x-ds-page" not in allowed
        made = await client.put("/v1/sessions/s", headers=FRIEND)
        assert (made.status_code, made.headers["access-control-allow-origin"]) == (201, "*")
        assert "stream-next-offset" in made.headers["access-control-expose-headers"]
        assert "Origin" in made.headers["vary"], "an answer for one origin is not cached for another"
        missing = await client.get("/v1/sessions/none", headers=FRIEND)
        assert (missing.status_code, missing.headers["access-control-allow-origin"]) == (404, "*")
        for path in ("/metrics", "/v1/keys", "/v1/audit"):
            answer = await client.get(path, headers=FRIEND)
            assert "access-control-allow-origin" not in answer.headers, path
        key = await client.post("/v1/keys", json={"principal": "p", "role": "admin"}, headers=FRIEND)
        assert (key.status_code, code_of(key)) == (403, "first_key_refused")


async def test_with_keys_a_page_of_any_origin_works_with_one(guarded: LocalServer) -> None:
    async with ask(guarded) as client:
        answer = await client.put("/v1/stream/s", headers=EVIL | bearer(BOOTSTRAP))
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (201, "*")
        wrong = await client.put("/v1/stream/s", headers=EVIL | bearer("wrong"))
        assert (wrong.status_code, wrong.headers["access-control-allow-origin"]) == (401, "*")
        await refused(client, "GET", "/v1/stream/s", "origin_not_allowed", **EVIL)
        rebound = await client.get("/v1/stream/s", headers={"Host": "evil.example"})
        assert rebound.status_code == 401


async def test_other_names_are_served_if_they_are_allowed(server: LocalServer) -> None:
    async with ask(server) as client:
        for host in ("sessions.test", "sessions.test:80", "localhost", "[::1]:1", "LOCALHOST:4437"):
            assert (await client.get("/v1/sessions", headers={"Host": host})).status_code == 200, host
        ours = {"Host": "sessions.test", "Origin": "http://sessions.test", "Sec-Fetch-Site": "same-origin"}
        assert (await client.put("/v1/stream/s", headers=ours)).status_code == 201


async def test_pages_of_ours_can_be_linked_to_and_are_no_sandbox(server: LocalServer) -> None:
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Accept": "text/html"}
    async with ask(server) as client:
        for path in ("/", "/docs", "/docs/api", "/openapi.json"):
            answer = await client.get(path, headers=link)
            assert answer.status_code == 200, path
            assert "sandbox" not in answer.headers.get("content-security-policy", ""), path
            await refused(client, "GET", path, "origin_not_allowed", **EVIL)


async def test_streamed_answers_and_errors_of_the_carrier_are_sandboxed(server: LocalServer) -> None:
    async with ask(server) as client:
        await client.put("/v1/stream/s", headers={"Content-Type": "text/html"}, content=ARTIFACT)
        for live in ("sse", "long-poll"):
            async with client.stream("GET", f"/v1/stream/s?offset=-1&live={live}") as answer:
                assert answer.headers["content-security-policy"] == POLICY
        cached = await client.get("/v1/stream/s")
        again = await client.get("/v1/stream/s", headers={"If-None-Match": cached.headers["etag"]})
        assert (again.status_code, again.headers["content-security-policy"]) == (304, POLICY)
    port = int(server.url.rpartition(":")[2])
    for head in (
        b"GET /v1/stream/s HTTP/1.1\r\n\r\n",
        b"GET /v1/stream/s HTTP/9.9\r\nHost: localhost\r\n\r\n",
        b"PUT /v1/stream/s HTTP/1.1\r\nHost: localhost\r\nOrigin: https://evil.example\r\n"
        b"Content-Length: 99999999999\r\n\r\n",
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head)
        reply = (await reader.read()).lower()
        writer.close()
        assert b"\r\ncontent-security-policy: default-src 'none'; sandbox\r\n" in reply
        assert b"access-control-" not in reply


async def test_a_pipelined_refusal_does_not_inherit_the_audience_before_it(server: LocalServer) -> None:
    port = int(server.url.rpartition(":")[2])
    one = b"GET /v1/stream/s HTTP/1.1\r\nHost: localhost\r\nOrigin: %b\r\n\r\n"
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(one % b"https://chat.example" + one % b"https://evil.example" + b"GET / HTTP/1.1\r\n\r\n")
    replies = (await reader.read()).split(b"HTTP/1.1 4")[1:]
    writer.close()
    assert [reply[:2] for reply in replies] == [b"04", b"03", b"00"]
    assert [b"Access-Control-Allow-Origin" in reply for reply in replies] == [True, False, False]


# The other carrier --------------------------------------------------------------------------


async def asgi_call(app: AsgiApp, headers: dict[str, str]) -> tuple[int, dict[str, str]]:
    sent: list[dict[str, object]] = []
    scope = {
        "type": "http",
        "method": "GET",
        "path": "/v1/stream/page",
        "raw_path": b"/v1/stream/page",
        "query_string": b"",
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
    }

    body = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> dict[str, object]:
        if not body:
            await asyncio.Event().wait()  # the peer stays
        return dict(body.pop())

    async def send(message: object) -> None:
        assert isinstance(message, dict)
        sent.append(message)

    await app(scope, receive, send)
    status, found = sent[0]["status"], sent[0]["headers"]
    assert isinstance(status, int)
    assert isinstance(found, list)
    return status, {name.decode(): value.decode() for name, value in found}


async def test_under_another_server_the_rules_are_the_same(server: LocalServer) -> None:
    app = asgi_app(server.node.app, body_limit=server.node.app.body_limit, answer_format=ANSWER_FORMAT)
    here = {"Host": "localhost:8000"}
    for headers, status, shared in (
        (here, 404, False),
        (here | FRIEND, 404, True),
        (here | EVIL, 403, False),
        ({"Host": "evil.example"}, 403, False),
        (here | {"X-Forwarded-For": "192.0.2.1"}, 403, False),
    ):
        answered, found = await asgi_call(app, headers)
        assert answered == status, headers
        assert found["content-security-policy"] == POLICY
        assert ("access-control-allow-origin" in found) is shared

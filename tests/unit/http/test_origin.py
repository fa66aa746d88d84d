"""Which requests are let in: the rules as tables."""

import pytest

from durable_sessions.errors import (
    DurableSessionsError,
    HostNotAllowedError,
    KeysRequiredError,
    OriginNotAllowedError,
)
from durable_sessions.http.api import cors
from durable_sessions.http.api.origin import OriginRules, origin_of
from durable_sessions.http.carrier.message import OWN, PAGE, SHARED, Request

HERE = {"Host": "127.0.0.1:4437"}
OURS = "http://127.0.0.1:4437"
FRIEND = "https://chat.example"
STRANGER = "https://evil.example"
KEY = {"x-api-key": "dsk_1"}
NAVIGATION = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
PROOF = {"Proof": "1"}
READ, APPEND, REMOVE = (
    ("GET", "/v1/stream/s"),
    ("POST", "/v1/sessions/s/events"),
    ("DELETE", "/v1/sessions/s"),
)
CLOSED = [
    "/metrics",
    "/livez",
    "/readyz",
    "/v1/keys",
    "/v1/keys/key_1",
    "/v1/audit",
    "/v1/admin/flush",
    "/v1/login",
    "/v1/agents",
    "/v1/environments",
    "/v1/ingest/claude-code",
    "/v1/sessionsx",
    "/v1/streams",
    "/v1",
    "/v1/",
    "/",
    "*",
]
SHARED_PATHS = [
    "/v1/sessions",
    "/v1/sessions/s/events",
    "/v1/stream/s",
    "/v1/stream/__ds/subscriptions/s",
    "/v1/search",
    "/v1/artifacts/x",
    "/v1/memory",
    "/v1/traces",
    "/v1/logs",
]


def rules(public_url: str = "", hosts: tuple[str, ...] = ()) -> OriginRules:
    return OriginRules(
        hosts=hosts,
        origins=(FRIEND,),
        public_url=public_url,
        is_page=lambda path: path in (b"/", b"/docs"),
        is_proven=lambda request: b"proof" in request.headers,
    )


def request(method: str, path: str, headers: dict[str, str]) -> Request:
    lowered = {name.lower().encode(): value.encode("latin-1") for name, value in headers.items()}
    return Request(method.encode(), path.encode(), b"", lowered, b"")


def admitted(
    method: str, path: str, headers: dict[str, str], *, keyed: bool = False, by: OriginRules | None = None
) -> int:
    """Return the audience of an answer that is made, and not of a preflight."""
    asked = request(method, path, HERE | headers)
    assert (by or rules()).admit(asked, keyed=keyed) is None
    return asked.audience


def refusal(
    method: str, path: str, headers: dict[str, str], *, keyed: bool = False, by: OriginRules | None = None
) -> type[DurableSessionsError]:
    asked = request(method, path, HERE | headers)
    with pytest.raises(DurableSessionsError) as caught:
        (by or rules()).admit(asked, keyed=keyed)
    assert asked.audience == OWN, "what is refused is shown to no page of another origin"
    return type(caught.value)


# Host -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "127.0.0.1:4437", "127.0.0.1:1", "localhost", "localhost:80", "LocalHost:4437"),
        *("[::1]", "[::1]:4437", "[0:0:0:0:0:0:0:1]:1"),
        *("sessions.test", "SESSIONS.test:99", "[fe80::1]", "192.0.2.7:80"),
    ],
)
def test_hosts_that_mean_this_machine(host: str) -> None:
    allowed = rules(hosts=("sessions.test", "[fe80::1]", "192.0.2.7"))
    for _ in range(2):  # the second time it is known
        assert admitted(*READ, {"Host": host}, by=allowed) == OWN


@pytest.mark.parametrize(
    "host",
    [
        *("", " ", "evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "evil-localhost"),
        *(
            "127.0.0.1@evil.example",
            "evil.example:127.0.0.1",
            "127.0.0.1:4437:1",
            "127.0.0.1:",
            "127.0.0.1:x",
        ),
        *("127.0.0.1, evil.example", "localhost.", "127.1", "2130706433", "0x7f000001", "0177.0.0.1"),
        *("127.0.0.2", "10.0.0.1", "0.0.0.0", "[::]", "[::ffff:127.0.0.1]", "[::1", "::1", "[::1%lo]"),
        *("http://localhost", "localhost/", "lo\xffcalhost", "[localhost]", "[127.0.0.1]", "x" * 9999),
    ],
)
def test_hosts_that_are_refused_without_keys(host: str) -> None:
    by = rules()
    for path in ("/v1/stream/s", "/", "/livez", "/v1/keys"):
        assert refusal("GET", path, {"Host": host}, by=by) is HostNotAllowedError
    assert admitted(*READ, {"Host": host}, keyed=True) == OWN, "with keys a name is worth nothing"


def test_only_so_many_spellings_of_a_host_are_kept() -> None:
    by = rules()
    for port in range(1, 1000):
        assert admitted(*READ, {"Host": f"localhost:{port}"}, by=by) == OWN
    assert len(by._hosts_kept) == 64


def test_a_request_without_a_host_is_no_browsers() -> None:
    asked = request("GET", "/v1/stream/s", {})
    assert rules().admit(asked, keyed=False) is None


# Proxies ----------------------------------------------------------------------------------

FORWARDED = [
    {"Forwarded": "for=192.0.2.1"},
    {"X-Forwarded-For": "192.0.2.1"},
    {"X-Forwarded-Proto": "https"},
    {"X-Forwarded-Host": "sessions.example"},
    {"x-forwarded-anything": ""},
]


@pytest.mark.parametrize("headers", FORWARDED)
@pytest.mark.parametrize(
    "path", ["/v1/stream/s", "/v1/keys", "/", "/docs", "/readyz", "/metrics", "/nothing"]
)
def test_what_came_through_a_proxy_needs_keys(path: str, headers: dict[str, str]) -> None:
    assert refusal("GET", path, headers) is KeysRequiredError
    assert admitted("GET", path, headers, keyed=True) in (OWN, PAGE)
    assert admitted("GET", path, headers | PROOF) in (OWN, PAGE), "or the first key could not be made"


@pytest.mark.parametrize("headers", [{}, {"Origin": OURS}, {"X-Forwarded-For": "192.0.2.1"}])
def test_a_server_with_a_public_url_needs_keys(headers: dict[str, str]) -> None:
    public = rules("https://sessions.example/ds")
    assert refusal(*READ, headers, by=public) is KeysRequiredError
    assert refusal("GET", "/", headers, by=public) is KeysRequiredError
    assert admitted(*READ, headers, by=public, keyed=True) in (OWN, SHARED)
    assert admitted("POST", "/v1/keys", PROOF, by=public) == OWN
    assert admitted("GET", "/livez", {}, by=public) == OWN


@pytest.mark.parametrize("name", ["X-Forward", "Not-Forwarded", "X-Not-Forwarded-For", "Forwarded-For"])
def test_other_headers_are_no_proxys(name: str) -> None:
    assert admitted(*READ, {name: "1"}) == OWN


# Origin and Sec-Fetch-Site -----------------------------------------------------------------

FOREIGN = [
    {"Origin": STRANGER},
    {"Origin": "null"},
    {"Origin": ""},
    {"Origin": "http://127.0.0.1:3000"},
    {"Origin": "http://localhost:4437"},
    {"Origin": "https://127.0.0.1:4437"},
    {"Origin": "http://127.0.0.1:4437.evil.example"},
    {"Origin": f"{FRIEND}.evil.example"},
    {"Origin": f"{OURS}, {STRANGER}"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
    {"Sec-Fetch-Site": "cross-site", **NAVIGATION},
    {"Sec-Fetch-Site": "cross-site", "Origin": OURS},
    {"Sec-Fetch-Site": "same-site", "Origin": "http://127.0.0.1:3000", "Sec-Fetch-Mode": "cors"},
    {"Sec-Fetch-Site": "same-origin", "Origin": STRANGER},
]


@pytest.mark.parametrize("asked", [READ, APPEND, REMOVE, ("OPTIONS", "/v1/stream/s"), ("GET", "/metrics")])
@pytest.mark.parametrize("headers", FOREIGN)
def test_pages_of_other_origins_are_refused(headers: dict[str, str], asked: tuple[str, str]) -> None:
    assert refusal(*asked, headers) is OriginNotAllowedError
    assert refusal(*asked, headers | KEY) is OriginNotAllowedError, "without keys nothing is a key"
    assert refusal(*asked, headers | PROOF) is OriginNotAllowedError
    if headers.get("Origin") != "https://127.0.0.1:4437":
        assert refusal(*asked, headers, keyed=True) is OriginNotAllowedError
    assert refusal(*asked, headers | {"Authorization": "Basic YTpi"}) is OriginNotAllowedError


@pytest.mark.parametrize("headers", FOREIGN)
@pytest.mark.parametrize("key", [KEY, {"Authorization": "Bearer dsk_1"}])
def test_with_a_key_in_a_header_a_page_may_be_of_any_origin(
    headers: dict[str, str], key: dict[str, str]
) -> None:
    expected = SHARED if "Origin" in headers else OWN
    assert admitted(*APPEND, headers | key, keyed=True) == expected
    assert admitted("POST", "/v1/keys", headers | key, keyed=True) == OWN


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("site", [{}, {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"}])
def test_allowed_origins_are_let_in(site: dict[str, str], *, keyed: bool) -> None:
    headers = {"Origin": FRIEND} | site
    for asked in (READ, APPEND, REMOVE):
        assert admitted(*asked, headers, keyed=keyed) == SHARED
    for path in CLOSED:
        assert admitted("GET", path, headers, keyed=keyed) in (OWN, PAGE), path


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": OURS},
        {"Origin": OURS, "Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"},
        {"Sec-Fetch-Site": "same-origin"},
        {"Sec-Fetch-Site": "none", **NAVIGATION},
        {"Sec-Fetch-Mode": "cors"},
    ],
)
def test_our_own_pages_and_programs_are_let_in(headers: dict[str, str], *, keyed: bool) -> None:
    expected = SHARED if "Origin" in headers else OWN
    for asked in (READ, APPEND, REMOVE):
        assert admitted(*asked, headers, keyed=keyed) == expected
    assert admitted("GET", "/", headers, keyed=keyed) == PAGE
    assert admitted("GET", "/metrics", headers, keyed=keyed) == OWN


def test_behind_a_proxy_our_origin_is_the_public_one() -> None:
    public = rules("https://sessions.example:443/ds")
    for host, origin in [
        ("127.0.0.1:4437", "https://sessions.example"),
        ("sessions.example", "https://sessions.example"),
        ("other.example", "https://other.example"),
        ("other.example", "http://other.example"),
    ]:
        assert admitted(*APPEND, {"Host": host, "Origin": origin}, by=public, keyed=True) == SHARED
    foreign = {"Host": "127.0.0.1:4437", "Origin": "https://sessions.example.evil"}
    assert refusal(*APPEND, foreign, by=public, keyed=True) is OriginNotAllowedError


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_other_sites_may_link_to_a_page(site: str, *, keyed: bool) -> None:
    link = {"Sec-Fetch-Site": site, **NAVIGATION}
    assert admitted("GET", "/docs", link, keyed=keyed) == PAGE
    for path in ("/v1/stream/s", "/metrics", "/readyz", "/nothing"):
        assert refusal("GET", path, link, keyed=keyed) is OriginNotAllowedError, path
    for more in (
        {"Sec-Fetch-Mode": "no-cors"},
        {"Sec-Fetch-Dest": "iframe"},
        {"Sec-Fetch-Dest": "embed"},
        {"Origin": STRANGER},
    ):
        assert refusal("GET", "/docs", link | more, keyed=keyed) is OriginNotAllowedError, more
    assert refusal("POST", "/docs", link, keyed=keyed) is OriginNotAllowedError


# Preflights -------------------------------------------------------------------------------


def preflight(path: str, origin: str, *, keyed: bool) -> bool:
    headers = {
        "Origin": origin,
        "Access-Control-Request-Method": "DELETE",
        "Access-Control-Request-Headers": "x-api-key",
        "Sec-Fetch-Site": "cross-site",
    }
    asked = request("OPTIONS", path, HERE | headers)
    try:
        answer = rules().admit(asked, keyed=keyed)
    except OriginNotAllowedError:
        assert asked.audience == OWN
        return False
    assert answer is not None
    assert (answer.status, answer.headers) == (204, cors.preflight().headers)
    if asked.audience != SHARED:
        # Without Access-Control-Allow-Origin a browser takes it for a refusal; the protocol wants an answer.
        assert asked.audience == OWN
        assert path.startswith("/v1/stream/")
    return asked.audience == SHARED


@pytest.mark.parametrize("path", SHARED_PATHS)
def test_preflights_are_answered_where_the_request_can_be(path: str) -> None:
    assert preflight(path, STRANGER, keyed=True)
    assert preflight(path, FRIEND, keyed=True)
    assert preflight(path, FRIEND, keyed=False)
    assert not preflight(path, STRANGER, keyed=False)
    assert not preflight(path, "null", keyed=False)


@pytest.mark.parametrize("path", CLOSED)
@pytest.mark.parametrize("origin", [STRANGER, FRIEND, OURS])
def test_preflights_are_never_answered_elsewhere(path: str, origin: str) -> None:
    assert not preflight(path, origin, keyed=True)
    assert not preflight(path, origin, keyed=False)


def test_options_without_an_origin_are_left_to_the_route() -> None:
    assert admitted("OPTIONS", "/v1/stream/s", {}) == OWN
    assert admitted("OPTIONS", "/v1/stream/s", {"Access-Control-Request-Method": "PUT"}) == OWN


def test_what_pages_of_other_origins_may_send_and_see() -> None:
    both = {
        *("session-epoch", "session-principal", "session-import", "session-incarnation"),
        *("stream-envelope", "if-match", "idempotency-key"),
    }
    allowed = {name.decode() for name in cors.ALLOWED_HEADERS}
    exposed = {name.decode() for name in cors.EXPOSED_HEADERS}
    assert both <= allowed
    assert both | {"event-position", "events-repeated", "events-differ", "stream-next-offset"} <= exposed
    offered = dict(cors.preflight().headers)[b"Access-Control-Allow-Headers"]
    assert {name.strip().decode() for name in offered.split(b",")} == allowed
    for name in ("x-ds-page", "*", "durable-sessions-first-key", "host", "cookie"):
        assert name not in allowed


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("", ""),
        ("https://Sessions.example/ds", "https://sessions.example"),
        ("https://sessions.example:443", "https://sessions.example"),
        ("http://sessions.example:80/", "http://sessions.example"),
        ("http://sessions.example:443", "http://sessions.example:443"),
        ("http://[::1]:8080/x", "http://[::1]:8080"),
    ],
)
def test_the_origin_of_a_url(url: str, origin: str) -> None:
    assert origin_of(url) == origin

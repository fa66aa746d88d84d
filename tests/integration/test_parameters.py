"""Query parameters: a typo is told, not taken for "no filter"; and the one shape of refusals below /v1."""

from collections.abc import Iterator

import httpx2
import pytest

from durable_sessions.http.openapi.document import NOUNS
from durable_sessions.http.openapi.errors import codes
from durable_sessions.http.openapi.parts import Operation
from durable_sessions.testing import server
from tests.support.refusals import error_code
from tests.support.waiting import PATIENCE_SECONDS


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    with (
        server(tmp_path_factory.mktemp("data")) as one,
        httpx2.Client(base_url=one.url, timeout=PATIENCE_SECONDS) as client,
    ):
        client.post("/v1/sessions/s/events", json=[{"type": "note", "n": n} for n in range(5)])
        yield client


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("/v1/sessions/s/events?limt=3", "Did you mean limit?"),
        ("/v1/sessions?lifecyle=open", "Did you mean lifecycle?"),
        ("/v1/sessions?created_at[foo]=2026-01-01", "Send one of created_at[gt], created_at[gte],"),
        ("/v1/sessions?metdata[team]=a", "no query parameter metdata[team] here"),
        ("/v1/search?q=x&sesion=s", "Did you mean session?"),
        ("/v1/agents?limits=3", "Did you mean limit?"),
        ("/v1/keys?lmit=1", "Did you mean limit?"),
        ("/v1/sessions/s?xyzzy=1", "Known here: incarnation."),
        ("/v1/sessions/s/events?l%69mt=3", "no query parameter limt here"),
    ],
)
def test_an_unknown_parameter_is_refused(api: httpx2.Client, target: str, said: str) -> None:
    answer = api.get(target)
    assert (answer.status_code, error_code(answer)) == (400, "unknown_parameter")
    assert said in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "target",
    [
        "/v1/sessions/s/events?type=",
        "/v1/sessions/s/events?types[]=,",
        "/v1/search?q=x&session=",
        "/v1/sessions?statuses=",
    ],
)
def test_a_choice_that_is_empty_is_refused_but_in_the_other_dialect(api: httpx2.Client, target: str) -> None:
    answer = api.get(target)
    assert (answer.status_code, error_code(answer)) == (400, "invalid_request")
    assert "is empty; give it a value or leave it out" in answer.json()["error"]["message"]
    assert api.get(target, headers={"anthropic-version": "2023-06-01"}).status_code == 200


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("/v1/sessions/my-stream", "There is no session my-stream in this workspace."),
        ("/v1/sessions/s/events/stream-1", "The session has no event stream-1."),
        ("/v1/streams/x", "Nothing is served at /v1/streams/x."),
        ("/v1/sesions", "Nothing is served at /v1/sesions. Did you mean /v1/sessions?"),
        ("/v1/sessions/s/event", "Did you mean /v1/sessions/s/events?"),
        ("/v1/memory/scops", "Did you mean /v1/memory/scopes?"),
        ("/v1/keyz", "Did you mean /v1/keys?"),
        ("/v1/sessions?stream=1", "There is no query parameter stream here."),
        ("/v1/sessions/s/events?order=stream", "order=stream is not known"),
        ("/v1/agents/stream", "There is no agent stream."),
        ("/v1/sessions/s/events?offset=0000000000000000_0000000000000099", "beyond the end of the session"),
    ],
)
def test_a_refusal_keeps_the_words_of_the_caller(api: httpx2.Client, target: str, said: str) -> None:
    assert said in api.get(target).json()["error"]["message"]


def test_nothing_is_stored_by_a_request_with_an_unknown_parameter(api: httpx2.Client) -> None:
    assert api.post("/v1/sessions/new/events?x=1", json={"type": "note"}).status_code == 400
    assert api.get("/v1/sessions/new").status_code == 404


def test_the_other_dialects_stay_tolerant(api: httpx2.Client) -> None:
    dialect = {"anthropic-version": "2023-06-01"}
    assert api.get("/v1/sessions/s/events?limt=3", headers=dialect).status_code == 200
    assert api.get("/v1/stream/sessions/s?limt=3").status_code == 200
    assert api.get("/v1/sessions/s/events?beta=true&limit=3&").status_code == 200
    assert api.get("/v1/sessions?metadata[any thing]=x").status_code == 200


def test_health_is_as_strict_as_everything_else() -> None:
    refusing = {operation.path for operation in _described()}
    assert {"/livez", "/readyz", "/metrics", "/openapi.json"} < refusing


def test_what_people_open_may_come_with_any_parameter(api: httpx2.Client) -> None:
    for path in ("/", "/docs", "/docs/api", "/docs/tutorial", "/docs/howto/redact"):
        assert api.get(f"{path}?utm_source=mail").status_code == 200


def _described() -> Iterator[Operation]:
    for noun in NOUNS:
        for operation in noun.operations:
            if "unknown_parameter" in codes(operation) and operation.method != "head":
                yield operation


@pytest.mark.parametrize("operation", [*_described()], ids=lambda operation: operation.id)
def test_every_route_refuses_it_in_one_shape(api: httpx2.Client, operation: Operation) -> None:
    path = operation.path
    for parameter in operation.parameters:
        if parameter.place == "path":
            path = path.replace("{" + parameter.name + "}", "x")
    answer = api.request(operation.method, path, params={"no_such_thing": "1"})
    assert (answer.status_code, error_code(answer)) == (400, "unknown_parameter")
    said = answer.json()
    if not operation.path.startswith("/v1/"):
        assert list(said) == ["error"]
        return
    assert list(said) == ["type", "error", "request_id"]
    assert said["request_id"] == answer.headers["request-id"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/artifacts/" + "0" * 64, 404),
        ("GET", "/v1/artifacts/no", 400),
        ("DELETE", "/v1/keys/none", 404),
        ("PUT", "/v1/keys", 405),
        ("POST", "/v1/audit", 405),
        ("GET", "/v1/admin/flush", 405),
        ("GET", "/v1/nothing/here", 404),
        ("GET", "/v1/ingest/claude-code", 405),
        ("GET", "/v1/sessions/none", 404),
    ],
)
def test_refusals_have_one_shape(api: httpx2.Client, method: str, path: str, status: int) -> None:
    answer = api.request(method, path)
    said = answer.json()
    assert answer.status_code == status, answer.text
    assert (list(said), said["type"]) == (["type", "error", "request_id"], "error")
    assert said["error"]["details"]["error_code"]


@pytest.mark.parametrize(
    ("method", "path", "body", "said"),
    [
        ("GET", "/v1/sessions/none", None, "There is no session none in this workspace."),
        ("DELETE", "/v1/sessions/none", None, "There is no session none in this workspace."),
        ("GET", "/v1/sessions/none/events", None, "There is no session none in this workspace."),
        ("POST", "/v1/sessions/s", b'{"title":7}', "title is a whole number; send a text or null."),
        ("POST", "/v1/sessions", b'{"metadata":[]}', "metadata is a list; send an object or null."),
        ("POST", "/v1/sessions", b'{"title":', "it ends too early, at line 1, column 10; send all of it."),
        ("POST", "/v1/sessions/s/events", b'{"type":7}', "type is a whole number; send a text."),
        (
            "POST",
            "/v1/sessions/s/events",
            b'{"type":"a","id":7}',
            "id is a whole number; send a text or null.",
        ),
        ("POST", "/v1/keys", b'{"principal":7,"role":"admin"}', "principal is a whole number; send a text."),
        ("POST", "/v1/keys", b'{"role":"admin"}', "principal is missing."),
        ("GET", "/v1/sessions/s/events?offset=0000000000000000_0000000000000099", None, "end of the session"),
        (
            "GET",
            "/v1/sessions/s/events?offset=x",
            None,
            "Send -1, now, or a next_offset that this server gave.",
        ),
        ("POST", "/v1/sessions/s/events", b"", "There is no event in the request; send {"),
    ],
)
def test_what_is_wrong_is_said_in_the_words_of_the_caller(
    api: httpx2.Client, method: str, path: str, body: bytes | None, said: str
) -> None:
    answer = api.request(method, path, content=body, headers={"Content-Type": "application/json"})
    message = answer.json()["error"]["message"]
    assert answer.status_code in (400, 404)
    assert said in message
    for foreign in ("Expected `", "PUT /v1", "stream", "Stream-", "$."):
        assert foreign not in message


def test_who_creates_a_session_that_exists_is_told_how_to_go_on(api: httpx2.Client) -> None:
    answer = api.post("/v1/sessions", json={"id": "s"})
    message = answer.json()["error"]["message"]
    assert (answer.status_code, error_code(answer)) == (409, "session_exists")
    assert message.startswith("The session s exists already and cannot be created again.")
    assert "To go on with it, append to /v1/sessions/s/events" in message
    other = api.put("/v1/sessions/s", json={"title": "another"})
    assert (other.status_code, error_code(other)) == (409, "session_exists")
    assert "The session s exists already with another title." in other.json()["error"]["message"]


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "DELETE"])
def test_who_asks_for_a_stream_is_told_of_a_stream(api: httpx2.Client, method: str) -> None:
    answer = api.request(method, "/v1/stream/sessions/none", json={"type": "a"} if method == "POST" else None)
    assert answer.status_code == 404
    if method != "HEAD":
        assert answer.json()["error"]["code"] == "stream_not_found"
        assert answer.json()["error"]["message"] == "The stream sessions/none does not exist."


BEYOND = "0000000000000000_0000000000000006"


@pytest.mark.parametrize(
    "place",
    [
        *(f"events?{place}" for place in ("from=6", f"offset={BEYOND}", "around=6")),
        f"events/stream?offset={BEYOND}",
        "outline?from=6",
        *(f"{view}?at=6" for view in ("state", "slots", "context", "graph", "dossier")),
    ],
)
def test_places_beyond_the_end_are_refused_alike(api: httpx2.Client, place: str) -> None:
    answer = api.get(f"/v1/sessions/s/{place}")
    assert (answer.status_code, error_code(answer)) == (400, "offset_beyond_tail")
    name, _, given = place.partition("?")[2].partition("=")
    end = "0000000000000000_0000000000000005"
    assert (
        f"{name} {given} lies beyond the end of the session, which is {end}. Send one up to that end."
        in answer.text
    )
    assert answer.json()["error"]["details"]["tail"] == end


@pytest.mark.parametrize("place", ["from=5", "offset=0000000000000000_0000000000000005"])
def test_the_end_itself_is_a_place(api: httpx2.Client, place: str) -> None:
    assert api.get(f"/v1/sessions/s/events?{place}").json()["data"] == []


def test_a_closed_session_is_called_a_session(api: httpx2.Client) -> None:
    api.post("/v1/sessions/over/events", json={"type": "note"}, headers={"Stream-Closed": "true"})
    answer = api.post("/v1/sessions/over/events", json={"type": "note"})
    assert answer.status_code == 409
    assert "The session is closed" in answer.json()["error"]["message"]


def test_a_fork_beyond_the_end_is_told_without_headers(api: httpx2.Client) -> None:
    headers = {
        "Stream-Forked-From": "/v1/sessions/s",
        "Stream-Fork-Offset": "0000000000000000_0000000000000099",
    }
    answer = api.put("/v1/sessions/fork", headers=headers)
    assert answer.status_code == 400
    message = answer.json()["error"]["message"]
    assert "beyond the end of the source; send 0000000000000000_0000000000000005 or an" in message
    assert "Stream-Fork-Offset" not in message


def test_the_strict_face_keeps_the_shape_of_its_protocol(api: httpx2.Client) -> None:
    assert list(api.get("/v1/stream/none").json()["error"]) == ["code", "message"]


DIALECT = {"anthropic-version": "2023-06-01"}


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("/v1/sessions?lifecycle=foo", "send open, active, paused, resumed, closed or archived"),
        ("/v1/sessions?lifecycle=open,foo", "lifecycle=foo is not known"),
        ("/v1/sessions?sort=activity&lifecycle[]=foo", "lifecycle=foo is not known"),
        ("/v1/sessions?statuses[]=foo", "send idle, running, rescheduling or terminated"),
        ("/v1/sessions?statuses=idle&statuses=foo", "statuses=foo is not known"),
        ("/v1/sessions/s/threads?statuses[]=foo", "send idle, running, rescheduling or terminated"),
        ("/v1/sessions/s/events?window=3", "window goes with around"),
        ("/v1/sessions/s/events?window=3&tail=2", "window goes with around"),
    ],
)
def test_a_value_that_selects_nothing_is_told(api: httpx2.Client, target: str, said: str) -> None:
    answer = api.get(target)
    assert (answer.status_code, error_code(answer)) == (400, "invalid_request")
    assert said in answer.json()["error"]["message"]
    assert api.get(target, headers=DIALECT).status_code == 200


def test_the_known_values_select(api: httpx2.Client) -> None:
    api.put("/v1/sessions/old")
    api.post("/v1/sessions/old/archive")
    for spelling in ("lifecycle=archived", "lifecycle[]=archived", "lifecycle=archived,paused"):
        found = api.get(f"/v1/sessions?{spelling}").json()["data"]
        assert [one["id"] for one in found] == ["old"], spelling
    for status in ("idle", "running", "rescheduling", "terminated"):
        assert api.get(f"/v1/sessions?statuses[]={status}").status_code == 200


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ({"Stream-Fork-Offset": "0000000000000000_0000000000000001"}, "need Stream-Forked-From"),
        ({"Stream-Fork-Sub-Offset": "0"}, "need Stream-Forked-From"),
        ({"Stream-Forked-From": "/v1/sessions/s?incarnaton=1"}, "no parameter 'incarnaton'"),
        ({"Stream-Forked-From": "/v1/sessions/s?x"}, "no parameter 'x'"),
    ],
)
def test_half_a_fork_makes_no_session(api: httpx2.Client, headers: dict[str, str], said: str) -> None:
    answer = api.put("/v1/sessions/half", headers=headers)
    assert (answer.status_code, error_code(answer)) == (400, "invalid_fork")
    assert said in answer.json()["error"]["message"]
    assert api.get("/v1/sessions/half").status_code == 404


@pytest.mark.parametrize("value", ['"now"', '"-1"', '"x"', "now", '"0000000000000000_0000000000000001", "y"'])
@pytest.mark.parametrize("path", ["/v1/sessions/s", "/v1/sessions/s/events", "/v1/stream/sessions/s"])
def test_what_if_match_takes_is_told(api: httpx2.Client, path: str, value: str) -> None:
    body = {"title": "t"} if path == "/v1/sessions/s" else {"type": "note"}
    answer = api.post(path, json=body, headers={"If-Match": value})
    assert answer.status_code == 400
    message = answer.json()["error"]["message"]
    assert "The header If-Match" in message
    assert "Stream-Next-Offset or one Session-Incarnation in double quotes, or *" in message


@pytest.mark.parametrize(
    ("method", "path", "body", "said"),
    [
        ("POST", "/v1/sessions/s", {"titel": "x"}, "Did you mean title?"),
        ("POST", "/v1/sessions/s", {"title": "y", "meta": {}}, "Did you mean metadata?"),
        ("POST", "/v1/sessions/s", {"xyzzy": 1}, "Known are title, metadata, agent, budget. Send what is"),
        (
            "POST",
            "/v1/sessions/s",
            {"environment_id": "env"},
            "environment_id here. It is given when a session is",
        ),
        ("POST", "/v1/sessions/s", {"vault_ids": ["v"]}, "vault_ids cannot be changed"),
        ("POST", "/v1/sessions", {"id": "typo", "titel": "x"}, "Did you mean title?"),
        ("PUT", "/v1/sessions/typo", {"inital_events": []}, "Did you mean initial_events?"),
    ],
)
def test_a_typo_in_what_is_said_of_a_session_is_told(
    api: httpx2.Client, method: str, path: str, body: dict[str, object], said: str
) -> None:
    before = api.get("/v1/sessions/s").json()
    answer = api.request(method, path, json=body)
    assert (answer.status_code, error_code(answer)) == (400, "invalid_session")
    assert said in answer.json()["error"]["message"]
    assert api.get("/v1/sessions/s").json()["title"] == before["title"]
    assert api.get("/v1/sessions/typo").status_code == 404


def test_other_members_stay_free_where_they_are_somebody_elses(api: httpx2.Client) -> None:
    events = [{"type": "note", "titel": "x"}]
    assert api.put("/v1/sessions/free", json={"initial_events": events}).status_code == 201
    assert api.post("/v1/sessions/free", json={"metadata": {"titel": "x"}}).status_code == 200
    assert api.post("/v1/sessions/free", json={"titel": "x"}, headers=DIALECT).status_code == 200
    body = {"agent": "agent_1", "environment_id": "env_1", "titel": "x"}
    assert api.post("/v1/sessions", json=body, headers=DIALECT).status_code == 200

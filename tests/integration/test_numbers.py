"""Numbers that no machine type holds are kept as they came, and disturb nobody: no answer is a 500."""

import json
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from durable_sessions.cli.main import cli
from durable_sessions.exporters import FORMATS
from durable_sessions.testing import BackgroundServer, server
from tests.support.waiting import PATIENCE_SECONDS

NUMBERS = [
    "1e999999",
    "-1e400",
    "1e400",
    "1E+00000000000400",
    "1e99999999999999999999",
    "1e-999999",
    "9" * 5000,
    "-" + "9" * 5000,
    "9" * 4300,
    "9" * 310,
    "9" * 300 + "e99",
    "0." + "1" * 5000,
    "9" * 5000 + ".5",
    str(2**64),
    str(-(2**63) - 1),
    str(2**53),
    "-0",
    "-0.0",
]
EVENTS = [
    '{"type":"note","n":%s,"text":"marmalade"}',
    '{"type":"note","n":{"deep":[%s]},"text":"marmalade"}',
    '{"type":"user.define_outcome","description":"x","outcome_id":%s,"n":%s,"text":"marmalade"}',
    '{"type":"user.define_outcome","description":%s,"max_iterations":%s,"text":"marmalade"}',
    '{"type":"span.outcome_evaluation_end","outcome_id":%s,"iteration":%s,"result":%s,"explanation":%s,'
    '"text":"marmalade"}',
    '{"type":"span.model_request_end","model":%s,"cost_usd":%s,"model_usage":{"input_tokens":%s,'
    '"output_tokens":%s,"cache_read_input_tokens":%s,"cache_creation":{"ephemeral_5m_input_tokens":%s},'
    '"cache_creation_input_tokens":%s,"cost_usd":%s},"text":"marmalade"}',
    '{"type":"span.model_request_end","model_usage":%s,"text":"marmalade"}',
    '{"type":"session.status_idle","stop_reason":%s,"text":"marmalade"}',
    '{"type":"session.status_idle","stop_reason":{"type":%s},"text":"marmalade"}',
    '{"type":"session.status_running","original_created_at":%s,"original_processed_at":%s,"offset":%s,"actor":%s,'
    '"text":"marmalade"}',
    '{"type":"session.thread_created","session_thread_id":"t","agent_name":%s,"parent_thread_id":%s,'
    '"text":"marmalade"}',
    '{"type":"note","session_thread_id":%s,"text":"marmalade"}',
    '{"type":"agent.tool_use","name":%s,"input":{"n":%s},"text":"marmalade"}',
    '{"type":"agent.tool_result","tool_use_id":%s,"is_error":%s,"content":[{"type":"text","text":"marmalade"},'
    '{"type":"text","text":%s},{"type":"image","source":{"data":%s}}],"duration_ms":%s}',
    '{"type":"user.message","content":[{"type":"text","text":"marmalade","n":%s}],"original_created_at":%s,'
    '"source":{"tool":%s,"digest":%s}}',
    '{"type":"session.error","error":{"type":%s,"message":%s,"retry_status":%s},"text":"marmalade"}',
    '{"type":"agent.thread_context_compacted","tokens_before":%s,"tokens_after":%s,"text":"marmalade"}',
    '{"type":"session.outcome_evaluated","usage":%s,"score":%s,"text":"marmalade"}',
]
COMMANDS = [
    ("sessions",),
    ("sessions", "--json"),
    ("show", "numbers"),
    ("events", "numbers"),
    ("search", "marmalade"),
    ("search", "marmalade", "--json"),
    ("search", "marmalade", "--session", "numbers"),
]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BackgroundServer]:
    with server(tmp_path_factory.mktemp("server")) as one:
        yield one


@pytest.fixture(scope="module")
def api(running: BackgroundServer) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=running.url + "/v1", timeout=PATIENCE_SECONDS) as client:
        yield client


def _filled(shape: str, number: str) -> bytes:
    return shape.replace("%s", number).encode()


def _send(api: httpx2.Client, method: str, path: str, body: bytes, **headers: str) -> httpx2.Response:
    answer = api.request(method, path, content=body, headers={"Content-Type": "application/json", **headers})
    assert answer.status_code < 500, (path, body[:200], answer.text)
    return answer


def _fine(api: httpx2.Client, path: str) -> bytes:
    answer = api.get(path)
    assert answer.status_code == 200, (path, answer.text[:500])
    return answer.content


def _reads(session: str) -> list[str]:
    return [
        f"/sessions/{session}",
        f"/sessions/{session}/events?limit=1000",
        f"/sessions/{session}/events?limit=1000&type=note,span.*&pairs=keep",
        f"/sessions/{session}/events?created_at[gt]=2020-01-01T00:00:00Z",
        f"/sessions/{session}/threads",
        f"/sessions/{session}/events?q=marmalade",
        f"/sessions?q={session}",
        "/sessions?metadata[n]=1",
        "/search?q=marmalade",
        "/search?q=marmalade&metadata[n]=1",
    ]


@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: f"{number[:12]}-{len(number)}")
def test_events_hold_any_number(running: BackgroundServer, api: httpx2.Client, number: str) -> None:
    name = f"numbers-{NUMBERS.index(number)}"
    for shape in EVENTS:
        body = _filled(shape, number)
        assert _send(api, "POST", f"/sessions/{name}/events", body).status_code == 204, body[:200]
    for path in (*_reads(name), f"/sessions/{name}/threads/t/events"):
        _fine(api, path)
    found = json.loads(_fine(api, f"/sessions/{name}/events?q=marmalade&limit=1000"), parse_int=str)
    assert int(found["total_hits"]) == len(EVENTS), "the rest of each event is found"
    stored = _fine(api, f"/sessions/{name}/events?limit=1000")
    sent = sum(shape.count("%s") for shape in EVENTS)
    assert stored.count(number.encode()) >= sent - 1, (
        "byte for byte; an outcome_id is a text, or the server's"
    )
    usage = json.loads(_fine(api, f"/sessions/{name}"))["usage"]
    assert all(0 <= count < 2**53 for count in (usage["input_tokens"], usage["output_tokens"]))
    noted = f"/sessions/{name}/events?limit=1000&type=note"
    assert _fine(api, noted).count(b"marmalade") == sum('"type":"note"' in shape for shape in EVENTS)


@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: f"{number[:12]}-{len(number)}")
@pytest.mark.parametrize("beta", ["", "?beta=true"])
def test_documents_hold_any_number_or_refuse_it(api: httpx2.Client, number: str, beta: str) -> None:
    name = f"documents-{NUMBERS.index(number)}-{len(beta)}"
    headers = {"anthropic-version": "2023-06-01"} if beta else {}
    for shape in (
        '{"metadata":{"n":%s}}',
        '{"budget":{"tokens":%s}}',
        '{"resources":[{"type":"note","n":%s}]}',
        '{"agent":{"id":"a","version":%s}}',
        '{"agent":{"id":"a","tools":[{"type":"custom","n":%s}],"model":{"id":"m","n":%s}}}',
        '{"title":%s}',
        '{"vault_ids":[%s]}',
    ):
        body = _filled(shape, number)
        _send(api, "PUT", f"/sessions/{name}{beta}", body, **headers)
        _send(api, "PUT", f"/sessions/{name}{beta}", body, **headers)
        _send(api, "POST", f"/sessions{beta}", body, **headers)
        _send(api, "POST", f"/sessions/{name}{beta}", body, **headers)
    _send(
        api, "POST", f"/sessions/{name}{beta}", _filled('{"agent":{"tools":[{"n":%s}]}}', number), **headers
    )
    added = _send(
        api, "POST", f"/sessions/{name}/resources{beta}", _filled('{"type":"note","n":%s}', number), **headers
    )
    if added.status_code == 200:
        resource = json.loads(added.content, parse_int=str)["id"]
        _send(api, "POST", f"/sessions/{name}/resources/{resource}{beta}", b"{}", **headers)
        _send(api, "DELETE", f"/sessions/{name}/resources/{resource}{beta}", b"", **headers)
    agent = '{"name":"a","model":"m","tools":[{"type":"custom","n":%s}],"multiagent":{"type":"coordinator",'
    agent += '"agents":[{"type":"agent","id":"a","version":%s}]}}'
    _send(api, "POST", f"/agents{beta}", _filled(agent, number), **headers)
    agent = '{"name":"a","model":{"id":"m","n":%s},"metadata":{"n":%s}}'
    _send(api, "POST", f"/agents{beta}", _filled(agent, number), **headers)
    environment = '{"name":"e","config":{"type":"cloud","n":%s},"metadata":{"n":%s}}'
    _send(api, "POST", f"/environments{beta}", _filled(environment, number), **headers)
    for path in (*_reads(name), "/agents", "/environments", f"/sessions/{name}/resources"):
        _fine(api, path)


def test_metadata_is_kept_and_found_by_its_spelling(api: httpx2.Client) -> None:
    for number in ("1e999999", "9" * 5000, "1.50"):
        body = _filled('{"title":"spelt","metadata":{"n":%s}}', number)
        made = json.loads(_send(api, "POST", "/sessions", body).content, parse_int=str)
        listed = _fine(api, f"/sessions?metadata[n]={number}")
        assert made["id"].encode() in listed
        assert b'"n":' + number.encode() in listed
        _send(api, "POST", f"/sessions/{made['id']}/events", b'{"type":"note","text":"spelling"}')
        assert made["id"].encode() in _fine(api, f"/search?q=spelling&metadata[n]={number}")
        again = _send(api, "PUT", f"/sessions/{made['id']}", body)
        assert again.status_code == 200, "the same once more"
    other = _filled('{"title":"spelt","metadata":{"n":%s}}', "1e999998")
    _send(api, "PUT", "/sessions/other", _filled('{"title":"spelt","metadata":{"n":%s}}', "1e999999"))
    assert _send(api, "PUT", "/sessions/other", other).status_code == 409


def test_sums_end_at_a_bound(api: httpx2.Client) -> None:
    most = 2**53 - 1
    body = _filled('{"type":"span.model_request_end","model_usage":{"input_tokens":%s}}', str(most))
    events = b'{"events":[' + b",".join([body] * 1000) + b"]}"
    for _ in range(3):
        assert _send(api, "POST", "/sessions/sums/events", events).status_code == 204
    assert json.loads(_fine(api, "/sessions/sums"))["usage"]["input_tokens"] == most
    for _ in range(40):
        running = b'{"type":"session.status_running","created_at":"0001-01-01T00:00:00Z"}'
        idle = b'{"type":"session.status_idle","created_at":"9999-12-31T23:59:59Z"}'
        events = b'{"events":[' + b",".join([running, idle] * 500) + b"]}"
        assert _send(api, "POST", "/sessions/sums/events", events).status_code == 204
    assert json.loads(_fine(api, "/sessions/sums"))["stats"]["active_seconds"] > 0


@pytest.mark.parametrize("value", ["1e3", "9" * 5000, "-1", "0x10", "٣", "1" * 16, "NaN"])
@pytest.mark.parametrize(
    "path",
    [
        "/sessions?limit=",
        "/sessions?agent_version=",
        "/sessions/q/events?limit=",
        "/sessions/q/events?from=",
        "/sessions/q/events?q=x&limit=",
        "/search?q=x&limit=",
        "/search?q=x&hits=",
        "/search?q=x&page=",
        "/keys?limit=",
        "/audit?limit=",
        "/agents?limit=",
        "/agents/a?version=",
    ],
)
def test_numbers_in_queries(api: httpx2.Client, path: str, value: str) -> None:
    _send(api, "POST", "/sessions/q/events", b'{"type":"note"}')
    assert 400 <= api.get(path + value).status_code < 500


@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: f"{number[:12]}-{len(number)}")
def test_bodies_of_the_other_faces(api: httpx2.Client, number: str) -> None:
    _send(api, "PUT", "/stream/numbers", b"")
    _send(api, "POST", "/stream/numbers", _filled("[%s]", number))
    hook = '{"hook_event_name":"PostToolUse","session_id":"s","tool_name":%s,"tool_input":{"n":%s}}'
    for body in (hook, hook.replace('"tool_name":%s', '"tool_name":"Bash","tool_response":%s')):
        assert _send(api, "POST", "/ingest/claude-code", _filled(body, number)).status_code == 200
    subscription = '{"type":"pull-wake","pattern":"x/**","lease_ttl_ms":%s,"wake_stream":"w"}'
    _send(api, "PUT", "/stream/__ds/subscriptions/n", _filled(subscription, number))
    key = '{"principal":"p","role":"reader","requests_per_second":%s}'
    assert _send(api, "POST", "/keys", _filled(key, number)).status_code in (400, 403)


@pytest.fixture(scope="module")
def filled(running: BackgroundServer, api: httpx2.Client) -> str:
    """A session with every shape and every number."""
    for number in NUMBERS:
        for shape in EVENTS:
            answer = api.post("/sessions/numbers/events", content=_filled(shape, number))
            assert answer.status_code == 204
        api.put(f"/sessions/numbers-of-{number[:8]}", content=_filled('{"metadata":{"n":%s}}', number))
    return running.url


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_commands_show_them(filled: str, command: tuple[str, ...]) -> None:
    result = CliRunner().invoke(cli, [*command, "--url", filled], catch_exceptions=False)
    assert result.exit_code == 0, result.output[-2000:]
    if "--json" in command:
        for line in result.stdout.splitlines():
            json.loads(line, parse_int=str, parse_constant=_no_json)


WITHOUT_TEXTS = ("otlp", "prov")
"""Formats that tell what was done, and not what was said."""


@pytest.mark.parametrize("name", FORMATS)
def test_exports_hold_them(filled: str, tmp_path: Path, name: str) -> None:
    target = tmp_path / "exported"
    arguments = ["export", "numbers", "--format", name, "--output", str(target), "--url", filled]
    result = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output[-2000:]
    text = target.read_text()
    if name not in WITHOUT_TEXTS:
        assert "marmalade" in text
    if name == "jsonl":
        assert text.count('"n":1e999999') >= 1
    if name not in ("markdown", "html"):
        for line in text.splitlines() if name == "jsonl" else [text]:
            json.loads(line, parse_int=str, parse_constant=_no_json)


def test_an_export_comes_back_byte_for_byte(filled: str, tmp_path: Path) -> None:
    exported = tmp_path / "again.jsonl"
    arguments = ["export", "numbers", "--format", "jsonl", "--output", str(exported), "--url", filled]
    assert CliRunner().invoke(cli, arguments).exit_code == 0
    result = CliRunner().invoke(cli, ["import", "jsonl", str(tmp_path), "--url", filled])
    assert result.exit_code == 0, result.output[-2000:]
    again = CliRunner().invoke(cli, ["events", "again", "--url", filled]).stdout_bytes
    for number in NUMBERS:
        for line in (exported.read_bytes(), again):
            assert line.count(b'"n":' + number.encode() + b",") >= 1, number[:40]
    assert len(again.splitlines()) == len(exported.read_bytes().splitlines())
    assert b"import.record" not in again


def _no_json(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


_digits = st.integers(1, 5200).map(lambda count: "7" * count)
_numbers = st.one_of(
    st.builds(lambda sign, digits: sign + digits, st.sampled_from(["", "-"]), _digits),
    st.builds(
        lambda digits, mark, exponent: f"{digits}{mark}{exponent}",
        _digits,
        st.sampled_from(["e", "E", "e+", "e-", ".0e", ".25"]),
        st.integers(0, 10**20),
    ),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(number=_numbers, shape=st.sampled_from(EVENTS))
def test_any_number_in_any_place(api: httpx2.Client, number: str, shape: str) -> None:
    assert _send(api, "POST", "/sessions/any/events", _filled(shape, number)).status_code == 204
    _fine(api, "/sessions/any")
    assert b"marmalade" in _fine(api, "/sessions/any/events?q=marmalade&order=desc&limit=1")
    assert number.encode() in _fine(api, "/sessions/any/events?limit=1&order=desc")

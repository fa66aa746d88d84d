"""Members of events that the server sets or reads: each stands once, and times are times."""

from collections.abc import Iterator
from itertools import count

import httpx2
import pytest

from durable_sessions.testing import server
from tests.support.refusals import error_code
from tests.support.waiting import PATIENCE_SECONDS

JSON = {"Content-Type": "application/json"}
THEIRS = {**JSON, "anthropic-version": "2023-06-01"}
NUMBERS = count()


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    with (
        server(tmp_path_factory.mktemp("data")) as one,
        httpx2.Client(base_url=one.url, timeout=PATIENCE_SECONDS) as client,
    ):
        yield client


@pytest.fixture
def session() -> str:
    """The path of a session that does not exist yet."""
    return f"/v1/sessions/s{next(NUMBERS)}"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"events":[{"type":"a"}],"x":1}', 'There is no member "x" beside "events".'),
        (b'{"event":[],"events":[{"type":"a"}]}', "Did you mean events?"),
        (b'{"events":[{"type":"a"}],"events":[]}', '"events" is there twice; send it once.'),
        (b'{"type":"a","type":"b"}', '"type" is there twice; send it once.'),
        (b'{"type":"a","type":"a"}', '"type" is there twice; send it once.'),
        (b'{"type": "a", "type": "a"}', '"type" is there twice; send it once.'),
        (b'{"ty\\u0070e":"a","type":"b"}', '"type" is there twice; send it once.'),
        (
            b'[{"type":"a"},{"type":"b","x":{"type":"b"},"type":"c"}]',
            'Event 1, counted from 0: "type" is there twice',
        ),
        (b'{"type":"a","created_at":"garbage"}', '"created_at" is no time; send one such as'),
        (b'{"type":"a","created_at":1731844800}', '"created_at" is no time; send one such as'),
        (b'{"type":"a","created_at":"2026-13-01T00:00:00Z"}', '"created_at" is no time; send one such as'),
        (
            b'[{"type":"a"},{"type":"a","processed_at":true}]',
            'Event 1, counted from 0: "processed_at" is no time',
        ),
        (b'{"type":"a","actor":"x","actor":"y"}', '"actor" is there twice; send it once.'),
    ],
)
def test_what_is_ambiguous_is_refused(api: httpx2.Client, session: str, body: bytes, said: str) -> None:
    answer = api.post(f"{session}/events", content=body, headers=JSON)
    assert (answer.status_code, error_code(answer)) == (400, "invalid_event")
    assert said in answer.json()["error"]["message"]
    assert api.get(session).status_code == 404


@pytest.mark.parametrize(
    ("event", "said"),
    [
        ("{}", 'Send a "type": 1 to 128 characters, no control characters.'),
        ("5", 'An event is an object such as {"type":"user.message"}.'),
        ('{"type":5}', "type is a whole number; send a text."),
        ('{"type":"a","id":""}', 'An "id" has 1 to 200 characters, none of them a quote'),
        ('{"type":"a","created_at":"x"}', '"created_at" is no time; send one such as'),
        ('{"type":"a","actor":1,"actor":2}', '"actor" is there twice; send it once.'),
        ('{"type":"a","x":"' + "x" * 1_048_576 + '"}', "The event has 1048595 bytes; send at most 1048576."),
        (
            '{"type":"ds.nope"}',
            "There is no event type ds.nope: those that begin with ds. are fixed. Send",
        ),
        (
            '{"type":"ds.rooted"}',
            "There is no event type ds.rooted: those that begin with ds. are fixed. D",
        ),
        ('{"type":"ds.lease.claimed"}', "only the server writes ds.lease.claimed."),
        ('{"type":"ds.fact","value":1}', "ds.fact: key is missing."),
        ('{"type":"ds.fact","key":"a","value":1,"refs":[{"rel":"because","id":"x"}]}', "A reference leads"),
        ('{"type":"ds.budget.set","usd":-1}', "ds.budget.set: usd is too small; send a number above 0."),
        (
            '{"type":"ds.artifact","sha256":"x","name":"a","role":"b"}',
            "ds.artifact: sha256 is not usable; se",
        ),
        ('{"type":"ds.session.resumed"}', "The session is not paused."),
        (
            '{"type":"ds.approval.decided","request":"x","decision":"approve","reason":"y"}',
            "No request x",
        ),
    ],
)
def test_an_event_is_named_only_if_there_are_several(
    api: httpx2.Client, session: str, event: str, said: str
) -> None:
    alone, wrapped, second = event, f'{{"events":[{event}]}}', f'[{{"type":"a"}},{event}]'
    for body, named, index in ((alone, "", 0), (wrapped, "", 0), (second, "Event 1, counted from 0: ", 1)):
        error = api.post(f"{session}/events", content=body, headers=JSON).json()["error"]
        assert error["message"].startswith(named + said)
        assert error["details"]["index"] == index


@pytest.mark.parametrize(
    "body",
    [
        b'{"type":"a","content":[{"type":"a"},{"type":"text"}]}',
        b'{"content":[{"type":"text"}],"type":"a"}',
        b'{"type": "a", "content": [{"type": "text", "text": "\\u0041"}]}',
        b'{"type":"a","created_at":null,"processed_at":null}',
        b'{"type":"a","created_at":"2026-11-15T12:00:00.5+02:00"}',
        b'{"type":"a","x":1,"x":2}',
        b'{"type":"a","events":[1],"x":1}',
        b' {"events" : [{"type":"a"}] } ',
    ],
)
def test_what_is_clear_is_stored(api: httpx2.Client, session: str, body: bytes) -> None:
    assert api.post(f"{session}/events", content=body, headers=JSON).status_code == 204
    (event,) = api.get(f"{session}/events").json()["data"]
    assert event["type"] == "a"


def test_an_original_that_came_twice_is_kept_once(api: httpx2.Client, session: str) -> None:
    twice = (
        b'{"type":"a","original_created_at":"2026-11-15T12:00:00Z","n":1.0,'
        b'"original_created_at":"2020-01-01T00:00:00Z","original_actor":"x","original_actor":"y"}'
    )
    assert api.post(f"{session}/events", content=twice, headers=JSON).status_code == 204
    stored = api.get(f"{session}/events", headers={"Accept": "application/x-ndjson"}).text
    assert stored.count("original_created_at") == stored.count("original_actor") == 1
    assert '"n":1.0,"original_created_at":"2020-01-01T00:00:00Z","original_actor":"y"}' in stored
    started = api.get(session).json()["started_at"]
    assert started == "2020-01-01T00:00:00.000Z"


def test_the_other_dialect_ignores_what_is_beside_events(api: httpx2.Client, session: str) -> None:
    created = api.post("/v1/sessions", json={"agent": "a", "environment_id": "e"}, headers=THEIRS)
    body = {"events": [{"type": "user.message", "content": [{"type": "text", "text": "x"}]}], "x": 1}
    answer = api.post(f"/v1/sessions/{created.json()['id']}/events", json=body, headers=THEIRS)
    assert answer.status_code == 200

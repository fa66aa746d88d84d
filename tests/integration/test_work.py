"""Sessions as units of work, over HTTP: state, leases, judges, budgets, approvals, forks, restarts."""

import asyncio
import re
import shutil
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx2
import pytest

from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.testing.server import local_server
from tests.support.sessions import at, code, read
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.anyio

Event = dict[str, Any]
CODER = {"Session-Principal": "coder"}
JUDGE = {"Session-Principal": "judge"}
OUTCOME = {"features": [{"id": "f1", "text": "adds"}, {"id": "f2", "text": "divides"}]}
EVIDENCE = [{"rel": "because", "id": "call-1"}]


async def send(
    api: httpx2.AsyncClient, *events: Event, session: str = "s", **headers: str
) -> httpx2.Response:
    return await api.post(f"/sessions/{session}/events", json={"events": events}, headers=headers)


async def state(api: httpx2.AsyncClient, session: str = "s", **query: Any) -> dict[str, Any]:
    answer = await api.get(f"/sessions/{session}/state", params=query)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def wake(api: httpx2.AsyncClient, headers: dict[str, str], **body: Any) -> httpx2.Response:
    return await api.post("/sessions/s/wake", json=body, headers=headers)


async def test_of_two_limits_that_are_reached_the_one_in_force_is_told(api: httpx2.AsyncClient) -> None:
    await api.put("/sessions/s", json={"budget": {"tool_calls": 1, "tokens": 5}})
    call = {"type": "agent.tool_use", "id": "call-1", "name": "edit"}
    usage = {"type": "span.model_request_end", "model_usage": {"input_tokens": 9, "output_tokens": 0}}
    assert (await send(api, call, usage, **CODER)).status_code == 204
    told = [(await state(api))["budget"]["tripped"]["limit"]]
    for limit in ({"tokens": 50}, {"tool_calls": 50}):
        refused = await send(api, {"type": "agent.message"}, **CODER)
        assert (code(refused), refused.json()["error"]["details"]["limit"]) == ("budget_exceeded", told[-1])
        assert (await send(api, {"type": "ds.budget.set", **limit}, **JUDGE)).status_code == 204
        tripped = (await state(api))["budget"]["tripped"]
        told.append(None if tripped is None else tripped["limit"])
    assert told == ["tokens", "tool_calls", None]
    assert (await send(api, {"type": "agent.message"}, **CODER)).status_code == 204


async def test_of_several_who_wake_a_session_as_they_saw_it_one_gets_it(api: httpx2.AsyncClient) -> None:
    seen = (await api.put("/sessions/s", json={})).json()
    as_seen = {**CODER, "If-Match": f'"{seen["next_offset"]}"'}
    answers = await asyncio.gather(*(wake(api, as_seen) for _ in range(4)))
    assert sorted(one.status_code for one in answers) == [200, 412, 412, 412]
    assert (await state(api))["lease"]["epoch"] == 1
    of_another = {**CODER, "If-Match": '"0123456789ab"'}
    assert code(await wake(api, of_another)) == "precondition_failed"
    as_it_is = {**CODER, "If-Match": f'"{seen["incarnation"]}"'}
    assert (await wake(api, as_it_is)).json()["epoch"] == 2


async def test_a_run_through_crash_stale_worker_judge_budget_and_approval(api: httpx2.AsyncClient) -> None:
    made = await api.put(
        "/sessions/s", json={"goal": "Mend calc", "outcome": OUTCOME, "budget": {"tool_calls": 3}}
    )
    assert made.status_code == 201, made.text
    assert (made.json()["done"], made.json()["lifecycle"]) == (False, "open")
    first = (await wake(api, CODER, worker="host-1")).json()
    assert (first["epoch"], first["state"]["goal"]["text"]) == (1, "Mend calc")
    mine = CODER | {"Session-Epoch": "1"}
    call = {"type": "agent.tool_use", "id": "call-1", "name": "edit", "effect": "non_idempotent"}
    assert (await send(api, call, **mine)).status_code == 204
    # The worker dies here. Another one of the same principal takes over; the first is fenced.
    second = (await wake(api, CODER, worker="host-2")).json()
    assert second["epoch"] == 2
    assert [(one["id"], one["advice"]) for one in second["unfinished"]] == [("call-1", "ask")]
    assert code(await send(api, {"type": "agent.message"}, **mine)) == "lease_lost"
    mine["Session-Epoch"] = "2"
    assert (
        await send(api, {"type": "agent.tool_result", "tool_use_id": "call-1"}, **mine)
    ).status_code == 204
    # Somebody else judges.
    verdict = {"type": "ds.evaluation", "feature": "f1", "verdict": "pass", "refs": EVIDENCE}
    assert code(await send(api, verdict, **CODER)) == "not_independent"
    assert (await send(api, verdict, **JUDGE)).status_code == 204
    assert [one["passing"] for one in (await state(api))["outcome"]["features"]] == [True, False]
    # The budget stops, a judge raises it.
    for name in ("a", "b"):
        assert (await send(api, {"type": "agent.tool_use", "name": name}, **mine)).status_code == 204
    refused = await send(api, {"type": "agent.tool_use", "name": "c"}, **mine)
    assert (refused.status_code, code(refused)) == (409, "budget_exceeded")
    assert refused.headers["x-should-retry"] == "false"
    assert (await state(api))["lifecycle"] == "paused"
    assert (await send(api, {"type": "ds.budget.set", "tool_calls": 9}, **JUDGE)).status_code == 204
    # An approval stops, too.
    ask = {"type": "ds.approval.requested", "id": "ask-1", "question": "Deploy?"}
    assert (await send(api, ask, **mine)).status_code == 204
    assert code(await send(api, {"type": "agent.message"}, **mine)) == "approval_pending"
    decision = {"type": "ds.approval.decided", "request": "ask-1", "decision": "approve", "reason": "fine"}
    assert (await send(api, decision, **JUDGE)).status_code == 204
    assert code(await send(api, decision, **JUDGE)) == "nothing_pending"
    assert (await send(api, verdict | {"feature": "f2"}, **JUDGE)).status_code == 204
    released = await api.post("/sessions/s/release", json={"epoch": 2}, headers=CODER)
    assert released.status_code == 200
    ended = await api.post("/sessions/s/close", json={"outcome": "completed"}, headers=CODER)
    assert (ended.json()["done"], ended.json()["status"]) == (True, "terminated")
    closed = await wake(api, CODER)
    assert code(closed) == "stream_closed"
    assert len(closed.json()["error"]["details"]["tail"]) == 33, "an offset"
    kinds = [event["type"] for event in await read(api, "s")]
    assert kinds[-2:] == ["ds.session.ended", "session.status_terminated"]


async def test_their_words_follow_ours(api: httpx2.AsyncClient) -> None:
    await send(api, {"type": "user.message"})
    await wake(api, CODER)
    await send(api, {"type": "ds.session.paused", "reason": "lunch"})
    await send(api, {"type": "ds.session.resumed"})
    call = {"type": "agent.tool_use", "id": "call-1", "name": "deploy"}
    await send(api, call, **CODER, **{"Session-Epoch": "1"})
    about = [{"rel": "about", "id": "call-1"}]
    await send(api, {"type": "ds.approval.requested", "id": "ask-1", "question": "May I?", "refs": about})
    refusal = {"type": "ds.approval.decided", "request": "ask-1", "decision": "reject", "reason": "no"}
    await send(api, refusal, **JUDGE)
    await api.post("/sessions/s/release", json={"epoch": 1}, headers=CODER)
    events = await read(api, "s")
    theirs = [event for event in events if event["type"].startswith(("session.", "user.tool"))]
    assert [event["type"] for event in theirs] == [
        "session.status_running",
        "session.status_idle",  # paused
        "session.status_running",  # resumed, the lease is held
        "session.status_idle",  # the request
        "user.tool_confirmation",
        "session.status_running",
        "session.status_idle",  # released
    ]
    assert theirs[3]["stop_reason"] == {"type": "requires_action", "event_ids": ["call-1"]}
    assert (theirs[4]["tool_use_id"], theirs[4]["result"], theirs[4]["deny_message"]) == (
        "call-1",
        "deny",
        "no",
    )


async def test_a_repeat_is_answered_as_the_first_time_and_writes_no_companion_again(
    api: httpx2.AsyncClient,
) -> None:
    pause = {"type": "ds.session.paused", "id": "p1", "reason": "r"}
    await send(api, {"type": "session.status_running"})
    for _ in range(3):
        assert (await send(api, pause)).status_code == 204
    key = {"Idempotency-Key": "k"}
    for _ in range(2):
        answer = await send(api, {"type": "ds.session.resumed"}, **key)
        assert (answer.status_code, answer.headers["stream-next-offset"]) == (204, at(5))
    assert len(await read(api, "s")) == 5


async def test_invariant_11_one_bad_event_refuses_the_whole_batch(api: httpx2.AsyncClient) -> None:
    refused = await send(api, {"type": "note"}, {"type": "ds.fact", "value": 1})
    assert (refused.status_code, code(refused)) == (400, "invalid_event")
    details = refused.json()["error"]["details"]
    assert (details["index"], details["path"]) == (1, "key")
    assert (await api.get("/sessions/s")).status_code == 404, "nothing was created, either"


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        ({"type": "ds.fcat"}, "unknown_event_type"),
        ({"type": "ds.memory.lost"}, "unknown_event_type"),
        ({"type": "ds.lease.claimed", "epoch": 1}, "invalid_event"),
        ({"type": "ds.context.reset", "checkpoint": "note-1"}, "unresolved_reference"),
        ({"type": "ds.context.reset", "checkpoint": "nowhere"}, "unresolved_reference"),
        ({"type": "ds.artifact", "sha256": "0" * 64, "name": "n", "role": "r"}, "unresolved_reference"),
        (
            {"type": "ds.fact", "key": "k", "value": 1, "refs": [{"rel": "because", "id": "no"}]},
            "unresolved_reference",
        ),
        (
            {
                "type": "ds.fact",
                "key": "k",
                "value": 1,
                "refs": [{"rel": "uses", "id": "e", "session": "other"}],
            },
            "unresolved_reference",
        ),
    ],
)
async def test_what_leads_nowhere_is_refused(api: httpx2.AsyncClient, event: Event, expected: str) -> None:
    await send(api, {"type": "note", "id": "note-1"})
    refused = await send(api, event)
    assert (refused.status_code, code(refused)) == (400, expected)
    assert len(await read(api, "s")) == 1


async def test_free_types_take_the_same_strange_members(api: httpx2.AsyncClient) -> None:
    assert (await send(api, {"type": "note", "refs": 7, "verdict": "maybe"})).status_code == 204


async def test_refs_reach_other_sessions_and_name_their_life(api: httpx2.AsyncClient) -> None:
    await send(api, {"type": "note", "id": "n1"}, session="other")
    life = (await api.get("/sessions/other")).json()["incarnation"]
    refs = [{"rel": "because", "id": "n1", "session": "other"}, {"rel": "about", "id": "own"}]
    sent = await send(
        api, {"type": "note", "id": "own"}, {"type": "ds.fact", "key": "k", "value": 1, "refs": refs}
    )
    assert sent.status_code == 204, sent.text
    assert (await read(api, "s"))[1]["ref_incarnations"] == [life, None]


async def test_a_holder_with_one_name_is_named_once(api: httpx2.AsyncClient) -> None:
    await send(api, {"type": "note"})
    principal = CODER["Session-Principal"]
    await wake(api, CODER, worker=principal, seconds=600)
    claimed = await wake(api, JUDGE)
    assert claimed.json()["error"]["message"].startswith(f"{principal} holds this session until")


async def test_a_state_beyond_the_end_is_refused_in_the_words_of_the_request(api: httpx2.AsyncClient) -> None:
    await send(api, {"type": "note"})
    for path in ("state", "slots"):
        refused = await api.get(f"/sessions/s/{path}", params={"at": "999"})
        assert (refused.status_code, code(refused)) == (400, "offset_beyond_tail")
        assert "at 999 lies beyond the end of the session" in refused.json()["error"]["message"]


async def test_a_live_lease_of_another_is_respected_and_can_be_forced(api: httpx2.AsyncClient) -> None:
    await send(api, {"type": "note"})
    await wake(api, CODER, worker="host-1", seconds=600)
    claimed = await wake(api, JUDGE)
    assert (claimed.status_code, code(claimed)) == (409, "session_claimed")
    assert claimed.json()["error"]["details"]["worker"] == "host-1"
    assert re.match(r"host-1 \(\S+\) holds this session", claimed.json()["error"]["message"])
    assert int(claimed.headers["retry-after"]) > 500
    assert "x-should-retry" not in claimed.headers
    assert (await wake(api, JUDGE, force=True)).json()["epoch"] == 2
    assert code(await api.post("/sessions/s/renew", json={"epoch": 1}, headers=CODER)) == "lease_lost"
    assert (await api.post("/sessions/s/renew", json={"epoch": 2}, headers=JUDGE)).json()["epoch"] == 2
    await renewals_are_compared(api)


async def test_routes_name_who_is_next_and_what_must_pass(api: httpx2.AsyncClient) -> None:
    await api.put("/sessions/s", json={"outcome": OUTCOME})
    await send(api, {"type": "ds.routed", "to": "coder", "reason": "go on", "needs": ["f1"]})
    assert code(await wake(api, JUDGE)) == "not_routed"
    gate = await wake(api, CODER)
    assert (code(gate), gate.json()["error"]["details"]["features"]) == ("gate_closed", ["f1"])
    assert (await state(api))["route"]["open"] is False
    refs = [{"rel": "because", "id": "n1"}]
    await send(api, {"type": "note", "id": "n1"})
    await send(api, {"type": "ds.evaluation", "feature": "f1", "verdict": "pass", "refs": refs}, **JUDGE)
    assert (await wake(api, CODER)).status_code == 200


async def test_the_state_at_an_offset_stays_what_it_was(api: httpx2.AsyncClient) -> None:
    await send(api, {"type": "ds.fact", "key": "k", "value": 1})
    before = await state(api, at=1)
    await send(api, {"type": "ds.fact", "key": "k", "value": 2}, {"type": "agent.message"})
    assert await state(api, at=1) == before
    assert await state(api, at=at(1)) == before
    assert (await state(api))["facts"]["k"]["value"] == 2
    for query, expected in (
        ("at=9", "offset_beyond_tail"),
        ("at=x", "invalid_offset"),
        ("at=-1", "invalid_offset"),
        ("foo=1", "unknown_parameter"),
    ):
        refused = await api.get(f"/sessions/s/state?{query}")
        assert (refused.status_code, code(refused)) == (400, expected)
        if expected == "invalid_offset":
            said = "is malformed. Send a position, such as 5, or an offset as it came."
            assert said in refused.json()["error"]["message"]


async def test_a_ref_that_names_its_own_session_is_checked_too(api: httpx2.AsyncClient) -> None:
    call = {"type": "agent.tool_use", "name": "deploy", "id": "c1"}
    await send(api, call)
    fact = {"type": "ds.fact", "key": "k", "value": 1}
    for target, status in (("c1", 204), ("nowhere", 400)):
        refs = [{"rel": "because", "id": target, "session": "s"}]
        answer = await send(api, {**fact, "refs": refs})
        assert answer.status_code == status, target
    refused = answer.json()["error"]["details"]
    assert (refused["error_code"], refused["path"]) == ("unresolved_reference", "refs[0]")
    about = [{"rel": "about", "id": "c1", "session": name} for name in ("other", "s")]
    await send(api, {"type": "note", "id": "c1"}, session="other")
    await send(api, {"type": "ds.approval.requested", "question": "q", "refs": about})
    shown = (await state(api))["approvals"]["pending"]
    assert [one["about"] for one in shown] == ["c1"], "the one of this session"
    await send(api, {"type": "ds.approval.requested", "question": "q", "refs": about[:1]})
    assert [one["about"] for one in (await state(api))["approvals"]["pending"]] == ["c1", None]


async def test_a_repeat_is_answered_when_what_it_refers_to_is_gone(api: httpx2.AsyncClient) -> None:
    await send(api, {"type": "note", "id": "n"}, session="gone")
    fact = {"type": "ds.fact", "key": "k", "value": 1, "id": "f"}
    fact["refs"] = [{"rel": "because", "id": "n", "session": "gone"}]
    unnamed = {name: value for name, value in fact.items() if name != "id"}
    producer = {"Producer-Id": "p", "Producer-Epoch": "0", "Producer-Seq": "0"}
    body = {"because": fact["refs"]}
    write = {"type": "ds.memory.written", "scope": "project:x", "key": "k", "value": 1, "why": "reflection"}
    write |= {"id": "w", "refs": body["because"]}
    requests: list[tuple[str, str, Any, dict[str, str]]] = [
        ("POST", "/sessions/s/events", fact, {}),
        ("POST", "/sessions/s/events", write, {}),
        ("POST", "/sessions/keyed/events", unnamed, {"Idempotency-Key": "k"}),
        ("POST", "/sessions/numbered/events", unnamed, producer),
        ("PUT", "/sessions/begun", {"initial_events": [fact]}, {}),
    ]
    for method, path, sent, headers in requests:
        answer = await api.request(method, path, json=sent, headers=headers)
        assert answer.status_code in (201, 204), answer.text
    ends = [(await api.get(path.removesuffix("/events"))).json()["next_offset"] for _, path, *_ in requests]
    assert (await api.delete("/sessions/gone")).status_code == 200
    for method, path, sent, headers in requests:
        again = await api.request(method, path, json=sent, headers=headers)
        assert again.status_code in (200, 204), (path, again.text)
    assert ends == [
        (await api.get(path.removesuffix("/events"))).json()["next_offset"] for _, path, *_ in requests
    ]
    # Together with a new event, too; but what is new is checked.
    assert (await send(api, fact, {"type": "note"})).status_code == 204
    for new in (unnamed, {**fact, "id": "g"}):
        refused = await send(api, fact, new)
        assert (refused.status_code, code(refused)) == (400, "unresolved_reference")
        assert refused.json()["error"]["details"]["index"] == 1
    refused = await api.put("/sessions/other", json={"initial_events": [fact]})
    assert (refused.status_code, code(refused)) == (400, "unresolved_reference")


@pytest.mark.parametrize("how", ["deleted", "redacted"])
async def test_an_artifact_that_is_gone_is_no_obstacle_to_a_repeat(api: httpx2.AsyncClient, how: str) -> None:
    digest = sha256(b"patch").hexdigest()
    await api.put(f"/artifacts/{digest}", content=b"patch")
    artifact = {"type": "ds.artifact", "sha256": digest, "name": "n", "role": "diff"}
    await send(api, {"type": "note", "id": "n"}, {**artifact, "id": "a"})
    if how == "deleted":
        assert (await api.delete(f"/artifacts/{digest}")).status_code == 204
    else:
        redaction = {"events": ["n"], "artifacts": [digest], "reason": "r"}
        assert (await api.post("/sessions/s/redact", json=redaction)).status_code == 200
    assert (await send(api, {**artifact, "id": "a"})).status_code == 204
    refused = await send(api, artifact)
    assert (refused.status_code, code(refused)) == (400, "unresolved_reference")


async def test_an_adoption_is_repeated_when_the_branch_is_gone(api: httpx2.AsyncClient) -> None:
    await send(api, {"type": "note"})
    await api.put("/sessions/b", headers={"Stream-Forked-From": "/v1/sessions/s"})
    await send(api, {"type": "ds.fact", "key": "k", "value": 1}, session="b")
    answers = []
    for _ in range(2):
        answers.append(
            await api.post("/sessions/s/adopt", json={"session": "b"}, headers={"Idempotency-Key": "k"})
        )
        await api.delete("/sessions/b")
    assert [answer.status_code for answer in answers] == [200, 200]
    assert answers[0].json() == answers[1].json()
    refused = await api.post("/sessions/s/adopt", json={"session": "b"}, headers={"Idempotency-Key": "l"})
    assert (refused.status_code, code(refused)) == (404, "session_not_found")


@pytest.mark.parametrize("how", ["close", "close with an outcome", "archive"])
async def test_nobody_works_on_a_session_that_has_ended(api: httpx2.AsyncClient, how: str) -> None:
    """A plain close writes no event, so the last one still says that the session is running."""
    await send(api, {"type": "agent.message"}, {"type": "session.status_running"})
    await api.post("/sessions/s/wake", json={})
    await send(api, {"type": "note"})
    assert (await state(api))["lease"]["epoch"] == 1
    body = {"outcome": "completed"} if how == "close with an outcome" else None
    assert (await api.post(f"/sessions/s/{how.split()[0]}", json=body)).status_code == 200
    listed = (await api.get("/sessions?include_archived=true")).json()["data"]
    for shown in (await state(api), (await api.get("/sessions/s")).json(), *listed):
        assert (shown["status"], shown["lease"]) == ("terminated", None)
    past = await state(api, at=3)
    assert (past["status"], past["lease"]["epoch"]) == ("running", 1), "the past stays as it was"


async def test_a_fork_before_the_last_change_begins_with_what_was_so_there(api: httpx2.AsyncClient) -> None:
    await api.put("/sessions/s", json={"outcome": OUTCOME})
    await send(api, {"type": "agent.message"}, **CODER)
    await send(api, {"type": "ds.session.paused", "reason": "r"}, {"type": "ds.budget.set", "tool_calls": 1})
    for session, base in (("early", 1), ("late", 4)):
        forked = {"Stream-Forked-From": "/v1/sessions/s", "Stream-Fork-Offset": at(base)}
        made = await api.put(f"/sessions/{session}", headers=forked)
        assert made.status_code == 201, made.text
    early, late = await state(api, "early"), await state(api, "late")
    assert (early["generators"], late["generators"]) == ([], ["coder"])
    assert (early["budget"], late["budget"]["limits"]) == (None, {"tool_calls": 1})
    assert early["stops"] == late["stops"] == []
    assert early["outcome"]["features"][0]["id"] == "f1"
    assert (await send(api, {"type": "agent.message"}, session="late")).status_code == 204


async def test_invariant_2_everything_holds_after_a_restart_and_without_derived_files(tmp_path: Path) -> None:
    async with (
        local_server(tmp_path / "data") as server,
        httpx2.AsyncClient(base_url=server.url + "/v1", timeout=PATIENCE_SECONDS) as api,
    ):
        await api.put("/sessions/s", json={"goal": "g", "outcome": OUTCOME})
        await wake(api, CODER, seconds=3_600)
        await send(api, {"type": "agent.message"}, **CODER, **{"Session-Epoch": "1"})
        await send(api, {"type": "ds.session.paused", "reason": "r"})
        before = await state(api)
        assert (await api.get("/sessions/s/outline")).status_code == 200
        context = (await api.get("/sessions/s/context")).content
        handoff = (await api.get("/sessions/s/handoff")).content
    for derived in ("catalog*", "views.sqlite*"):
        for file in (tmp_path / "data").rglob(derived):
            file.unlink()
    shutil.rmtree(tmp_path / "data" / "search", ignore_errors=True)
    async with (
        local_server(tmp_path / "data") as server,
        httpx2.AsyncClient(base_url=server.url + "/v1", timeout=PATIENCE_SECONDS) as api,
    ):
        after = await state(api)
        before["lease"].pop("expires_at")
        after["lease"].pop("expires_at")
        assert after == before
        assert (await api.get("/sessions/s/context")).content == context
        assert (await api.get("/sessions/s/handoff")).content == handoff
        assert (
            code(await send(api, {"type": "agent.message"}, **CODER, **{"Session-Epoch": "1"}))
            == "session_paused"
        )
        assert code(await send(api, {"type": "agent.message"}, **CODER)) == "lease_required"


async def test_the_handoff_is_written_as_files(api: httpx2.AsyncClient) -> None:
    await api.put("/sessions/s", json={"goal": "Mend calc", "outcome": OUTCOME})
    await send(
        api, {"type": "ds.checkpoint", "units": 1, "next": "f2", "instructions": "Run make.", "done": ["f1"]}
    )
    files = (await api.get("/sessions/s/handoff")).json()["files"]
    assert "Mend calc" in files["handoff.md"]
    assert ": 1 unit\ndone: " in files["progress.txt"]
    assert "next: f2" in files["progress.txt"]
    assert '"passes": false' in files["feature-list.json"]
    begun = (await api.get("/sessions/s/handoff?at=0")).json()
    assert begun["offset"] == f"{0:016}_{0:016}"
    assert begun["files"]["feature-list.json"] == "[]\n"
    assert "Mend calc" not in begun["files"]["handoff.md"]
    alone = await api.get("/sessions/s/handoff?file=prd.json")
    assert (alone.text, alone.headers["content-type"]) == (
        files["feature-list.json"],
        "text/plain; charset=utf-8",
    )


async def test_principals_are_declared_without_keys_and_checked_with_them(api: httpx2.AsyncClient) -> None:
    for path in ("/sessions", "/sessions/s/state", "/sessions/s/events"):
        assert code(await api.get(path, headers={"Session-Principal": "no name!"})) == "invalid_header"
    assert code(await send(api, {"type": "note"}, **{"Session-Principal": "no spaces"})) == "invalid_header"
    await send(api, {"type": "note"}, **CODER)
    assert (await read(api, "s"))[0]["actor"] == "coder"
    assert "principals_declared" in [one["code"] for one in (await state(api))["warnings"]]


async def test_a_repeat_is_answered_also_after_a_take_over(api: httpx2.AsyncClient) -> None:
    await api.put("/sessions/s")
    await wake(api, CODER)
    mine = CODER | {"Session-Epoch": "1"}
    said = [{"type": "agent.message", "id": "m1"}, {"type": "agent.message", "id": "m2"}]
    assert (await send(api, *said, **mine)).status_code == 204
    await wake(api, CODER)
    assert (await send(api, *said, **mine)).status_code == 204
    assert (await send(api, *said, **CODER)).status_code == 204, "without a lease it would be refused"
    assert code(await send(api, *said, {"type": "agent.message", "id": "m3"}, **mine)) == "lease_lost"
    assert [event["id"] for event in await read(api, "s") if event["type"] == "agent.message"] == ["m1", "m2"]


async def test_verbs_of_a_stale_worker_are_refused(api: httpx2.AsyncClient) -> None:
    await api.put("/sessions/s")
    assert (await api.put("/sessions/b", headers={"Stream-Forked-From": "/v1/sessions/s"})).status_code == 201
    for session in ("s", "b"):
        fact = {"type": "ds.fact", "key": "k", "value": session}
        assert (await send(api, fact, session=session)).status_code == 204
    for _ in range(2):
        life = (await wake(api, CODER)).headers["Session-Incarnation"]
    stale = CODER | {"Session-Epoch": "1"}
    released = await api.post("/sessions/s/release", json={"epoch": 2}, headers=stale)
    assert (released.status_code, code(released)) == (403, "lease_lost")
    adopted = await api.post("/sessions/s/adopt", json={"session": "b"}, headers=stale)
    assert (adopted.status_code, code(adopted)) == (403, "lease_lost"), "before it is seen that facts differ"
    other = await api.post("/sessions/s/release?incarnation=000000000000", json={"epoch": 2}, headers=CODER)
    assert code(other) == "precondition_failed"
    ended = {"outcome": "completed"}
    for condition in ({"If-Match": f'"{at(1)}"'}, {"If-Match": '"000000000000"'}):
        assert (await api.post("/sessions/s/close", json=ended, headers=condition)).status_code == 412
    kept = {"If-Match": f'"{life}"'}
    assert (await api.post("/sessions/s/close", json=ended, headers=kept)).json()["status"] == "terminated"


async def test_malformed_epochs_are_refused(api: httpx2.AsyncClient) -> None:
    assert code(await send(api, {"type": "note"}, **{"Session-Epoch": "first"})) == "invalid_header"
    assert code(await send(api, {"type": "note"}, **{"Session-Epoch": "1"})) == "lease_lost"


async def test_erased_texts_are_gone_from_the_state_and_what_they_decided_stays(
    api: httpx2.AsyncClient,
) -> None:
    secret = "the password is hunter2"
    await send(api, {"type": "ds.outcome.defined", "id": "o", "features": [{"id": "f1", "text": secret}]})
    await send(api, {"type": "ds.approval.requested", "id": "a", "question": secret})
    await send(api, {"type": "ds.fact", "id": "f", "key": "k", "value": secret})
    assert secret in str(await state(api))
    redacted = await api.post("/sessions/s/redact", json={"events": ["o", "a", "f"], "reason": "secret"})
    assert redacted.status_code == 200, redacted.text
    now = await state(api)
    assert secret not in str(now)
    assert secret not in str(await state(api, at=3))
    assert secret not in (await api.get("/sessions/s")).text
    assert [one["id"] for one in now["outcome"]["features"]] == ["f1"]
    assert [one["id"] for one in now["approvals"]["pending"]] == ["a"]
    assert now["facts"]["k"]["value"] is None
    assert code(await send(api, {"type": "agent.message"})) == "approval_pending"


async def test_nobody_imports_a_verdict_or_a_way_round_a_stop(api: httpx2.AsyncClient) -> None:
    await api.put("/sessions/s", json={"outcome": OUTCOME})
    imported = {"Session-Import": "elsewhere"}
    verdict = {"type": "ds.evaluation", "feature": "f1", "verdict": "pass", "actor": "them"}
    lease = {"type": "ds.lease.claimed", "epoch": 9, "worker": "w", "seconds": 60, "exclusive": True}
    fact = {"type": "ds.fact", "key": "k", "value": 1, "actor": "them"}
    assert (
        await send(api, verdict, lease, fact, {"type": "ds.odd", "any": 1}, **imported)
    ).status_code == 204
    now = await state(api)
    assert (now["lease"], now["epoch"]) == (None, 0), "leases excepted"
    assert now["facts"]["k"]["actor"] == "them", "an admin vouches for the rest"
    assert now["outcome"]["features"][0]["evaluated_by"] == "them"
    assert now["generators"] == []
    assert "imported_untrusted" in [one["code"] for one in now["warnings"]], "ds.odd has no meaning"


@pytest.mark.parametrize("mark", ["trusted", "untrusted"])
async def test_who_claims_that_his_work_was_imported_is_its_generator_all_the_same(
    api: httpx2.AsyncClient, mark: str
) -> None:
    await api.put("/sessions/s", json={"outcome": OUTCOME})
    await send(api, {"type": "agent.message", "content": "done", "imported": mark})
    assert (await state(api))["generators"] == ["local"]
    (_, event) = await read(api, "s")
    assert "imported" not in event


async def test_a_handoff_is_bounded(tmp_path: Path) -> None:
    limits = replace(DEFAULT_LIMITS, handoff_bytes_max=5_000, init_script_bytes_max=10)
    async with (
        local_server(tmp_path / "data", limits=limits) as server,
        httpx2.AsyncClient(base_url=server.url + "/v1", timeout=PATIENCE_SECONDS) as api,
    ):
        for number in range(20):
            said = {"units": number, "next": "n", "instructions": f"step {number} " + "x" * 500}
            await send(api, {"type": "ds.checkpoint", **said})
        script = b"echo " + b"y" * 6
        digest = sha256(script).hexdigest()
        for size, expected in ((10, script[:10].decode()), (11, "too large")):
            digest = sha256(script[:size]).hexdigest()
            await api.put(f"/artifacts/{digest}", content=script[:size])
            await send(api, {"type": "ds.artifact", "sha256": digest, "name": "init.sh", "role": "init"})
            files = (await api.get("/sessions/s/handoff")).json()["files"]
            assert expected in files["init.sh"]
        assert "19 units" in files["progress.txt"]
        assert not files["progress.txt"].splitlines()[0].endswith((": 0 units", ": 1 unit"))
        assert len(files["progress.txt"]) < 6_000


async def renewals_are_compared(api: httpx2.AsyncClient) -> None:
    """Of two workers under one claim, only the one that knows the last renewal goes on."""

    async def renewed(**more: Any) -> httpx2.Response:
        return await api.post("/sessions/s/renew", json={"epoch": 2, **more}, headers=JUDGE)

    last = (await renewed()).json()["renewed_at"]
    for stale in (None, "2026-01-01T00:00:00.000Z"):
        refused = await renewed(last=stale)
        assert (refused.status_code, code(refused)) == (412, "heartbeat_precondition_failed")
    for _ in range(3):
        following = (await renewed(last=last)).json()["renewed_at"]
        assert following > last
        assert code(await renewed(last=last)) == "heartbeat_precondition_failed"
        last = following
    assert (await renewed(last=7)).status_code == 400

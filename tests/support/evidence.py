"""A family of sessions with something of everything that dossiers show: a bug mended at the second try."""

import hashlib
from typing import Any

import httpx2

CODER = {"Session-Principal": "coder"}
JUDGE = {"Session-Principal": "judge"}
FEATURE = {"id": "f1", "text": "sum is right", "check": "pytest -q"}
EFFECT = {"effect": "idempotent"}
FILES = {
    "repo_state": b"commit 1a2b3c\n",
    "diff": b"--- a/calc.py\n+++ b/calc.py\n",
    "test_log": b"1 failed\n",
    "input": b"1,2,3\n",
    "policy": b"Never sell what you do not have.\n",
}
DIGESTS = {role: hashlib.sha256(data).hexdigest() for role, data in FILES.items()}


async def put_files(api: httpx2.AsyncClient) -> None:
    """Store the artifacts."""
    for role, data in FILES.items():
        stored = await api.put(f"/artifacts/{DIGESTS[role]}", content=data)
        assert stored.status_code in (200, 201), stored.text


async def post(
    api: httpx2.AsyncClient, session: str, *events: dict[str, Any], by: dict[str, str] = CODER
) -> None:
    """Append events as somebody."""
    sent = await api.post(f"/sessions/{session}/events", json={"events": events}, headers=by)
    assert sent.status_code == 204, sent.text


async def tell_story(api: httpx2.AsyncClient, session: str = "issue-7", fork: str = "issue-7-b") -> None:
    """Let a coder fail, a judge reject, and a branch pass, which is adopted."""
    await put_files(api)
    said = {"goal": "Mend calc", "outcome": {"features": [FEATURE]}}
    assert (await api.put(f"/sessions/{session}", json=said, headers=JUDGE)).status_code == 201
    woken = await api.post(f"/sessions/{session}/wake", json={"worker": "w1"}, headers=CODER)
    epoch = {**CODER, "Session-Epoch": str(woken.json()["epoch"])}
    await post(
        api,
        session,
        {"type": "user.message", "id": "m1", "content": "please"},
        {"type": "ds.sandbox", "id": "box", "sandbox": "sb-1", "backend": "local", "status": "ready"},
        *(_attached(role) for role in FILES),
        {
            "type": "agent.tool_use",
            "id": "c1",
            "name": "edit",
            "input": {"path": "calc.py"},
            "effect": "idempotent",
        },
        {
            "type": "agent.tool_result",
            "id": "r1",
            "tool_use_id": "c1",
            "content": "done",
            "effects": [{"kind": "file", "target": "calc.py"}],
        },
        {"type": "agent.tool_use", "id": "c2", "name": "pytest", "input": {}, "schema_sha256": "ab" * 32},
        {
            "type": "agent.tool_result",
            "id": "r2",
            "tool_use_id": "c2",
            "content": "1 failed",
            "is_error": True,
        },
        {"type": "ds.fact", "id": "why", "key": "cause", "value": "off by one", "kind": "decision"},
        {"type": "ds.checkpoint", "id": "cp", "units": 1, "next": "f1", "instructions": "look at sum"},
        {
            "type": "ds.memory.written",
            "id": "mem",
            "scope": "project:calc",
            "key": "sum",
            "value": "inclusive",
            "why": "failed_attempt",
            "refs": [{"rel": "because", "id": "r2"}],
        },
        {"type": "ds.routed", "id": "route", "to": "judge", "reason": "verify f1"},
        by=epoch,
    )
    await post(api, session, _verdict("e1", "fail", "r2", 1), by=JUDGE)
    forked = await api.put(
        f"/sessions/{fork}", headers={**CODER, "Stream-Forked-From": f"/v1/sessions/{session}"}
    )
    assert forked.status_code == 201, forked.text
    await post(
        api,
        fork,
        {"type": "agent.tool_use", "id": "c3", "name": "edit", "input": {"path": "calc.py", "n": 2}},
        {"type": "agent.tool_result", "id": "r3", "tool_use_id": "c3", "content": "done"},
    )
    await post(api, fork, _verdict("e2", "pass", "r3", 0), by=JUDGE)
    adopted = await api.post(f"/sessions/{session}/adopt", json={"session": fork}, headers=JUDGE)
    assert adopted.status_code == 200, adopted.text


def _attached(role: str) -> dict[str, Any]:
    return {
        "type": "ds.artifact",
        "id": f"a-{role}",
        "sha256": DIGESTS[role],
        "name": f"{role}.txt",
        "role": role,
    }


def _verdict(name: str, verdict: str, evidence: str, status: int) -> dict[str, Any]:
    return {
        "type": "ds.evaluation",
        "id": name,
        "verdict": verdict,
        "feature": "f1",
        "command": "pytest -q",
        "exit_code": status,
        "metrics": {"failures": status},
        "refs": [{"rel": "evaluates", "id": evidence}],
    }

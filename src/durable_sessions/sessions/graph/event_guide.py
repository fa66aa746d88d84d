"""What the structs of strict events cannot say of themselves: the rules of each type, and an example.

The rules are checked in ``strict.py`` and ``rules.py``; here they stand in words, for the OpenAPI document
and the reference page. Names of limits in braces stand for their values. Tests check every example.
"""

from typing import Any, NamedTuple


class EventGuide(NamedTuple):
    """The rules of a type, and an event of this type."""

    rules: str
    example: dict[str, Any]


_DIGEST = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
_CALL = {"rel": "because", "id": "call-1"}

GUIDE: dict[str, EventGuide] = {
    "ds.session.paused": EventGuide(
        "A stop: while it lasts `agent.*` and `span.*` are 409 `session_paused`, but for reports of what "
        "already runs. If the session is paused: 409 `invalid_transition`.",
        {"type": "ds.session.paused", "reason": "The staging database is being moved."},
    ),
    "ds.session.resumed": EventGuide(
        "Unless the session is paused: 409 `invalid_transition`.",
        {"type": "ds.session.resumed", "reason": "The database is back."},
    ),
    "ds.session.ended": EventGuide(
        "Written by `POST …/close` with an `outcome`. Behind it comes only its word for Managed Agents' "
        "clients.",
        {"type": "ds.session.ended", "outcome": "completed", "reason": "Every feature passes."},
    ),
    "ds.lease.claimed": EventGuide(
        "Written by `POST …/wake`. From here on appends with an older epoch are 403 `lease_lost`.",
        {"type": "ds.lease.claimed", "epoch": 2, "worker": "host-3", "seconds": 60, "exclusive": True},
    ),
    "ds.lease.released": EventGuide(
        "Written by `POST …/release`.",
        {"type": "ds.lease.released", "epoch": 2, "worker": "host-3"},
    ),
    "ds.routed": EventGuide(
        "Waking as another principal is then 403 `not_routed`, and 409 `gate_closed` while a feature in "
        "`needs` does not pass. A feature that is not in the outcome: 400 `invalid_event`. `see` narrows "
        "the context of the next worker; it hides nothing from who may read the session.",
        {
            "type": "ds.routed",
            "to": "judge",
            "reason": "Verify f1.",
            "needs": ["f1"],
            "see": {"types": ["user.*", "agent.*"], "last": 50, "facts": ["build.*"]},
        },
    ),
    "ds.fact": EventGuide(
        "The last value of a key counts. Facts are in every context, whole. The value of a `goal` is a "
        "text, and the first goal stays the goal: later ones are shown as changes. At most "
        "{facts_per_session_max:,} in a session, retractions included: 409 `too_many_facts`.",
        {
            "type": "ds.fact",
            "key": "cause",
            "value": "range() ends early",
            "kind": "decision",
            "refs": [_CALL],
        },
    ),
    "ds.fact.retracted": EventGuide(
        "A key that is not known is a warning in the state, no error.",
        {"type": "ds.fact.retracted", "key": "cause", "reason": "It was the cache after all."},
    ),
    "ds.outcome.defined": EventGuide(
        "Any writer may send the first one; each further one replaces the list and is a judgement. Ids of "
        "features are unique. Of an amended outcome, features with the same check and files keep their "
        "verdict. At most {outcome_bytes_max:,} bytes.",
        {
            "type": "ds.outcome.defined",
            "features": [
                {
                    "id": "f1",
                    "text": "The sum has its last summand.",
                    "check": "pytest -q tests/test_calc.py",
                    "files": [{"path": "tests/test_calc.py", "sha256": _DIGEST}],
                }
            ],
            "description": "calc adds correctly.",
        },
    ),
    "ds.evaluation": EventGuide(
        "A judgement. It has at least one ref `evaluates` or `because`. Without `feature` it is about the "
        "whole session; a feature that is not in the outcome is 400 `invalid_event`. If the feature has "
        "`files`, a `pass` carries exactly these: else 409 `ratchet`.",
        {
            "type": "ds.evaluation",
            "feature": "f1",
            "verdict": "pass",
            "score": 0.97,
            "metrics": {"tests": 12, "seconds": 0.8},
            "command": "pytest -q tests/test_calc.py",
            "exit_code": 0,
            "files": [{"path": "tests/test_calc.py", "sha256": _DIGEST}],
            "note": "In a fresh clone.",
            "refs": [{"rel": "evaluates", "id": "checkpoint-1"}],
        },
    ),
    "ds.checkpoint": EventGuide(
        "What it says is done is the worker's claim, never a verdict.",
        {
            "type": "ds.checkpoint",
            "id": "checkpoint-1",
            "units": 1,
            "done": ["f1"],
            "next": "Have f1 judged.",
            "instructions": "Run the tests in a fresh clone.",
            "git": {"commit": "4f2a91c", "branch": "main"},
            "state": {"attempt": 2},
        },
    ),
    "ds.context.compacted": EventGuide(
        "0 ≤ `from` < `to` ≤ its own position: else 400 `invalid_event`. It changes the context only, "
        "never the state; facts, goal, outcome and pending approvals stay whole.",
        {
            "type": "ds.context.compacted",
            "from": 0,
            "to": 2,
            "summary": "Two tests failed: the cache was not up.",
        },
    ),
    "ds.context.reset": EventGuide(
        "`checkpoint` is a `ds.checkpoint` of this session: else 400 `unresolved_reference`.",
        {"type": "ds.context.reset", "checkpoint": "checkpoint-1"},
    ),
    "ds.approval.requested": EventGuide(
        "A stop while it is pending, if it is blocking: 409 `approval_pending`. A ref `about` names what "
        "it is about.",
        {
            "type": "ds.approval.requested",
            "id": "ask-1",
            "question": "Deploy to production?",
            "options": ["approve", "reject", "edit"],
            "refs": [{"rel": "about", "id": "call-1"}],
        },
    ),
    "ds.approval.decided": EventGuide(
        "A judgement. A request that is not pending: 409 `nothing_pending`; a decision that is not among "
        "its options: 400 `invalid_event`.",
        {
            "type": "ds.approval.decided",
            "request": "ask-1",
            "decision": "edit",
            "reason": "One region first.",
            "payload": {"region": "eu-1"},
        },
    ),
    "ds.budget.set": EventGuide(
        "At least one limit. Counting begins with the first `ds.budget.set`. Any writer may set a first "
        "limit on a measure, or lower one; raising or lifting one is a judgement. `tokens` are input, "
        "output and cache creation; `usd` what `cost_usd` says; `consecutive_errors` failed results and "
        "errors in a row; `repeated_calls` the same tool with the same input in a row.",
        {"type": "ds.budget.set", "usd": 5, "tool_calls": 500, "consecutive_errors": 5, "tokens": None},
    ),
    "ds.budget.tripped": EventGuide(
        "Written behind the event that reached the limit, in the same batch. A stop: 409 "
        "`budget_exceeded`, until a `ds.budget.set` after which no limit is reached.",
        {"type": "ds.budget.tripped", "limit": "tool_calls", "max": 500, "value": 500},
    ),
    "ds.sandbox": EventGuide(
        "What the harness says of the world: never refused for its order.",
        {
            "type": "ds.sandbox",
            "sandbox": "box-7",
            "backend": "local",
            "status": "ready",
            "workdir": "/srv/box-7",
            "network": "none",
        },
    ),
    "ds.memory.written": EventGuide(
        "It has at least one ref `because`: the evidence. One entry is live for each key of a scope: the "
        "newest write that was not rolled back.",
        {
            "type": "ds.memory.written",
            "id": "learned-1",
            "scope": "project:calc",
            "key": "sum",
            "value": "range() leaves out its upper bound.",
            "why": "failed_attempt",
            "kind": "failure_pattern",
            "confidence": 0.9,
            "refs": [_CALL],
        },
    ),
    "ds.memory.read": EventGuide(
        "Usually written by `POST …/recall`. Each of `returned` is a `ds.memory.written`: else 400 "
        "`unresolved_reference`. Nothing found is recorded as `[]`.",
        {
            "type": "ds.memory.read",
            "scope": "project:calc",
            "at": 1,
            "returned": [{"id": "learned-1", "session": "issue-7"}],
            "query": "upper bound",
            "influence": "planning",
        },
    ),
    "ds.memory.rolled_back": EventGuide(
        "`write` is a `ds.memory.written`: else 400 `unresolved_reference`. A second time it changes "
        "nothing.",
        {
            "type": "ds.memory.rolled_back",
            "write": "learned-1",
            "session": "issue-7",
            "reason": "It was the cache after all.",
        },
    ),
    "ds.artifact": EventGuide(
        "The artifact is stored: else 400 `unresolved_reference`. Roles with a meaning: `diff`, "
        "`test_log`, `repo_state`, `input`, `policy`, `report`, `init`, `snapshot`; others are yours.",
        {
            "type": "ds.artifact",
            "sha256": _DIGEST,
            "name": "fix.patch",
            "role": "diff",
            "bytes": 0,
            "media_type": "text/x-diff",
        },
    ),
    "ds.adopted": EventGuide(
        "Written by `POST …/adopt`. It holds what was taken, so that the state stays a function of this log.",
        {
            "type": "ds.adopted",
            "session": "issue-7-branch",
            "position": 12,
            "facts": [{"key": "cause", "value": "range() ends early", "kind": "decision", "id": "fact-1"}],
            "verdicts": [{"feature": "f1", "verdict": "pass", "id": "verdict-1", "by": "judge"}],
            "artifacts": [{"id": "patch-1", "sha256": _DIGEST, "name": "fix.patch", "role": "diff"}],
        },
    ),
    "ds.redacted": EventGuide(
        "Written by `POST …/redact`. `sha256` is null if no digest was to be kept.",
        {
            "type": "ds.redacted",
            "events": [
                {
                    "id": "hello",
                    "offset": "0000000000000000_0000000000000000",
                    "type": "user.message",
                    "sha256": _DIGEST,
                    "bytes": 214,
                }
            ],
            "reason": "a password",
        },
    ),
}
"""The guide of every strict type."""

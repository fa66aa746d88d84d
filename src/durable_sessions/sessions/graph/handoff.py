"""The files that a session hands over: features, progress, an init script, and what to do next, as texts."""

from collections.abc import Iterable
from typing import Any

import msgspec

from durable_sessions.sessions.graph.schemas import Checkpoint
from durable_sessions.sessions.graph.state import SessionState, ShownCall

FEATURES, PROGRESS, INIT, HANDOFF = "feature-list.json", "progress.txt", "init.sh", "handoff.md"
ALIASES = {"prd.json": FEATURES}
NO_INIT = "#!/bin/sh\necho 'This session has no init script: attach an artifact with the role init.'\n"
_SAFE = frozenset({"none", "read_only"})


def files(
    state: SessionState, checkpoints: Iterable[tuple[str, Checkpoint]], init: str | None
) -> dict[str, str]:
    """Return the files by name; ``checkpoints`` are all of them with a line on where they stand."""
    return {
        FEATURES: features(state),
        PROGRESS: progress(checkpoints),
        INIT: NO_INIT if init is None else init,
        HANDOFF: handoff(state),
    }


def advice(call: ShownCall) -> str:
    """Return what to do with a call whose outcome is unknown: nothing is run again blindly."""
    is_safe = call.effect in _SAFE or (call.effect == "idempotent" and call.idempotency_key is not None)
    return "retry" if is_safe else "ask"


def features(state: SessionState) -> str:
    """Return the features as a list that a worker's loop can read."""
    listed = [
        {"id": one.id, "description": one.text, "check": one.check, "passes": one.passing}
        for one in ([] if state.outcome is None else state.outcome.features)
    ]
    return msgspec.json.format(msgspec.json.encode(listed), indent=2).decode() + "\n"


def progress(checkpoints: Iterable[tuple[str, Checkpoint]]) -> str:
    """Return a paragraph per checkpoint, oldest first, then the last instructions."""
    paragraphs: list[str] = []
    last: Checkpoint | None = None
    for where, checkpoint in checkpoints:
        lines = [f"{where}: {checkpoint.units} {'unit' if checkpoint.units == 1 else 'units'}"]
        lines += [f"done: {one}" for one in checkpoint.done]
        lines.append(f"next: {checkpoint.next}")
        paragraphs.append("\n".join(lines))
        last = checkpoint
    if last is not None:
        paragraphs.append(f"Instructions:\n{last.instructions}")
    return "\n\n".join(paragraphs) + "\n" if paragraphs else ""


def handoff(state: SessionState) -> str:
    """Return what the next worker must know, as Markdown."""
    parts = [f"# {state.session}"]
    if state.goal is not None:
        parts.append(f"## Goal\n\n{state.goal.text}")
    if state.facts:
        facts = (f"- {key}: {_text(fact.value)}" for key, fact in sorted(state.facts.items()))
        parts.append("## Facts\n\n" + "\n".join(facts))
    left = [] if state.outcome is None else [one for one in state.outcome.features if not one.passing]
    if left:
        parts.append("## Left to do\n\n" + "\n".join(f"- {one.id}: {one.text}" for one in left))
    if state.approvals.pending:
        pending = (f"- {one.id}: {one.question}" for one in state.approvals.pending)
        parts.append("## Waiting for a decision\n\n" + "\n".join(pending))
    if state.calls.open:
        calls = (f"- {one.name} ({one.id}): {advice(one)}" for one in state.calls.open)
        parts.append("## Calls without a result\n\n" + "\n".join(calls))
    if state.checkpoint is not None:
        parts.append(f"## Instructions\n\n{_text(state.checkpoint['instructions'])}")
    return "\n\n".join(parts) + "\n"


def _text(value: Any) -> str:
    """Return a JSON value for a reader: a text as it is, anything else as JSON."""
    said = msgspec.json.decode(value) if isinstance(value, msgspec.Raw) else value
    return said if isinstance(said, str) else msgspec.json.encode(said).decode()

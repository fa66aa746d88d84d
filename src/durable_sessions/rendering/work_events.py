"""What events of the work on a session say: each type ``ds.…`` in one line, and the rest in parts.

Older logs hold events of these types with any members. One that lacks what its type must have is not
described here, and is shown like an event of a type that nobody knows.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from durable_sessions.rendering.content import Fields, Part, Preformatted, parts_of
from durable_sessions.rendering.events import Event, number, text_member
from durable_sessions.rendering.text import compact, one_line, plural, pretty, size

LINE_CHARACTERS_MAX = 300
"""A longer line is cut, and then all of it is among the parts."""
_WORD_CHARACTERS_MAX = 100
_ROWS_MAX = 1_000


class WorkEntry(NamedTuple):
    """What is shown of an event."""

    title: str
    line: str
    parts: tuple[Part, ...] = ()
    failed: bool = False


def described(event: Event) -> WorkEntry | None:
    """Return how a person reads an event of the work on a session; None if it is not one that is known."""
    known = _TYPES.get(text_member(event, "type"))
    if known is None or not all(name in event for name in known.needs):
        return None
    entry = known.make(event)
    refs = tuple(_refs(event.get("refs")))
    return entry._replace(
        line=one_line(entry.line, LINE_CHARACTERS_MAX),
        parts=(*entry.parts, *([Fields(refs)] if refs else [])),
    )


def _paused(event: Event) -> WorkEntry:
    return _telling("Session", "paused", event, "reason")


def _resumed(event: Event) -> WorkEntry:
    return _telling("Session", "resumed", event, "reason")


def _ended(event: Event) -> WorkEntry:
    outcome = _word(event, "outcome")
    entry = _telling("Session", f"ended, {outcome.replace('_', ' ')}", event, "reason")
    return entry._replace(failed=outcome in ("failed", "timed_out"))


def _claimed(event: Event) -> WorkEntry:
    shared = "" if event.get("exclusive") is True else ", shared"
    seconds = number(event.get("seconds"))
    line = f"{_word(event, 'worker')} took the session for {seconds:,} {plural(seconds, 'second')}"
    return WorkEntry("Lease", f"{line} (epoch {number(event.get('epoch'))}{shared})")


def _released(event: Event) -> WorkEntry:
    line = f"{_word(event, 'worker')} gave the session back (epoch {number(event.get('epoch'))})"
    return _telling("Lease", line, event, "reason")


def _routed(event: Event) -> WorkEntry:
    to = _word(event, "to")
    entry = _telling("Route", "to anybody" if to == "*" else f"to {to}", event, "reason")
    see = event.get("see")
    rows = [("needs", ", ".join(_words(event.get("needs")))), ("sees", _shown(see))]
    return entry._replace(parts=(*entry.parts, *_fields(rows)))


def _fact(event: Event) -> WorkEntry:
    kind, key, value = text_member(event, "kind"), _word(event, "key"), event.get("value")
    title = {"goal": "Goal", "decision": "Decision"}.get(kind, "Fact")
    short = compact(value)
    line = short if kind == "goal" else f"{key}: {short}"
    return WorkEntry(title, line, tuple(_value("", value)) if len(line) > LINE_CHARACTERS_MAX else ())


def _remembered(event: Event) -> WorkEntry:
    value = event.get("value")
    line = f"{_word(event, 'scope')}, {_word(event, 'key')}: {compact(value)}"
    return WorkEntry("Memory", line, tuple(_value("", value)) if len(line) > LINE_CHARACTERS_MAX else ())


def _recalled(event: Event) -> WorkEntry:
    returned = _objects(event.get("returned"))
    asked = text_member(event, "query") or text_member(event, "key")
    line = f"{len(returned)} {plural(len(returned), 'write')} of {_word(event, 'scope')}"
    return WorkEntry("Memory", f"{line} for {one_line(asked, 200)}" if asked else line)


def _undone(event: Event) -> WorkEntry:
    return _telling("Memory", f"{_word(event, 'write')} rolled back", event, "reason")


def _retracted(event: Event) -> WorkEntry:
    return _telling("Fact", f"{_word(event, 'key')} no longer holds", event, "reason")


def _outcome(event: Event) -> WorkEntry:
    features = _objects(event.get("features"))
    rows = [(_word(feature, "id"), _feature(feature)) for feature in features]
    names = ", ".join(name for name, _ in rows)
    line = f"{len(rows)} {plural(len(rows), 'feature')} to pass: {names}"
    told = parts_of(text_member(event, "description"), prose=True)
    return WorkEntry("Outcome wanted", line, (*told, *_fields(rows)))


def _feature(feature: Event) -> str:
    check = text_member(feature, "check")
    files = [_word(one, "path") for one in _objects(feature.get("files"))]
    said = [text_member(feature, "text"), f"(check: {check})" if check else ""]
    said.append(f"(files: {', '.join(files)})" if files else "")
    return one_line(" ".join(filter(None, said)), 2_000)


def _evaluation(event: Event) -> WorkEntry:
    verdict, feature, score = _word(event, "verdict"), _word(event, "feature"), event.get("score")
    line = f"{feature}: {verdict}" if feature else verdict
    line += f", score {compact(score)}" if score is not None else ""
    metrics = event.get("metrics")
    metrics = metrics if isinstance(metrics, dict) else {}
    rows = [(name, _shown(event.get(name))) for name in ("command", "exit_code", "sandbox", "model")]
    rows += [(one_line(name, _WORD_CHARACTERS_MAX), _shown(value)) for name, value in metrics.items()]
    rows += [(_word(one, "path"), _word(one, "sha256")) for one in _objects(event.get("files"))]
    entry = _telling("Evaluation", line, event, "note")
    return entry._replace(parts=(*entry.parts, *_fields(rows)), failed=verdict == "fail")


def _checkpoint(event: Event) -> WorkEntry:
    units, following = number(event.get("units")), text_member(event, "next")
    git = event.get("git")
    git = git if isinstance(git, dict) else {}
    rows = [
        ("next", one_line(following, 2_000)),
        ("commit", _word(git, "commit")),
        ("branch", _word(git, "branch")),
    ]
    rows += [("done", one) for one in _words(event.get("done"))]
    told = parts_of(text_member(event, "instructions"), prose=True)
    state = _value("state", event["state"]) if "state" in event else ()
    line = f"{units:,} {plural(units, 'unit')} done; next: {following}"
    return WorkEntry("Checkpoint", line, (*told, *_fields(rows), *state))


def _compacted(event: Event) -> WorkEntry:
    line = f"events {number(event.get('from'))} to {number(event.get('to'))} replaced by a summary"
    return WorkEntry("Context", line, tuple(parts_of(text_member(event, "summary"), prose=True)))


def _reset(event: Event) -> WorkEntry:
    return WorkEntry("Context", f"begins anew from the checkpoint {_word(event, 'checkpoint')}")


def _requested(event: Event) -> WorkEntry:
    options = " or ".join(_words(event.get("options"))) or "approve or reject"
    does_block = "" if event.get("blocking") is not False else ", while the work goes on"
    return _telling("Approval", f"asked for ({options}{does_block})", event, "question")


def _decided(event: Event) -> WorkEntry:
    decision = _word(event, "decision")
    verb = {"approve": "approved", "reject": "rejected", "edit": "edited", "respond": "answered"}
    payload = _value("payload", event["payload"]) if "payload" in event else ()
    entry = _telling("Approval", verb.get(decision, decision), event, "reason")
    return entry._replace(parts=(*entry.parts, *payload))


def _budget(event: Event) -> WorkEntry:
    limits = {name: event[name] for name in _MEASURES if name in event}
    set_to = [_measured(limit, name) for name, limit in limits.items() if limit is not None]
    lifted = [name.replace("_", " ") for name, limit in limits.items() if limit is None]
    said = [f"at most {', '.join(set_to)}"] if set_to else []
    said += [f"no limit on {', '.join(lifted)}"] if lifted else []
    return WorkEntry("Budget", "; ".join(said) or "unchanged")


def _tripped(event: Event) -> WorkEntry:
    value, limit = event.get("value"), event.get("max")
    line = f"used up: {_amount(value)} of {_measured(limit, _word(event, 'limit'))}"
    return WorkEntry("Budget", line, failed=True)


def _sandbox(event: Event) -> WorkEntry:
    status = _word(event, "status")
    entry = _telling(
        "Sandbox", f"{_word(event, 'sandbox')} ({_word(event, 'backend')}) {status}", event, "reason"
    )
    rows = [(name.replace("_", " "), _shown(event.get(name))) for name in _SANDBOX_MEMBERS]
    spec = _value("spec", event["spec"]) if "spec" in event else ()
    return entry._replace(parts=(*entry.parts, *_fields(rows), *spec), failed=status in ("lost", "failed"))


def _artifact(event: Event) -> WorkEntry:
    held = number(event.get("bytes"))
    said = [_word(event, "media_type"), size(held) if held else "", f"sha256 {_word(event, 'sha256')[:12]}…"]
    name = one_line(text_member(event, "name"), 200)
    return WorkEntry(
        "Artifact",
        f"{name} ({_word(event, 'role')}): {', '.join(filter(None, said))}",
        (Fields((("sha256", _word(event, "sha256")),)),),
    )


def _adopted(event: Event) -> WorkEntry:
    facts, verdicts, artifacts = (_objects(event.get(name)) for name in ("facts", "verdicts", "artifacts"))
    counts = [(facts, "fact"), (verdicts, "verdict"), (artifacts, "artifact")]
    taken = ", ".join(f"{len(some)} {plural(len(some), noun)}" for some, noun in counts)
    rows = [(_word(one, "key"), one_line(compact(one.get("value")), 2_000)) for one in facts]
    rows += [(_word(one, "feature"), _word(one, "verdict")) for one in verdicts]
    rows += [(_word(one, "name"), _word(one, "role")) for one in artifacts]
    line = f"{taken} of the session {_word(event, 'session')}, as of #{number(event.get('position'))}"
    return WorkEntry("Adopted", line, tuple(_fields(rows)))


def _redacted(event: Event) -> WorkEntry:
    events, artifacts = _objects(event.get("events")), _words(event.get("artifacts"))
    line = f"{len(events)} {plural(len(events), 'event')}"
    line += f" and {len(artifacts)} {plural(len(artifacts), 'artifact')}" if artifacts else ""
    entry = _telling("Redaction", f"{line} erased", event, "reason")
    rows = [(_word(one, "id"), _word(one, "type")) for one in events]
    rows += [("artifact", digest) for digest in artifacts]
    return entry._replace(parts=(*entry.parts, *_fields(rows)))


def _telling(title: str, line: str, event: Event, member: str) -> WorkEntry:
    """Return an entry with a text of the event behind its line; a long text is a part, too."""
    said = text_member(event, member)
    whole = f"{line}: {said}" if said else line
    is_long = len(whole) > LINE_CHARACTERS_MAX or "\n" in said.strip()
    return WorkEntry(title, whole, tuple(parts_of(said, prose=True)) if is_long else ())


def _word(event: Event, name: str) -> str:
    return one_line(text_member(event, name), _WORD_CHARACTERS_MAX)


def _words(value: object) -> list[str]:
    return [one_line(compact(one), 2_000) for one in value[:_ROWS_MAX]] if isinstance(value, list) else []


def _objects(value: object) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _fields(rows: list[tuple[str, str]]) -> Iterator[Part]:
    told = tuple(row for row in rows[:_ROWS_MAX] if row[1])
    if told:
        yield Fields(told)


def _value(label: str, value: object) -> Iterator[Part]:
    text = isinstance(value, str)
    yield Preformatted(compact(value) if text else pretty(value), label, "" if text else "json")


def _shown(value: object) -> str:
    return "" if value is None else one_line(compact(value), 2_000)


def _amount(value: object) -> str:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return f"{value:,}" if is_number else one_line(compact(value), _WORD_CHARACTERS_MAX)


def _measured(limit: object, measure: str) -> str:
    return f"{_amount(limit)} {'USD' if measure == 'usd' else measure.replace('_', ' ')}"


def _refs(refs: object) -> Iterator[tuple[str, str]]:
    for ref in _objects(refs)[:_ROWS_MAX]:
        other = _word(ref, "session")
        target = one_line(text_member(ref, "id"), 200)
        yield _word(ref, "rel"), f"{target} of the session {other}" if other else target


class _Type(NamedTuple):
    make: Callable[[Event], WorkEntry]
    needs: tuple[str, ...] = ()
    """The members without which an event of the type cannot be described."""


_MEASURES = ("tokens", "usd", "seconds", "tool_calls", "consecutive_errors", "repeated_calls")
_SANDBOX_MEMBERS = ("image", "image_digest", "workdir", "network", "host", "exit_code", "retry_of")
_TYPES = {
    "ds.session.paused": _Type(_paused),
    "ds.session.resumed": _Type(_resumed),
    "ds.session.ended": _Type(_ended, ("outcome",)),
    "ds.lease.claimed": _Type(_claimed, ("worker", "epoch")),
    "ds.lease.released": _Type(_released, ("worker", "epoch")),
    "ds.routed": _Type(_routed, ("to",)),
    "ds.fact": _Type(_fact, ("key", "value")),
    "ds.fact.retracted": _Type(_retracted, ("key",)),
    "ds.memory.written": _Type(_remembered, ("scope", "key", "value")),
    "ds.memory.read": _Type(_recalled, ("scope", "returned")),
    "ds.memory.rolled_back": _Type(_undone, ("write",)),
    "ds.outcome.defined": _Type(_outcome, ("features",)),
    "ds.evaluation": _Type(_evaluation, ("verdict",)),
    "ds.checkpoint": _Type(_checkpoint, ("units", "next")),
    "ds.context.compacted": _Type(_compacted, ("from", "to", "summary")),
    "ds.context.reset": _Type(_reset, ("checkpoint",)),
    "ds.approval.requested": _Type(_requested, ("question",)),
    "ds.approval.decided": _Type(_decided, ("decision",)),
    "ds.budget.set": _Type(_budget),
    "ds.budget.tripped": _Type(_tripped, ("limit", "max", "value")),
    "ds.sandbox": _Type(_sandbox, ("sandbox", "status")),
    "ds.artifact": _Type(_artifact, ("sha256", "name")),
    "ds.adopted": _Type(_adopted, ("session",)),
    "ds.redacted": _Type(_redacted, ("events",)),
}
TYPES = tuple(_TYPES)
"""The types that are described."""

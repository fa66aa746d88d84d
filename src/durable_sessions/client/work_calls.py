"""The requests about the work on a session, and the events that say what is done with it."""

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from durable_sessions.client import encoding
from durable_sessions.client.artifact import file_digest
from durable_sessions.client.call import ApiCall
from durable_sessions.client.calls import UNSET, Appended, info_of, json_of, offset_text, session_path
from durable_sessions.client.handoff import Handoff
from durable_sessions.client.info import SessionInfo

_JSON = {"Content-Type": "application/json"}


@dataclass(frozen=True, slots=True)
class SessionLease:
    """A session that was woken: its epoch, its state, calls without a result, and the last checkpoint.

    Each of the ``unfinished`` calls has ``advice``: ``retry`` if that is harmless, else ``ask``.
    """

    epoch: int
    worker: str
    seconds: int
    expires_at: str
    offset: str
    state: dict[str, Any]
    unfinished: list[dict[str, Any]]
    handoff: dict[str, Any] | None
    principal: str
    raw: dict[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class AskedQuestion(Appended):
    """A request for a decision that is durable; ``id`` names it to who decides."""

    id: str = ""

    @classmethod
    def of(cls, appended: Appended, id: str) -> "AskedQuestion":  # noqa: A002
        """Return the append of a question under its id."""
        return cls(
            appended.next_offset,
            appended.replayed,
            appended.repeated,
            appended.differ,
            appended.incarnation,
            id,
        )


def state(session: str, at: str | int | None) -> ApiCall[dict[str, Any]]:
    """Ask for the state of a session."""
    parameters = () if at is None else (("at", offset_text(at)),)
    return ApiCall("GET", session_path(session, "state"), json_of, parameters=parameters)


def handoff(session: str) -> ApiCall[Handoff]:
    """Ask for the files that a session hands over."""
    return ApiCall("GET", session_path(session, "handoff"), _files)


def _files(answer: httpx2.Response) -> Handoff:
    return Handoff({str(name): str(text) for name, text in json_of(answer)["files"].items()})


def wake(
    session: str, worker: str | None, seconds: int, *, exclusive: bool, force: bool
) -> ApiCall[SessionLease]:
    """Ask for a session. Repeating it is harmless: the same principal takes over from itself."""
    body: dict[str, object] = {"seconds": seconds, "exclusive": exclusive, "force": force}
    if worker is not None:
        body["worker"] = worker
    return _post(session, "wake", body, _lease)


def _lease(answer: httpx2.Response) -> SessionLease:
    said = json_of(answer)
    return SessionLease(
        said["epoch"],
        said["worker"],
        said["seconds"],
        said["expires_at"],
        said["offset"],
        said["state"],
        said["unfinished"],
        said["handoff"],
        said["principal"],
        said,
    )


def renew(session: str, epoch: int) -> ApiCall[str]:
    """Renew a lease; the result is when it expires now."""
    return _post(session, "renew", {"epoch": epoch}, lambda answer: str(json_of(answer)["expires_at"]))


def release(session: str, epoch: int, reason: str | None) -> ApiCall[str]:
    """Give a session back; the result is where it ends."""
    body = _given(epoch=epoch, reason=reason)
    read = lambda answer: str(json_of(answer)["offset"])  # noqa: E731
    return _post(session, "release", body, read, once=True)


def end(session: str, outcome: str, reason: str | None) -> ApiCall[SessionInfo]:
    """Close a session with its outcome."""
    return _post(session, "close", _given(outcome=outcome, reason=reason), info_of, once=True)


def diff(
    session: str, other: str, at: str | int | None, other_at: str | int | None
) -> ApiCall[dict[str, Any]]:
    """Ask how two sessions differ."""
    given = [("with", other)]
    given += [
        (name, offset_text(one)) for name, one in (("at", at), ("with_at", other_at)) if one is not None
    ]
    return ApiCall("GET", session_path(session, "diff"), json_of, parameters=tuple(given))


def graph(session: str, form: str, at: str | int | None, *, family: bool) -> ApiCall[dict[str, Any] | str]:
    """Ask for the graph of a session."""
    given = [("format", form), ("family", "true" if family else "false")]
    given += [] if at is None else [("at", offset_text(at))]
    read: Any = json_of if form == "json" else (lambda answer: answer.text)
    return ApiCall("GET", session_path(session, "graph"), read, parameters=tuple(given))


def walk(session: str, event: str, way: str, depth: int) -> ApiCall[dict[str, Any]]:
    """Ask what an event rests on (``why``), or what rests on it (``impact``)."""
    path = session_path(session, "events", event, way)
    return ApiCall("GET", path, json_of, parameters=(("depth", str(depth)),))


def adopt(
    session: str, branch: str, at: str | int | None, on_conflict: str, epoch: int | None
) -> ApiCall[dict[str, Any]]:
    """Take over what a branch has found out; the result is the event that says what."""
    body = _given(session=branch, at=at, on_conflict=on_conflict)
    stated = {} if epoch is None else {"Session-Epoch": str(epoch)}
    return _post(session, "adopt", body, lambda answer: dict(json_of(answer)["event"]), stated, once=True)


def _post(
    session: str,
    verb: str,
    body: Mapping[str, object],
    read: Any,
    headers: Mapping[str, str] | None = None,
    *,
    once: bool = False,
) -> ApiCall[Any]:
    """Return a request that is harmless to repeat: by what it does, or ``once`` by a key of its own."""
    given = {**_JSON, **(headers or {})}
    if once:
        given["Idempotency-Key"] = secrets.token_hex(16)
    content = encoding.encode(body)
    return ApiCall("POST", session_path(session, verb), read, headers=given, content=content)


# Events ---------------------------------------------------------------------------------


def pause(reason: str) -> dict[str, Any]:
    """Return the event that stops a session."""
    return {"type": "ds.session.paused", "reason": reason}


def resume(reason: str | None) -> dict[str, Any]:
    """Return the event that lifts a pause."""
    return _given(type="ds.session.resumed", reason=reason)


def fact(key: str, value: object, kind: str) -> dict[str, Any]:
    """Return the event that makes something known."""
    return {"type": "ds.fact", "key": key, "value": value, "kind": kind}


def retract(key: str, reason: str | None) -> dict[str, Any]:
    """Return the event that takes a fact back."""
    return _given(type="ds.fact.retracted", key=key, reason=reason)


def checkpoint(
    units: int,
    next: str,  # noqa: A002 - the name on the wire
    instructions: str,
    done: Iterable[str],
    git: Mapping[str, str] | None,
    state: object,
) -> dict[str, Any]:
    """Return the event that says where a worker stands."""
    said = _given(
        type="ds.checkpoint",
        units=units,
        next=next,
        instructions=instructions,
        done=list(done) or None,
        git=git,
    )
    return said if state is UNSET else {**said, "state": state}


def ask(
    id: str,  # noqa: A002
    question: str,
    about: str | None,
    options: Iterable[str] | None,
    *,
    blocking: bool,
) -> dict[str, Any]:
    """Return the event that asks for a decision."""
    return _given(
        type="ds.approval.requested",
        id=id,
        question=question,
        options=None if options is None else list(options),
        blocking=blocking,
        refs=None if about is None else [{"rel": "about", "id": about}],
    )


def decide(
    request: "str | AskedQuestion", decision: str, reason: str, payload: object = UNSET
) -> dict[str, Any]:
    """Return the event that decides a request."""
    id = request if isinstance(request, str) else request.id  # noqa: A001
    said = {"type": "ds.approval.decided", "request": id, "decision": decision, "reason": reason}
    return said if payload is UNSET else {**said, "payload": payload}


def route(to: str, reason: str, needs: Iterable[str], see: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the event that says who gets the session next."""
    return _given(type="ds.routed", to=to, reason=reason, needs=list(needs) or None, see=see)


def evaluate(
    feature: str | None, verdict: str, evidence: Iterable[str], members: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the event that judges."""
    refs = [{"rel": "because", "id": one} for one in evidence]
    return _given(type="ds.evaluation", verdict=verdict, feature=feature, refs=refs, **members)


def digests(files: Iterable[str | Path | Mapping[str, str]]) -> list[dict[str, str]] | None:
    """Return files with their digests, None if there are none; paths are those of this process."""
    listed = [
        dict(one) if isinstance(one, Mapping) else {"path": str(one), "sha256": file_digest(Path(one))[0]}
        for one in files
    ]
    return listed or None


def _given(**members: object) -> dict[str, Any]:
    """Return the members that are not None."""
    return {name: value for name, value in members.items() if value is not None}

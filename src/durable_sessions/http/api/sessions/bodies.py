"""Bodies of requests that create or change a session."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from durable_sessions import lenient
from durable_sessions.errors import DurableSessionsError, InvalidSessionError, SessionTooLargeError
from durable_sessions.http.api import json_body
from durable_sessions.http.api.json_body import Expected
from durable_sessions.http.api.sessions import budgets
from durable_sessions.http.bodies.sessions import (
    NativeSessionBody,
    NativeUpdateBody,
    SessionBody,
    UpdateBody,
)
from durable_sessions.ids import Ids
from durable_sessions.json_problems import problem
from durable_sessions.limits import Limits
from durable_sessions.managed_agents import agents, event_types
from durable_sessions.sessions.drafts import Draft, parse
from durable_sessions.sessions.record import NULL, Record
from durable_sessions.times import rfc3339

T = TypeVar("T")

_PAIRS_MAX = 16
_KEY_MAX = 64
_VALUE_MAX = 512
_NAMED_BY = {"file": "file_id", "github_repository": "url", "memory_store": "memory_store_id"}


_UPDATABLE = tuple(name for name in UpdateBody.__struct_fields__ if name != "vault_ids")


def _advice(unknown: str) -> str:
    return _with_metadata_advice(unknown, NativeSessionBody.__struct_fields__)


def _update_advice(unknown: str) -> str:
    if unknown in NativeSessionBody.__struct_fields__:
        return "It is given when a session is created and cannot be changed; leave it out."
    return _with_metadata_advice(unknown, _UPDATABLE)


def _with_metadata_advice(unknown: str, known: Sequence[str]) -> str:
    advice = json_body.advice(unknown, known)
    return advice if advice.endswith("?") else f"{advice} Send what is your own in metadata."


_SESSION = Expected("A session", InvalidSessionError, advise=_advice)
_UPDATE = Expected("A session", InvalidSessionError, advise=_update_advice)


def decode(body: bytes, kind: type[T], limits: Limits) -> T:
    """Return the decoded body, or refuse it; an empty body sets nothing."""
    expected = _UPDATE if kind is NativeUpdateBody else _SESSION
    return json_body.decode(body or b"{}", kind, expected, limits)


class _Outline(msgspec.Struct):
    """The members of a body that are stored with a session, undecoded, to measure them."""

    agent: msgspec.Raw = NULL
    environment_id: msgspec.Raw = NULL
    title: msgspec.Raw = NULL
    metadata: msgspec.Raw = NULL
    budget: msgspec.Raw = NULL
    resources: msgspec.Raw = NULL
    vault_ids: msgspec.Raw = NULL


def decode_limited(body: bytes, kind: type[T], limits: Limits) -> T:
    """Return the decoded body; one that is too large to be stored is refused before it is decoded."""
    most = limits.session_document_bytes_max
    if len(body) > most:
        outline = decode(body, _Outline, limits)
        size = sum(len(bytes(getattr(outline, name))) for name in _Outline.__struct_fields__)
        if size > most:
            raise SessionTooLargeError(size=size, session_document_bytes_max=most)
    return decode(body, kind, limits)


def require_fitting(body: bytes, limits: Limits) -> None:
    """Refuse a body that is too large to be stored with a session."""
    most = limits.session_document_bytes_max
    if len(body) > most:
        raise SessionTooLargeError(size=len(body), session_document_bytes_max=most)


def record(body: SessionBody, agent: msgspec.Raw, now_ms: int, ids: Ids, *, strict: bool) -> Record:
    """Return the record of a session from a body; its agent has been resolved."""
    metadata = {} if body.metadata is None else body.metadata
    if strict:
        check_metadata(metadata)
    return Record(
        agent=agent,
        environment_id=body.environment_id,
        title=body.title,
        metadata=metadata,
        resources=[new_resource(one, now_ms, ids) for one in body.resources or []],
        vault_ids=body.vault_ids or [],
        budget=budgets.checked(body.budget, strict=strict),
    )


def require_without(member: str, *, given: bool) -> None:
    """Refuse a member of a session that does not go with events."""
    if given:
        raise InvalidSessionError(problem=f'Beside "events", "session" has no "{member}"; leave it out.')


def initial_events(body: SessionBody, limits: Limits, *, strict: bool) -> list[Draft]:
    """Return the events that a session begins with."""
    first = first_events(body, limits) if isinstance(body, NativeSessionBody) else []
    raw = bytes(body.initial_events)
    if raw == b"null":
        return first
    if raw[:1] != b"[":
        raise InvalidSessionError(problem="initial_events is a list of events.")
    if not raw[1:-1].strip():
        return first
    drafts = parse(raw, limits)
    if strict:
        event_types.check_initial(drafts)
    return [*first, *drafts]


def first_events(body: NativeSessionBody, limits: Limits) -> list[Draft]:
    """Return the events that say what a session is for, when it is done, and what it may use."""
    said: list[dict[str, object]] = []
    if budgets.is_native(body.budget):
        said.append({"type": "ds.budget.set", **msgspec.json.decode(body.budget)})
    if body.outcome is not None:
        said.append({"type": "ds.outcome.defined", **msgspec.to_builtins(body.outcome)})
    if body.goal is not None:
        said.append({"type": "ds.fact", "key": "goal", "value": body.goal, "kind": "goal"})
    return parse(msgspec.json.encode(said), limits) if said else []


def revision(body: UpdateBody, *, strict: bool) -> Callable[[Record], tuple[Record, dict[str, object]]]:
    """Return a function that derives the new record from the old one and lists the changes."""
    if body.vault_ids is not msgspec.UNSET:
        raise InvalidSessionError(problem="vault_ids cannot be changed; leave it out.")
    if strict and isinstance(body.metadata, dict):
        check_metadata({key: value for key, value in body.metadata.items() if bytes(value) != b"null"})

    def revise(old: Record) -> tuple[Record, dict[str, object]]:
        changed: dict[str, object] = {}
        if body.title is not msgspec.UNSET and body.title != old.title:
            changed["title"] = body.title
        if isinstance(body.metadata, dict):
            metadata = _patched(old.metadata, body.metadata)
            if strict and len(metadata) > max(_PAIRS_MAX, len(old.metadata)):
                raise InvalidSessionError(problem=f"metadata may have at most {_PAIRS_MAX} pairs.")
            if metadata != old.metadata:
                changed["metadata"] = metadata
        if isinstance(body.agent, dict):
            agent = _agent(old.agent, body.agent)
            if agent != old.agent:
                changed["agent"] = agent
        if isinstance(body.budget, msgspec.Raw):
            _require_budget(old, strict=strict)
            budgets.require_theirs(body.budget, strict=strict)
            if body.budget != old.budget:
                changed["budget"] = body.budget
        return msgspec.structs.replace(old, **changed), changed

    return revise


def new_resource(
    given: dict[str, msgspec.Raw],
    now_ms: int,
    ids: Ids,
    wrong: type[DurableSessionsError] = InvalidSessionError,
) -> msgspec.Raw:
    """Return a resource as it is stored: with an id and times, and never with a secret."""
    kind = lenient.text(given.get("type"))
    if kind is None:
        raise wrong(problem='A resource has a "type", such as file or github_repository.')
    named = _NAMED_BY.get(kind)
    name = None if named is None else lenient.text(given.get(named))
    if named is not None and name is None:
        raise wrong(problem=f'A resource of type {kind} needs a "{named}".')
    kept: dict[str, object] = {
        member: raw for member, raw in given.items() if member != "authorization_token" and raw != NULL
    }
    if kind != "memory_store":
        at = rfc3339(now_ms)
        kept = {**kept, "id": ids.token("sesrsc_"), "created_at": at, "updated_at": at}
    if kind == "file" and "mount_path" not in kept:
        kept["mount_path"] = f"/mnt/session/uploads/{name}"
    if kind == "github_repository" and "mount_path" not in kept:
        repository = str(name).rstrip("/").rpartition("/")[2].removesuffix(".git")
        kept["mount_path"] = f"/workspace/{repository}"
    return msgspec.Raw(msgspec.json.encode(kept))


def check_metadata(metadata: dict[str, msgspec.Raw]) -> None:
    """Refuse metadata that Anthropic's API would refuse."""
    if len(metadata) > _PAIRS_MAX:
        raise InvalidSessionError(problem=f"metadata may have at most {_PAIRS_MAX} pairs.")
    for key, raw in metadata.items():
        value = lenient.text(raw)
        if len(key) > _KEY_MAX or value is None or len(value) > _VALUE_MAX:
            raise InvalidSessionError(
                problem=f"metadata[{key[:_KEY_MAX]}]: keys have at most {_KEY_MAX} characters, values are "
                f"texts of at most {_VALUE_MAX}."
            )


def _patched(old: dict[str, msgspec.Raw], patch: dict[str, msgspec.Raw]) -> dict[str, msgspec.Raw]:
    merged = {**old, **patch}
    return {key: value for key, value in merged.items() if bytes(value) != b"null"}


def _agent(old: msgspec.Raw, given: dict[str, msgspec.Raw]) -> msgspec.Raw:
    """Return an agent snapshot with the parts replaced that may be."""
    wrong = given.keys() - {"tools", "mcp_servers"}
    if wrong:
        raise InvalidSessionError(
            problem=f"agent.{min(wrong)} cannot be changed; send agent.tools or agent.mcp_servers."
        )
    if old == NULL:
        raise InvalidSessionError(problem="The session has no agent whose tools could be changed.")
    snapshot = msgspec.json.decode(old)
    parts = {name: agents.long_form(name, _decoded(name, raw)) for name, raw in given.items()}
    return msgspec.Raw(msgspec.json.encode({**snapshot, **parts}))


def _decoded(name: str, raw: msgspec.Raw) -> object:
    try:
        return msgspec.json.decode(raw)
    except msgspec.DecodeError as error:
        raise InvalidSessionError(problem=f"agent.{name} is not usable: {problem(error)}.") from None


def _require_budget(old: Record, *, strict: bool) -> None:
    if strict and old.budget == NULL:
        raise InvalidSessionError(problem="budget_create_only: a budget can only be given at creation.")

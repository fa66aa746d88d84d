"""One event as control and folds see it: the same at the tip, before it is stored, and in the log."""

from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from durable_sessions import lenient
from durable_sessions.lenient import COUNT_MAX, count
from durable_sessions.sessions.graph import strict
from durable_sessions.sessions.graph.schemas import Imported, Ref, StrictEvent

CALLS = frozenset({"agent.tool_use", "agent.mcp_tool_use", "agent.custom_tool_use"})
RESULTS = frozenset(
    {"agent.tool_result", "agent.mcp_tool_result", "user.tool_result", "user.custom_tool_result"}
)
EFFECTS = frozenset({"none", "read_only", "idempotent", "non_idempotent"})
MODEL_REQUEST_END = "span.model_request_end"
SESSION_ERROR = "session.error"
T = TypeVar("T")


class Members(msgspec.Struct):
    """The members of free events that views read, not decoded yet: clients may send anything."""

    name: msgspec.Raw = lenient.NULL
    input: msgspec.Raw = lenient.NULL
    content: msgspec.Raw = lenient.NULL
    effect: msgspec.Raw = lenient.NULL
    idempotency_key: msgspec.Raw = lenient.NULL
    evaluated_permission: msgspec.Raw = lenient.NULL
    tool_use_id: msgspec.Raw = lenient.NULL
    mcp_tool_use_id: msgspec.Raw = lenient.NULL
    custom_tool_use_id: msgspec.Raw = lenient.NULL
    is_error: msgspec.Raw = lenient.NULL
    model_usage: msgspec.Raw = lenient.NULL
    cost_usd: msgspec.Raw = lenient.NULL
    stop_reason: msgspec.Raw = lenient.NULL
    outcome_id: msgspec.Raw = lenient.NULL
    result: msgspec.Raw = lenient.NULL
    refs: msgspec.Raw = lenient.NULL

    def text(self, member: str) -> str | None:
        """Return a member that should be a text; None if it is something else."""
        return lenient.text(getattr(self, member))

    @property
    def call(self) -> str | None:
        """The id of the call that a result names."""
        for raw in (self.tool_use_id, self.mcp_tool_use_id, self.custom_tool_use_id):
            if (call := lenient.text(raw)) is not None:
                return call
        return None

    @property
    def failed(self) -> bool:
        """Whether a result is an error."""
        return bytes(self.is_error) == b"true"


class ModelUsage(msgspec.Struct):
    """What model requests used."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_input_tokens: int = 0
    cache_creation_input_tokens: int = 0
    cost_usd: float = 0.0
    requests: int = 0

    def add(self, other: "ModelUsage") -> None:
        """Add what others used."""
        self.input_tokens = min(self.input_tokens + other.input_tokens, COUNT_MAX)
        self.output_tokens = min(self.output_tokens + other.output_tokens, COUNT_MAX)
        read = self.cache_read_input_tokens + other.cache_read_input_tokens
        self.cache_read_input_tokens = min(read, COUNT_MAX)
        created = self.cache_creation_input_tokens + other.cache_creation_input_tokens
        self.cache_creation_input_tokens = min(created, COUNT_MAX)
        self.cost_usd = min(self.cost_usd + other.cost_usd, float(COUNT_MAX))
        self.requests += other.requests

    def take_back(self, other: "ModelUsage") -> None:
        """Take away what was added, of which more is known now."""
        self.input_tokens = max(self.input_tokens - other.input_tokens, 0)
        self.output_tokens = max(self.output_tokens - other.output_tokens, 0)
        self.cache_read_input_tokens = max(self.cache_read_input_tokens - other.cache_read_input_tokens, 0)
        created = self.cache_creation_input_tokens - other.cache_creation_input_tokens
        self.cache_creation_input_tokens = max(created, 0)
        self.requests = max(self.requests - other.requests, 0)

    @property
    def tokens(self) -> int:
        """What counts against a budget of tokens: all but reads of a cache."""
        return self.input_tokens + self.output_tokens + self.cache_creation_input_tokens


class _Used(msgspec.Struct):
    input_tokens: msgspec.Raw = lenient.NULL
    output_tokens: msgspec.Raw = lenient.NULL
    cache_read_input_tokens: msgspec.Raw = lenient.NULL
    cache_creation_input_tokens: msgspec.Raw = lenient.NULL
    cache_creation: msgspec.Raw = lenient.NULL
    cost_usd: msgspec.Raw = lenient.NULL


class _Created(msgspec.Struct):
    ephemeral_5m_input_tokens: msgspec.Raw = lenient.NULL
    ephemeral_1h_input_tokens: msgspec.Raw = lenient.NULL


@dataclass(slots=True)
class Happened:
    """An event with its place, who appended it and when.

    ``body`` are at least the members that the client sent. Strict events that nobody checked, those of
    untrusted imports or of logs that are older than the checks, have ``trusted`` false.
    """

    type: str
    id: str
    position: int
    actor: str
    at_ms: int
    body: bytes
    imported: Imported | None = None
    trusted: bool = True
    _members: Members | None = field(default=None, repr=False)
    _strict: StrictEvent | None = field(default=None, repr=False)

    @property
    def members(self) -> Members:
        """The members of a free event."""
        if self._members is None:
            self._members = _object(_MEMBERS, msgspec.Raw(self.body)) or Members()
        return self._members

    @property
    def strict(self) -> StrictEvent | None:
        """The strict event; None if this is a free one, or nobody checked it."""
        if self._strict is None and self.trusted and strict.is_strict(self.type):
            self._strict = strict.read(self.type, self.body)
        return self._strict

    @property
    def refs(self) -> list[Ref]:
        """The edges of this event; those of a free event count only if all of them fit."""
        if strict.is_strict(self.type):
            return [] if self.strict is None else self.strict.refs
        raw = bytes(self.members.refs)
        if raw[:1] != b"[":
            return []
        try:
            return lenient.decode(_REFS, raw)
        except (msgspec.MsgspecError, RecursionError):
            return []

    def usage(self) -> ModelUsage:
        """Return what the model request that ended here used."""
        used = _object(_USED, self.members.model_usage) or _Used()
        created = count(used.cache_creation_input_tokens)
        if not created and (parts := _object(_CREATED, used.cache_creation)) is not None:
            created = count(parts.ephemeral_5m_input_tokens) + count(parts.ephemeral_1h_input_tokens)
        return ModelUsage(
            count(used.input_tokens),
            count(used.output_tokens),
            count(used.cache_read_input_tokens),
            created,
            self.cost_usd or 0.0,
            1,
        )

    @property
    def cost_usd(self) -> float | None:
        """What the model request that ended here cost, if that was reported."""
        cost = _amount(self.members.cost_usd)
        if cost is None and (used := _object(_USED, self.members.model_usage)) is not None:
            cost = _amount(used.cost_usd)
        return cost


_MEMBERS = msgspec.json.Decoder(Members)
_USED = msgspec.json.Decoder(_Used)
_CREATED = msgspec.json.Decoder(_Created)
_REFS = msgspec.json.Decoder(list[Ref])
_NUMBER = msgspec.json.Decoder(float)


def _object(decoder: "msgspec.json.Decoder[T]", raw: msgspec.Raw) -> T | None:
    """Return a member that should be an object; None if it is something else."""
    data = bytes(raw)
    if data[:1] != b"{":
        return None
    try:
        return lenient.decode(decoder, data)
    except (msgspec.MsgspecError, RecursionError):
        return None


def _amount(raw: msgspec.Raw) -> float | None:
    """Return a member that should be an amount of money; None if it is something else."""
    data = bytes(raw)
    if not data[:1].isdigit():
        return None
    try:
        return min(_NUMBER.decode(data), float(COUNT_MAX))
    except msgspec.MsgspecError:
        return None

"""What a session used by day and model: the attribute ``used``, from which a workspace's usage is summed."""

from collections.abc import Collection, Mapping, Sequence
from datetime import date, timedelta

import msgspec

from durable_sessions import lenient
from durable_sessions.limits import Limits
from durable_sessions.sessions.drafts import Draft
from durable_sessions.sessions.graph.happened import MODEL_REQUEST_END, Happened, ModelUsage
from durable_sessions.sessions.summary import Usage

USED = "used"
_DAY_MS = 86_400_000
_EPOCH = date(1970, 1, 1)
_LAST_DAY = (date.max - _EPOCH).days


class UsedRow(msgspec.Struct, array_like=True):
    """What model requests of one day, UTC, and one model used; ``priced`` of them said what they cost.

    Without a day and a model it is the rest, of which there are too many.
    """

    day: int | None
    model: str | None
    usage: ModelUsage
    priced: int = 0

    @property
    def date(self) -> str | None:
        """The day as it is shown."""
        return None if self.day is None else str(_EPOCH + timedelta(days=self.day))


class _Named(msgspec.Struct):
    model: msgspec.Raw = lenient.NULL


_ROWS, _NAMED = msgspec.json.Decoder(list[UsedRow]), msgspec.json.Decoder(_Named)


def of(attributes: Mapping[str, bytes]) -> list[UsedRow]:
    """Return what a session used, by day and model."""
    value = attributes.get(USED)
    return [] if value is None else _ROWS.decode(value)


def day_of(at_ms: int) -> int:
    """Return the day of a time, UTC."""
    return min(max(0, at_ms // _DAY_MS), _LAST_DAY)


def fold(
    attributes: Mapping[str, bytes], drafts: Sequence[Draft], now_ms: int, limits: Limits
) -> bytes | None:
    """Return the attribute after these events, None if none of them ends a model request."""
    ended = [draft for draft in drafts if draft.type == MODEL_REQUEST_END]
    if not ended:
        return None
    rows = of(attributes)
    for draft in ended:
        at_ms = now_ms if draft.happened_ms is None else draft.happened_ms
        event = Happened(draft.type, "", 0, "", at_ms, draft.body)
        _add(rows, day_of(at_ms), _model(draft.body, limits), event, limits)
    return msgspec.json.encode(rows)


def _add(rows: list[UsedRow], day: int | None, model: str | None, event: Happened, limits: Limits) -> None:
    row = next((one for one in rows if one.day == day and one.model == model), None)
    if row is None and len(rows) >= limits.session_usage_rows_max - 1:
        row = next((one for one in rows if one.day is None), None)
        day, model = None, None
    if row is None:
        row = UsedRow(day, model, ModelUsage())
        rows.append(row)
    row.usage.add(event.usage())
    row.priced += event.cost_usd is not None


def _model(body: bytes, limits: Limits) -> str | None:
    try:
        name = lenient.text(lenient.decode(_NAMED, body).model)
    except (msgspec.MsgspecError, RecursionError):
        return None
    return name[: limits.graph_name_max] if name else None


def undated(rows: Sequence[UsedRow], total: Usage) -> ModelUsage:
    """Return what a session used before days were kept: what its sums have and its rows have not."""
    rest = ModelUsage(
        total.input_tokens,
        total.output_tokens,
        total.cache_read_input_tokens,
        total.cache_5m_tokens + total.cache_1h_tokens,
    )
    for row in rows:
        rest.input_tokens -= row.usage.input_tokens
        rest.output_tokens -= row.usage.output_tokens
        rest.cache_read_input_tokens -= row.usage.cache_read_input_tokens
        rest.cache_creation_input_tokens -= row.usage.cache_creation_input_tokens
    return ModelUsage(
        max(0, rest.input_tokens),
        max(0, rest.output_tokens),
        max(0, rest.cache_read_input_tokens),
        max(0, rest.cache_creation_input_tokens),
    )


def without_names(attributes: Mapping[str, bytes], erased: Collection[str]) -> bytes | None:
    """Return the attribute without the models that erased events named, None if it names none of them."""
    rows = of(attributes)
    named = [row for row in rows if row.model in erased]
    for row in named:
        row.model = None
    return msgspec.json.encode(rows) if named else None

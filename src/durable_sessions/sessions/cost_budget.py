"""Managed Agents' budget, a limit on cost: kept in the record of a session, and counted like one of ours."""

import msgspec

from durable_sessions.errors import InvalidSessionError
from durable_sessions.limits import Limits
from durable_sessions.sessions.graph import rules
from durable_sessions.sessions.graph.budget import Meter
from durable_sessions.sessions.graph.control import Control
from durable_sessions.sessions.graph.rules import Appender
from durable_sessions.sessions.record import NULL, Record


class _Cost(msgspec.Struct):
    amount: str


class _Limit(msgspec.Struct):
    max_list_cost: _Cost | None = None


_LIMIT = msgspec.json.Decoder(_Limit)


def usd(budget: msgspec.Raw) -> float | None:
    """Return the limit on cost that a valid budget states; None if it is none, or one of ours."""
    said = None if budget == NULL else _LIMIT.decode(budget)
    return None if said is None or said.max_list_cost is None else int(said.max_list_cost.amount) / 100


def shown(said: Record, meter: Meter | None) -> msgspec.Raw:
    """Return the budget in Managed Agents' shape if there is a limit on cost, else as it was given."""
    if meter is None:
        return said.budget
    if "usd" not in meter.limits:
        return said.budget if usd(said.budget) is None else NULL
    cents = {"amount": str(max(1, round(meter.limits["usd"] * 100))), "currency": "USD"}
    return msgspec.Raw(msgspec.json.encode({"type": "limit", "max_list_cost": cents}))


def begin(
    attributes: dict[str, bytes], said: Record, by: Appender, position: int, now_ms: int, limits: Limits
) -> dict[str, bytes]:
    """Return the attributes of a new session with the limit that it was given; refuse a raise of a fork."""
    limit = usd(said.budget)
    if limit is None:
        return attributes
    control = Control(attributes, limits)
    require_allowed(control, limit, by, limits)
    control.limit_cost(limit, position, now_ms)
    return attributes | control.attributes()


def require_allowed(control: Control, limit: float | None, by: Appender, limits: Limits) -> None:
    """Refuse to raise or lift a limit to who may not judge, or has generated."""
    meter = control.meter
    if meter is None:
        return
    if meter.raises_cost(limit):
        rules.require_judge(control, by)
    if len(meter.cost_limits) >= limits.cost_limits_max:
        raise InvalidSessionError(
            problem=f"The budget was changed {limits.cost_limits_max} times (cost_limits_max); append "
            "ds.budget.set instead."
        )

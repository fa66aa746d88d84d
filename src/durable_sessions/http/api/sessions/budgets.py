"""Budgets as clients give them: Managed Agents' limit on cost, or limits of our own."""

import re
from typing import Any

import msgspec

from durable_sessions.errors import InvalidSessionError
from durable_sessions.json_problems import problem
from durable_sessions.sessions.record import NULL

LIMITS = ("tokens", "usd", "seconds", "tool_calls", "consecutive_errors", "repeated_calls")
"""What a native budget can limit."""
_LIMIT_MAX = 2**53
_AMOUNT = re.compile(r"[0-9]{1,15}", re.ASCII)
_THEIRS = '{"type":"limit","max_list_cost":{"amount":"2500","currency":"USD"}}'


def checked(budget: msgspec.Raw, *, strict: bool) -> msgspec.Raw:
    """Return a valid budget, or refuse it; ``strict`` accepts only that of Managed Agents."""
    if budget == NULL:
        return budget
    try:
        said = msgspec.json.decode(budget)
    except msgspec.DecodeError as error:
        raise InvalidSessionError(problem=f"budget is not usable: {problem(error)}.") from None
    if not isinstance(said, dict):
        raise InvalidSessionError(problem=f"budget is an object such as {_THEIRS}.")
    if strict or "type" in said or "max_list_cost" in said:
        _check_cost(said)
    else:
        _check_limits(said)
    return budget


def require_theirs(budget: msgspec.Raw, *, strict: bool) -> None:
    """Refuse a budget that is not Managed Agents' limit on cost, nor null, which lifts it."""
    if is_native(checked(budget, strict=strict)):
        raise InvalidSessionError(
            problem='Limits of our own are set by an event: append {"type":"ds.budget.set","tokens":1000}.'
        )


def is_native(budget: msgspec.Raw) -> bool:
    """Say whether a valid budget has limits of our own, not Managed Agents' limit on cost."""
    return budget != NULL and "type" not in msgspec.json.decode(budget, type=dict[str, msgspec.Raw])


def _check_cost(said: dict[str, Any]) -> None:
    cost = said.get("max_list_cost")
    if said.get("type") != "limit" or said.keys() != {"type", "max_list_cost"} or not isinstance(cost, dict):
        raise InvalidSessionError(problem=f"budget is of type limit and has a max_list_cost: {_THEIRS}.")
    amount = cost.get("amount")
    if not isinstance(amount, str) or not _AMOUNT.fullmatch(amount) or int(amount) == 0:
        raise InvalidSessionError(
            problem=f"budget.max_list_cost.amount is a whole number of cents above 0, as a text: {_THEIRS}."
        )
    if cost.get("currency") != "USD" or cost.keys() != {"amount", "currency"}:
        raise InvalidSessionError(
            problem=f"budget.max_list_cost has an amount and the currency USD: {_THEIRS}."
        )


def _check_limits(said: dict[str, Any]) -> None:
    if not said:
        raise InvalidSessionError(problem=f"budget limits at least one of {', '.join(LIMITS)}.")
    for name, limit in said.items():
        if name not in LIMITS:
            raise InvalidSessionError(
                problem=f"budget.{name[:40]} is not known; a budget limits {', '.join(LIMITS)}."
            )
        if limit is None:  # as in ds.budget.set: it lifts a limit, which only a fork can have yet
            continue
        number = isinstance(limit, int | float) and not isinstance(limit, bool)
        if not number or not 0 < limit < _LIMIT_MAX:
            raise InvalidSessionError(
                problem=f"budget.{name} is a number above 0 and below 2^53, or null to lift it."
            )

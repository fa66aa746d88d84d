"""Retention policies: which streams are removed when idle or closed, kept, or held."""

from dataclasses import dataclass, fields

from durable_sessions.setting_values import suggestion

_IN_DAYS = ("idle_days", "closed_days")
_DAYS_MAX = 36_600


@dataclass(frozen=True, slots=True)
class RetentionPolicy:
    """What happens to the streams whose path begins with ``prefix``; days, or one of the others, are set.

    ``idle_days``: they are removed when nobody has used them for so long. ``closed_days``: they are removed
    so long after they were closed. ``keep``: not for these reasons. ``hold``: nothing removes them, a legal
    hold.
    """

    prefix: str
    idle_days: float | None = None
    closed_days: float | None = None
    keep: bool = False
    hold: bool = False


def retention_policies(value: object) -> tuple[RetentionPolicy, ...]:
    """Return the policies of the ``[[retention]]`` tables of a TOML file; no prefix has two."""
    if not isinstance(value, list) or not all(isinstance(table, dict) for table in value):
        raise TypeError("write [[retention]] tables")
    policies = tuple(_policy(table) for table in value)
    prefixes = [policy.prefix for policy in policies]
    for prefix in prefixes:
        if prefixes.count(prefix) > 1:
            raise ValueError(f"write one table for the prefix {prefix!r}")
    return policies


def _days(name: str, days: object) -> float:
    if isinstance(days, bool) or not isinstance(days, int | float) or not 0 < days <= _DAYS_MAX:
        raise ValueError(f"write {name} above 0, up to {_DAYS_MAX}")
    return float(days)


def _policy(table: dict[str, object]) -> RetentionPolicy:
    known = [item.name for item in fields(RetentionPolicy)]
    for name in table:
        if name not in known:
            raise ValueError(f"{name!r} is unknown.{suggestion(name, known)}")
    prefix = table.get("prefix")
    if not isinstance(prefix, str) or prefix.startswith("/"):
        raise ValueError('write prefix = "…", how paths begin, without a slash in front')
    chosen = [name for name in known if name != "prefix" and name in table]
    in_days = [name for name in chosen if name in _IN_DAYS]
    if not chosen or (len(chosen) > 1 and in_days != chosen):
        raise ValueError(
            f"write one of idle_days, closed_days, keep and hold for the prefix {prefix!r}; "
            "only the first two go together"
        )
    if in_days:
        idle, closed = (_days(name, table[name]) if name in table else None for name in _IN_DAYS)
        return RetentionPolicy(prefix, idle, closed)
    if table[chosen[0]] is not True:
        raise ValueError(f"write {chosen[0]} = true, or leave the table out")
    return RetentionPolicy(prefix, keep="keep" in table, hold="hold" in table)

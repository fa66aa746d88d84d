"""The state of a session, for people."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from rich.text import Text

from durable_sessions.cli import lease_time
from durable_sessions.client import offsets
from durable_sessions.rendering import markup
from durable_sessions.rendering.text import compact, one_line, plural

Command = Callable[..., str]
"""Returns the command line of a command for a session."""

_LABEL = 12
_LISTED_MAX = 20
_LIFECYCLES = {"active": "green", "resumed": "green", "paused": "yellow", "closed": "dim", "archived": "dim"}
_ENDED = ("closed", "archived")
"""Nobody works on these any more, whoever had the lease."""


def state_lines(state: Mapping[str, Any], command: Command, *, is_past: bool = False) -> Iterator[Text]:
    """Yield the lines; what is empty is left out. ``command`` makes the commands that they suggest.

    ``is_past`` says that it is the state at an earlier place, whose lease is shown as it was there.
    """
    yield _head(state)
    if state["goal"] is not None:
        yield _line("goal", one_line(markup.plain(state["goal"]["text"]), 500))
    yield from _stops(state, command)
    yield from _lease(state, is_past=is_past)
    yield from _whose(state)
    yield from _features(state["outcome"])
    yield from _spent(state)
    yield from _listed(
        "facts", [_fact(*one) for one in sorted(state["facts"].items()) if one[1]["kind"] != "goal"]
    )
    yield from _listed("no result", [_call(one) for one in state["calls"]["open"]])
    yield from _checkpoint(state)
    for one in state["warnings"]:
        yield _line("warning", one_line(f"{one['message']} ({one['code']})", 500), "yellow")


def unfinished_lines(calls: Sequence[Mapping[str, Any]]) -> Iterator[Text]:
    """Yield a line for each call without a result, with the advice on it."""
    yield from _listed("unfinished", [f"{_call(one)}: {one['advice']}" for one in calls])


def _line(label: str, text: str, style: str = "") -> Text:
    return Text(label.ljust(_LABEL), style="dim").append(Text(text, style=style))


def _more(text: str, style: str = "") -> Text:
    return Text(" " * _LABEL).append(Text(text, style=style))


def _listed(label: str, items: Sequence[str]) -> Iterator[Text]:
    for number, item in enumerate(items[:_LISTED_MAX]):
        yield _more(item) if number else _line(label, item)
    if len(items) > _LISTED_MAX:
        yield _more(f"… and {len(items) - _LISTED_MAX:,} more", "dim")


def _head(state: Mapping[str, Any]) -> Text:
    count = state["event_count"]
    lifecycle = state["lifecycle"]
    done = {True: ", done", False: ", not done", None: ""}[state["done"]]
    head = Text(one_line(state["session"], 200), style="bold")
    head.append(f"  {lifecycle}", style=_LIFECYCLES.get(lifecycle, "")).append(done)
    return head.append(f"  {count:,} {plural(count, 'event')}", style="dim")


def _stops(state: Mapping[str, Any], command: Command) -> Iterator[Text]:
    session = state["session"]
    pending = {one["id"]: one for one in state["approvals"]["pending"]}
    for stop in state["stops"]:
        if stop["kind"] == "paused":
            yield _line("stopped", f"paused. To go on: {command('resume', session)}", "yellow")
        if stop["kind"] == "budget":
            trip = state["budget"]["tripped"]
            limit = f"{trip['limit']} {_number(trip['value'])} of {_number(trip['max'])}"
            yield _line("stopped", f"budget used up: {limit}; a judge can raise it", "yellow")
    for id, one in pending.items():  # noqa: A001
        label = "stopped" if one["blocking"] else "asked"
        yield _line(label, f"{one_line(one['question'], 300)} ({', '.join(one['options'])})", "yellow")
        yield _more(f"to decide: {command('approve', session, id, '--reason', '…')}", "dim")


def _lease(state: Mapping[str, Any], *, is_past: bool) -> Iterator[Text]:
    lease = state["lease"]
    if lease is None or (state["lifecycle"] in _ENDED and not is_past):
        return
    who = lease["worker"]
    if lease["principal"] != who:
        who += f" ({lease['principal']})"
    shared = "" if lease["exclusive"] else ", shared"
    end = "over since" if lease_time.is_over(lease) and not is_past else "until"
    yield _line(
        "lease", one_line(f"{who}, epoch {lease['epoch']}{shared}, {end} {lease_time.end(lease)}", 500)
    )


def _whose(state: Mapping[str, Any]) -> Iterator[Text]:
    route = state["route"]
    if route is not None:
        needs = f", once {', '.join(route['needs'])} {'passes' if len(route['needs']) == 1 else 'pass'}"
        gate = needs if route["needs"] and not route["open"] else ""
        yield _line("next", one_line(f"{route['to']}{gate}: {route['reason']}", 500))
    sandbox = state["sandbox"]
    if sandbox is not None:
        yield _line(
            "sandbox", one_line(f"{sandbox['sandbox']} ({sandbox['backend']}, {sandbox['status']})", 300)
        )


def _features(outcome: Mapping[str, Any] | None) -> Iterator[Text]:
    if outcome is None:
        return
    features = outcome["features"]
    passing = sum(one["passing"] for one in features)
    changed = f"; amended {outcome['amendments']} times" if outcome["amendments"] > 1 else ""
    changed = "; amended once" if outcome["amendments"] == 1 else changed
    yield _line("features", f"{passing:,} of {len(features):,} pass{changed}")
    wide = max(len(one["id"]) for one in features)
    # What is left to do first, so that a long list does not hide it.
    for one in sorted(features, key=lambda one: bool(one["passing"]))[:_LISTED_MAX]:
        mark, style = ("✓", "green") if one["passing"] else ("✗", "red" if one["verdict"] else "")
        by = f"{one['verdict']} by {one['evaluated_by']}" if one["verdict"] else "no verdict yet"
        line = Text("  ").append(f"{mark} {one['id'].ljust(wide)}", style=style)
        yield line.append(f"  {one_line(one['text'], 120)}").append(f"  {by}", style="dim")
    if len(features) > _LISTED_MAX:
        yield Text(f"  … and {len(features) - _LISTED_MAX:,} more", style="dim")


def _spent(state: Mapping[str, Any]) -> Iterator[Text]:
    budget = state["budget"]
    if budget is not None and budget["limits"]:
        used = (
            f"{name} {_number(budget['used'].get(name, 0))} of {_number(most)}"
            for name, most in budget["limits"].items()
        )
        yield _line("budget", ", ".join(used))
    own = state["usage"]["own"]
    if own["requests"]:
        tokens = f"{own['input_tokens']:,} tokens in, {own['output_tokens']:,} out"
        cost = f", ${own['cost_usd']:.2f}" if own["cost_usd"] else ""
        yield _line(
            "usage", f"{own['requests']:,} model {plural(own['requests'], 'request')}, {tokens}{cost}"
        )


def _number(value: float) -> str:
    return f"{value:,.2f}".rstrip("0").rstrip(".")


def _fact(key: str, fact: Mapping[str, Any]) -> str:
    kind = "" if fact["kind"] == "fact" else f" ({fact['kind']})"
    return f"{one_line(key, 100)} = {one_line(compact(fact['value']), 300)}{kind}"


def _call(call: Mapping[str, Any]) -> str:
    return f"{one_line(call['name'], 60)} {one_line(compact(call['input']), 120)} ({call['id']})"


def _checkpoint(state: Mapping[str, Any]) -> Iterator[Text]:
    found = state["checkpoint"]
    if found is None:
        return
    position = offsets.position(found["offset"])
    since = state["events_since_checkpoint"]
    units = f"{found['units']:,} {plural(found['units'], 'unit')}"
    behind = f", {since:,} {plural(since, 'event')} since" if since else ""
    yield _line("checkpoint", f"#{position} by {one_line(found['actor'], 128)}, {units}{behind}")
    yield _more(f"next: {one_line(found['next'], 300)}")
    yield _more(one_line(found["instructions"], 500))

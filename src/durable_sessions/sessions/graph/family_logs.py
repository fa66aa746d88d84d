"""The graph of sessions whose logs are in memory, such as those of an export: no server, no I/O."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from durable_sessions.limits import Limits
from durable_sessions.sessions.graph import graph_nodes
from durable_sessions.sessions.graph.graph_builder import GraphBuilder, WantedTarget
from durable_sessions.sessions.graph.graph_nodes import SessionGraph, SessionLife
from durable_sessions.sessions.graph.happened import Happened
from durable_sessions.sessions.graph.links import adopted_ids


@dataclass(frozen=True, slots=True)
class SessionLog:
    """The events that were appended to a session, in order; ``base`` is the position of the first one."""

    life: SessionLife
    events: Sequence[Happened]
    source: SessionLife | None = None
    base: int = 0


def family_graph(
    logs: Sequence[SessionLog], session: str, position: int, limits: Limits, artifacts: Iterable[str] = ()
) -> SessionGraph:
    """Return the graph of sessions whose logs are in memory, sources before their forks.

    Events of other sessions, and artifacts that are not named, count as missing. What a memory replaces is
    not in these logs.
    """
    builder = GraphBuilder(limits)
    events: dict[tuple[str, str], tuple[SessionLife, Happened]] = {}
    for log in logs:
        builder.enter(log.life, log.source, log.base)
        for happened in log.events:
            builder.step(happened)
            events[log.life.life, happened.id] = log.life, happened
            for name in adopted_ids(happened):
                events.setdefault((log.life.life, name), (log.life, happened))
    by_life = {log.life.life: log for log in logs}
    stored = frozenset(artifacts)
    for wanted in builder.wanted():
        if (digest := wanted.target.artifact) is not None:
            if digest in stored:
                builder.found_artifact(wanted)
            else:
                builder.missing(wanted, is_gone=False)
            continue
        found = _find(events, by_life, wanted)
        if found is None:
            life = wanted.target.life
            builder.missing(wanted, is_gone=life is not None and _present(by_life, life) is None)
        else:
            owner, event = found
            node = graph_nodes.event_node(owner, event)
            builder.found(wanted, owner, node, event.position, event.at_ms)
    for _ in builder.finish():
        pass
    return builder.graph(session, position)


def _present(logs: Mapping[str, SessionLog], life: str) -> SessionLog | None:
    log = logs.get(life)
    return None if log is None or log.life.is_gone else log


def _find(
    events: Mapping[tuple[str, str], tuple[SessionLife, Happened]],
    logs: Mapping[str, SessionLog],
    wanted: WantedTarget,
) -> tuple[SessionLife, Happened] | None:
    """Return the event that a target names, in its session or in what that inherits."""
    target, own = wanted.target, logs.get(wanted.named_by.life)
    if target.session is None:
        return _in_chain(events, logs, own, target.id)
    present = (one for one in logs.values() if one.life.session == target.session and not one.life.is_gone)
    named = next(present, None)
    if target.life is None or (named is not None and named.life.life == target.life):
        return _in_chain(events, logs, named, target.id)
    # A life that is gone, or not the one that is named: what the named session or its own has inherited.
    inherited = (_in_chain(events, logs, log, target.id) for log in (named, own))
    return next((one for one in inherited if one is not None and one[0].life == target.life), None)


def _in_chain(
    events: Mapping[tuple[str, str], tuple[SessionLife, Happened]],
    logs: Mapping[str, SessionLog],
    log: SessionLog | None,
    event: str,
) -> tuple[SessionLife, Happened] | None:
    end: int | None = None
    while log is not None:
        found = events.get((log.life.life, event))
        if found is not None and (end is None or found[1].position < end):
            return found
        end = log.base if end is None else min(end, log.base)
        log = None if log.source is None else logs.get(log.source.life)
    return None

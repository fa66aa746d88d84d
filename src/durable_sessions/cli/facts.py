"""``durable-sessions facts``: what a session knows."""

import click
from rich.text import Text

from durable_sessions.cli.argument_completion import SESSION
from durable_sessions.cli.command_errors import MissingError
from durable_sessions.cli.connection import ServerConnection, with_connection
from durable_sessions.cli.empty_result import require_place
from durable_sessions.cli.member import member
from durable_sessions.cli.option_types import Offset, OneOf, Pair
from durable_sessions.cli.spelling import nearest
from durable_sessions.cli.terminal import Output
from durable_sessions.cli.work_output import appended
from durable_sessions.client import Session, work_calls
from durable_sessions.rendering.text import compact, one_line, plural

_HEADS = ("KEY", "VALUE", "KIND", "BY")
_VALUE = 1


@click.command()
@click.argument("session", type=SESSION)
@click.argument("key", nargs=-1)
@click.option("--set", "made", type=Pair(), multiple=True, help="Make a fact known; key:=JSON; repeatable.")
@click.option("--kind", type=OneOf(["fact", "decision", "goal"]), help="Of the facts that are set or shown.")
@click.option("--retract", multiple=True, metavar="KEY", help="Take a fact back; repeatable.")
@click.option("--at", type=Offset(), help="What was known at this place of the session.")
@with_connection
def facts(
    connection: ServerConnection,
    output: Output,
    session: str,
    key: tuple[str, ...],
    made: tuple[tuple[str, str], ...],
    kind: str | None,
    retract: tuple[str, ...],
    at: str | None,
) -> None:
    """Show what SESSION knows: each KEY, or all; or change it.

    \b
    ds facts issue-7 --set cause="off by one" --kind decision
    ds facts issue-7 --set retries:=3
    ds facts issue-7 --retract retries

    No compaction drops a fact, and every context has all of them.
    """
    info = connection.find(session)
    if made or retract:
        if key or at is not None:
            raise click.UsageError("Show facts, or change them with --set and --retract, not both.")
        target = connection.as_worker(info.id)
        if retract:
            _require_known(target, (*target.state()["facts"], *(member(*one)[0] for one in made)), retract)
        events = [work_calls.fact(*member(name, value), kind or "fact") for name, value in made]
        events += [work_calls.retract(one, None) for one in retract]
        count = f"{len(events):,} {plural(len(events), 'fact')}"
        with connection.writing(info.id):
            done = target.append(events)
        appended(output, target, done, f"{count} {_verb(made, retract)}")
        return
    require_place(connection, info, "--at", at)
    _show(output, connection.client.session(info.id), key, kind, at)


def _verb(made: tuple[object, ...], retract: tuple[object, ...]) -> str:
    return "changed" if made and retract else "set" if made else "retracted"


def _require_known(session: Session, known: tuple[str, ...], keys: tuple[str, ...]) -> None:
    for key in keys:
        if key not in known:
            advice = (
                f"To make it known: ds facts {session.id} --set {key}" if "=" in key else nearest(key, known)
            )
            raise MissingError(" ".join(filter(None, (f"{session.id} knows no fact {key}.", advice))))


def _show(output: Output, session: Session, keys: tuple[str, ...], kind: str | None, at: str | None) -> None:
    known = session.state(at=at)["facts"]
    _require_known(session, tuple(known), keys)
    chosen = {
        key: fact
        for key, fact in sorted(known.items())
        if (not keys or key in keys) and kind in (None, fact["kind"])
    }
    if output.json:
        for key, fact in chosen.items():
            output.tell({"key": key, **fact})
    elif not chosen:
        output.note(f"{session.id} knows no facts{f' of the kind {kind}' if kind else ''}.")
    else:
        rows = [
            (
                Text(one_line(key, 200), style="bold"),
                Text(one_line(compact(fact["value"]), 500)),
                Text(fact["kind"]),
                Text(one_line(fact["actor"], 128), style="dim"),
            )
            for key, fact in chosen.items()
        ]
        output.table(_HEADS, rows, frozenset(), gives_way=_VALUE)

"""The log as plain values: batch by batch, effect by effect."""

from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

import msgspec

from durable_sessions.log.scan import Damage, Frame, LogScan, scan
from durable_sessions.streams.effects import Effect, RecordsAppended, StreamCreated
from durable_sessions.tools.conflicts import Undecodable, decode_leniently

Plain: TypeAlias = dict[str, object]
"""Values that can be written as JSON; bytes are converted when they are printed."""


class StreamPaths:
    """The paths of streams by number, as far as they are known."""

    def __init__(self) -> None:
        self.paths: dict[int, str] = {}

    def learn(self, effect: Effect) -> None:
        """Remember the name of a stream that is created."""
        if isinstance(effect, StreamCreated):
            self.paths[effect.stream] = f"{effect.workspace}/{effect.path}"


def log_items(directory: Path, start: int, names: StreamPaths) -> Iterator[Plain]:
    """Yield every batch from a position on, and damage in its place; nothing is locked or changed."""
    log = scan(directory)
    reported = 0
    for frame in log.frames():
        for damage in log.damage[reported:]:
            yield _damage(damage)
        reported = len(log.damage)
        item = _batch(frame, names)
        if frame.position >= start:
            yield item
    yield from _rest(log, reported)


def _rest(log: LogScan, reported: int) -> Iterator[Plain]:
    for damage in log.damage[reported:]:
        yield _damage(damage)
    if log.torn is not None:
        yield {"torn": True, **_damage(log.torn)}


def _damage(damage: Damage) -> Plain:
    return {
        "damage": damage.problem,
        "file": damage.path.name,
        "byte": damage.byte,
        "length": damage.length,
    }


def _batch(frame: Frame, names: StreamPaths) -> Plain:
    effects: list[Plain] = []
    for _, effect in decode_leniently(frame.payload):
        if isinstance(effect, Undecodable):
            effects.append({"effect": "undecodable", "problem": effect.problem})
            continue
        names.learn(effect)
        effects.append(plain_effect(effect, names))
    return {
        "position": frame.position,
        "file": frame.segment.path.name,
        "byte": frame.offset,
        "size": len(frame.payload),
        "effects": effects,
    }


def plain_effect(effect: Effect, names: StreamPaths) -> Plain:
    """Return an effect as a dictionary, without empty fields."""
    fields: Plain = {"effect": "Appended" if isinstance(effect, RecordsAppended) else type(effect).__name__}
    for name, value in msgspec.structs.asdict(effect).items():
        if name == "stream":
            fields[name] = value
            if value in names.paths and not isinstance(effect, StreamCreated):
                fields["path"] = names.paths[value]
        elif name == "lengths":
            assert isinstance(effect, RecordsAppended)
            fields |= (
                {"next": effect.next, "messages": len(effect.lengths)}
                if effect.lengths
                else {"next": effect.next}
            )
        elif value is not None and value is not False and value != b"":
            fields[name] = value
    return fields

"""A client of sessions in a simulated world, beside a model: slots, conditions, forks, drops and redactions.

It does one thing after the other, so that a model can tell each answer. An operation that the process did not
survive may have happened or not: then two models may be right, until everything has been read again.
"""

import asyncio
import math
import random
from itertools import zip_longest

from durable_sessions.errors import DurableSessionsError, OutcomeUnknownError
from durable_sessions.sessions.store import Sessions
from durable_sessions.testing.session_calls import SessionCalls
from durable_sessions.testing.session_model import GivenEvent, Outcome, SessionModel
from durable_sessions.testing.simulation.clients import Book
from durable_sessions.testing.simulation.plan import SLOTS_MAX
from durable_sessions.testing.simulation.process import Process
from durable_sessions.testing.simulation.stored_records import stored_bodies

_NAMES = ("a", "b", "c")
_SLOTS = ("h", "w/1", "w/2", "wx", "x", "y")
_PREFIXES = ("", "w", "w/")
_NOTHING_DONE = ("overloaded", "partition_stopped", "cold_read_failed")
_TRIES_MAX = 60

Operation = tuple[str, tuple[object, ...]]
Seen = dict[str, tuple[list[tuple[str, str | None]], dict[int, dict[str, int]]] | None]
"""What was read of each session: its events, and who held which slot at some offsets; None if missing."""


class SessionClient:
    """Works on a few sessions, with one process after the other; problems go into the book."""

    def __init__(self, seed: str, book: Book, pause_seconds: float) -> None:
        self._random = random.Random(f"{seed}/sessions")
        self._book = book
        self._pause_seconds = pause_seconds
        self._possible = [SessionModel(SLOTS_MAX)]
        self._texts = 0

    async def run(self, process: Process) -> None:
        """Work until the process ends, or does not know whether something has happened."""
        calls = _calls(process)
        while not await self._compare(calls):  # noqa: ASYNC110 (time is virtual)
            await asyncio.sleep(self._pause_seconds)
        while not self._book.problems:
            await asyncio.sleep(self._pause_seconds * self._random.random() / 4)
            operation = self._draw(self._possible[0])
            if not await self._perform(process, calls, operation):
                return
            if self._random.random() < 0.2:
                await self._compare(calls)

    async def check(self, process: Process) -> None:
        """Compare everything, when nothing fails any more."""
        calls = _calls(process)
        for _ in range(_TRIES_MAX):
            if await self._compare(calls, every_offset=True):
                return
            await asyncio.sleep(1.0)
        self._book.problems.append("the sessions cannot be read")

    async def check_bytes(self, process: Process) -> None:
        """Look for what was erased in the log and in the bucket, long after it was."""
        bodies = await stored_bodies(process)
        for text in self._possible[0].erased_texts():
            places = [place for place, body in bodies if f'"{text}"'.encode() in body]
            if places:
                self._book.problems.append(f"{places[0]} still has {text}")

    async def _perform(self, process: Process, calls: SessionCalls, operation: Operation) -> bool:
        """Carry out an operation, and compare its answer; say whether the outcome is known."""
        name, arguments = operation
        before = self._possible[0]
        after = before.copy()
        expected: Outcome = getattr(after, name)(*arguments)
        self._possible = [before, after]  # also if this never returns, because the process dies
        self._book.operations += 1
        try:
            # The model tells lives by numbers; an engine is told to expect the present one, or another.
            sent = arguments[:3] if name == "append" else arguments
            got: Outcome = await getattr(calls, name)(*sent)
        except OutcomeUnknownError:
            return False
        except DurableSessionsError as error:
            got = (error.code,)
        process.machine.note(f"{name} {arguments} is answered {got}")
        if got[0] in _NOTHING_DONE and got != expected:
            self._possible = [before]
            return got != ("partition_stopped",)
        if got != expected:
            self._book.problems.append(f"{name} {arguments} is answered {got}, not {expected}")
        self._possible = [after]
        return True

    async def _compare(self, calls: SessionCalls, *, every_offset: bool = False) -> bool:
        """Read the sessions and keep the models that are right; say whether they could be read."""
        seen: Seen = {}
        try:
            for name in _NAMES:
                seen[name] = await self._read(calls, name, every_offset=every_offset)
        except DurableSessionsError as error:
            if error.code not in _NOTHING_DONE:
                raise
            return False
        right = [model for model in self._possible if not _difference(model, seen)]
        if not right:
            self._book.problems += [f"it is not so: {_difference(model, seen)}" for model in self._possible]
        self._possible = right[:1] or self._possible[:1]
        return True

    async def _read(
        self, calls: SessionCalls, name: str, *, every_offset: bool
    ) -> tuple[list[tuple[str, str | None]], dict[int, dict[str, int]]] | None:
        try:
            shown = await calls.shown(name)
            tail = len(shown)
            ends = range(tail + 1) if every_offset else {tail, self._random.randint(0, tail)}
            return shown, {end: await calls.held(name, end) for end in sorted(ends)}
        except DurableSessionsError as error:
            if error.code != "session_not_found":
                raise
            return None

    # What to do next --------------------------------------------------------------------

    def _draw(self, model: SessionModel) -> Operation:
        draw = self._random
        name = draw.choice(_NAMES)
        session = model.sessions.get(name)
        kind = draw.random()
        if kind < 0.08:
            return "create", (name, None, None)
        if kind < 0.2:
            source = draw.choice(_NAMES)
            known = model.sessions.get(source)
            anchor = draw.choice((None, draw.randint(0, 1 if known is None else len(known.entries))))
            return "create", (name, source, anchor)
        if kind < 0.26 or (session is not None and len(session.entries) > 20):
            return "delete", (name,)
        if kind < 0.36 and session is not None:
            positions = session.erasable({draw.randint(0, len(session.entries)) for _ in range(2)})
            if positions:
                return "redact", (name, positions)
        sent = [self._event() for _ in range(draw.randint(1, 3))]
        wanted = self._conditions(model, name) if draw.random() < 0.4 else None
        return "append", (name, sent, wanted, 0 if session is None else session.life)

    def _event(self) -> GivenEvent:
        draw = self._random
        self._texts += 1
        event: dict[str, object] = {"type": "row", "text": f"text-{self._texts}"}
        kind = draw.random()
        if kind < 0.45:
            event["slot"] = draw.choice((draw.choice(_SLOTS), draw.sample(_SLOTS, 2)))
        elif kind < 0.6:
            event |= {"slot": draw.choice(_SLOTS), "slot_empty": draw.choice(("keep", "drop"))}
        elif kind < 0.7:
            event |= {"slot_prefix": draw.choice(_PREFIXES), "slot_empty": draw.choice(("keep", "drop"))}
        if draw.random() < 0.1:
            event["id"] = draw.choice(("p", "q"))
        return event

    def _conditions(self, model: SessionModel, name: str) -> dict[str, object]:
        """Return conditions, of which about half hold."""
        draw, session = self._random, model.sessions.get(name)
        wanted: dict[str, object] = {}
        if draw.random() < 0.3:
            wanted["exists"] = draw.random() < 0.8 if session is not None else draw.random() < 0.2
        if draw.random() < 0.3:
            wanted["tail"] = (0 if session is None else len(session.entries)) + draw.choice((0, 0, 0, 1))
        if draw.random() < 0.3:
            wanted["same_life"] = draw.random() < 0.8
        if draw.random() < 0.6:
            held = {} if session is None else session.held[-1]
            wanted["slots"] = {
                slot: held.get(slot) if draw.random() < 0.8 else draw.randint(0, 5)
                for slot in draw.sample(_SLOTS, 2)
            }
        return wanted


def _difference(model: SessionModel, seen: Seen) -> str:
    """Return in what a model differs from what was read; nothing if it does not."""
    for name, found in seen.items():
        session = model.sessions.get(name)
        if session is None or found is None:
            if session is not None or found is not None:
                return f"session {name} is {'there' if session is None else 'missing'}"
            continue
        shown, held = found
        for at, (one, expected) in enumerate(zip_longest(shown, session.shown)):
            if one != expected:
                return f"event {at} of {name} is read as {one}, and should be {expected}"
        for end, slots in held.items():
            if slots != session.held[end]:
                return f"at {end} of {name} the slots are {slots}, and should be {session.held[end]}"
    return ""


def _calls(process: Process) -> SessionCalls:
    machine = process.machine
    sessions = Sessions(process.partition, machine.clock, machine.ids, machine.limits, machine.partition)
    sessions.scans.turns.seconds = math.inf  # the real time must not decide anything in a run
    return SessionCalls(sessions, machine.ids, machine.limits)

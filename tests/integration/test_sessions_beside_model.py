"""Sessions of two real workers beside the model that engines are compared with, also without all derived."""

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx2
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from durable_sessions.streams import offsets
from durable_sessions.streams.partition_map import home_partition
from durable_sessions.testing.session_calls import shown_event
from durable_sessions.testing.session_model import Outcome, SessionModel
from tests.support.process import ServerProcess
from tests.support.session_operations import NAMES, SLOTS, lives, operations
from tests.support.waiting import PATIENCE_SECONDS, wait_until
from tests.support.worker_processes import alive, worker_pids

EXAMPLES = int(os.environ.get("SESSION_MODEL_EXAMPLES", "12"))
_MANY_SLOTS = 1_000_000
_DERIVED = ("catalog.sqlite*", "views.sqlite*", "search", "artifact-names.sqlite*")
_SETTINGS = settings(
    max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck)
)

plays = st.lists(st.lists(operations, min_size=1, max_size=4) | lives, min_size=2, max_size=6)


class ServerCalls:
    """Calls of a server in the words of the model; ``prefix`` keeps the sessions of a run apart."""

    def __init__(self, client: httpx2.Client, prefix: str) -> None:
        self._client = client
        self._prefix = prefix

    def path(self, name: str) -> str:
        return f"/v1/sessions/{self._prefix}{name}"

    def create(self, name: str, source: str | None = None, anchor: int | None = None) -> Outcome:
        if source is None:
            made = self._client.post("/v1/sessions", json={"id": self._prefix + name})
            return _outcome(made, "created")
        headers = {"Stream-Forked-From": self.path(source), "If-None-Match": "*"}
        if anchor is not None:
            headers["Stream-Fork-Offset"] = offsets.encode(anchor)
        made = self._client.put(self.path(name), headers=headers)
        found = _outcome(made, "created")
        named = {"precondition_failed": "session_exists", "session_not_found": "stream_not_found"}
        return (named.get(str(found[0]), found[0]),)

    def append(
        self, name: str, sent: Sequence[Mapping[str, object]], wanted: dict[str, Any] | None = None
    ) -> Outcome:
        body: dict[str, object] = {"events": list(sent)}
        if wanted is not None:
            body["if"] = self._conditions(name, wanted)
        answer = self._client.post(self.path(name) + "/events", json=body)
        tail = answer.headers.get("Stream-Next-Offset")
        return _outcome(answer, "appended", 0 if tail is None else offsets.decode(tail))

    def _conditions(self, name: str, wanted: dict[str, Any]) -> dict[str, object]:
        found: dict[str, object] = {}
        events = self._events(name)
        if "exists" in wanted:
            found["exists"] = wanted["exists"]
        if "tail" in wanted:
            found["tail"] = offsets.encode(wanted["tail"])
        if "same_life" in wanted:
            life = self._client.get(self.path(name)).headers.get("Session-Incarnation", "0" * 12)
            found["incarnation"] = life if wanted["same_life"] else "f" * 12
        if "slots" in wanted:
            ids = dict(enumerate(event["id"] for event in events))
            found["slots"] = {
                slot: None if at is None else ids.get(at, "nowhere") for slot, at in wanted["slots"].items()
            }
        return found

    def delete(self, name: str) -> Outcome:
        return _outcome(self._client.delete(self.path(name)), "deleted")

    def redact(self, name: str, positions: Sequence[int]) -> Outcome:
        events = self._events(name)
        ids = [events[at]["id"] for at in positions] or ["none"]
        answer = self._client.post(self.path(name) + "/redact", json={"events": ids, "reason": "asked for"})
        return _outcome(answer, "redacted", len(events) + 1)

    def _events(self, name: str) -> list[dict[str, Any]]:
        answer = self._client.get(self.path(name) + "/events", params={"limit": 1000, "order": "asc"})
        return list(answer.json()["data"]) if answer.is_success else []

    def difference(self, model: SessionModel) -> str:
        """Return in what the server differs from a model; nothing if it does not."""
        for name in NAMES:
            session = model.sessions.get(name)
            is_there = self._client.get(self.path(name)).is_success
            if is_there != (session is not None):
                return f"{name} is {'there' if is_there else 'missing'}"
            if session is None:
                continue
            shown = [shown_event(event) for event in self._events(name)]
            if shown != session.shown:
                return f"{name} shows {shown}, not {session.shown}"
            for end in {len(shown), len(shown) // 2, 0}:
                asked: dict[str, str | int] = {"prefix": "", "at": str(end), "values": "false", "limit": 1000}
                held = self._client.get(self.path(name) + "/slots", params=asked).json()["data"]
                found = {one["slot"]: offsets.decode(one["offset"]) for one in held}
                if found != session.held[end]:
                    return f"at {end} of {name} the slots are {found}, not {session.held[end]}"
        for slot in SLOTS:
            listed = self._client.get("/v1/sessions", params={"holding": slot, "limit": 1000}).json()["data"]
            names = [one["id"].removeprefix(self._prefix) for one in listed if self._is_own(one["id"])]
            if sorted(names) != model.holders(slot):
                return f"{slot} is held in {names}, not in {model.holders(slot)}"
        return ""

    def _is_own(self, name: str) -> bool:
        return name.startswith(self._prefix) and name.removeprefix(self._prefix) in NAMES


def _outcome(answer: httpx2.Response, word: str, *more: object) -> Outcome:
    if answer.is_success:
        return (word, *more)
    return (answer.json()["error"]["details"]["error_code"],)


def play(calls: ServerCalls, model: SessionModel, steps: Sequence[Sequence[tuple[Any, ...]]]) -> str:
    """Carry out operations on server and model; return the first difference, nothing if there is none."""
    texts = 0
    for kind, name, *arguments in (operation for several in steps for operation in several):
        session = model.sessions.get(name)
        if kind == "creation":
            got, expected = calls.create(name, *arguments), model.create(name, *arguments)
        elif kind == "deletion":
            got, expected = calls.delete(name), model.delete(name)
        elif kind == "redaction":
            chosen = [] if session is None else session.erasable(arguments[0])
            if session is not None and not chosen:
                continue
            got, expected = calls.redact(name, chosen), model.redact(name, chosen)
        else:
            sent, wanted = arguments
            sent = [{**one, "text": f"text-{(texts := texts + 1)}"} for one in sent]
            for one in sent:
                if one["type"] == "user.message":
                    one["content"] = [{"type": "text", "text": "said"}]
            if wanted is None and not sent:
                continue
            life = 0 if session is None else session.life
            got, expected = calls.append(name, sent, wanted), model.append(name, sent, wanted, life)
        if got != expected:
            return f"{kind} {name} {arguments} is answered {got}, not {expected}"
    return calls.difference(model)


def forget_derived(data: Path) -> list[str]:
    """Delete all that a server can make again from log and bucket; return what that was."""
    paths = [path for pattern in _DERIVED for path in data.rglob(pattern) if "bucket" not in path.parts]
    for path in paths:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return sorted(path.name for path in paths)


def prefixes() -> list[str]:
    """Return prefixes with which the names of a run are in both partitions."""
    found: list[str] = []
    number = 0
    while len(found) < EXAMPLES * 3:
        number += 1
        homes = {home_partition("default", f"sessions/r{number}-{name}", of=2) for name in NAMES}
        if len(homes) == 2:
            found.append(f"r{number}-")
    return found


def test_two_workers_agree_with_the_model_also_without_what_is_derived(tmp_path: Path) -> None:
    played: list[tuple[str, SessionModel]] = []
    left = prefixes()
    with ServerProcess(tmp_path / "data", "--workers", "2") as server:
        with httpx2.Client(base_url=server.url, timeout=PATIENCE_SECONDS) as client:

            @settings(_SETTINGS, phases=[Phase.generate])
            @given(plays)
            def run(steps: list[list[tuple[Any, ...]]]) -> None:
                prefix, model = left.pop(), SessionModel(_MANY_SLOTS)
                assert play(ServerCalls(client, prefix), model, steps) == ""
                played.append((prefix, model))

            run()
        pids = worker_pids(server)
        server.kill()
        wait_until(lambda: not any(alive(pid) for pid in pids))
        assert forget_derived(server.data).count("catalog.sqlite") == 3
        server.start()
        with httpx2.Client(base_url=server.url, timeout=PATIENCE_SECONDS) as client:
            for prefix, model in played:
                assert ServerCalls(client, prefix).difference(model) == ""
    assert len(played) >= EXAMPLES


PLANTED = """
import durable_sessions.sessions.dropping as dropping
dropping._holds = lambda *_: False
"""


def test_a_fault_that_is_planted_in_the_workers_is_found(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """The workers import ``sitecustomize`` at their start: then events that hold a slot are dropped, too."""
    (tmp_path / "sitecustomize.py").write_text(PLANTED)
    environment = {"PYTHONPATH": f"{tmp_path}{os.pathsep}{request.config.rootpath}"}
    steps: list[list[tuple[Any, ...]]] = [
        [("appending", "a", [{"type": "row", "slot": ["h", "w/1"]}], None)],
        [("appending", "a", [{"type": "row", "slot": "w/1", "slot_empty": "drop"}], None)],
    ]
    with (
        ServerProcess(tmp_path / "data", "--workers", "2", environment=environment) as server,
        httpx2.Client(base_url=server.url, timeout=PATIENCE_SECONDS) as client,
    ):
        found = play(ServerCalls(client, "x-"), SessionModel(_MANY_SLOTS), steps)
    assert "'dropped'" in found

"""Work in sandboxes through both clients: what is told of them, of losses and of clean verdicts."""

import asyncio
import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from durable_sessions import AsyncClient, Client
from durable_sessions.client import Session
from durable_sessions.client.errors import PermissionDeniedError
from durable_sessions.sandbox import (
    Sandbox,
    SandboxError,
    SandboxLostError,
    SandboxOpenError,
    SandboxSpec,
    SandboxUnsupportedError,
)
from durable_sessions.sandbox.local import LocalBackend, LocalSandbox
from durable_sessions.testing import BackgroundServer

TEST = "import calc\n\nassert calc.add(2, 3) == 5\n"
DIGEST = hashlib.sha256(TEST.encode()).hexdigest()
FEATURES = [
    {
        "id": "f1",
        "text": "It adds.",
        "check": "python3 test_calc.py",
        "files": [{"path": "test_calc.py", "sha256": DIGEST}],
    }
]


def put(source: str, test: str = TEST) -> Callable[[Sandbox], None]:
    def prepare(sandbox: Sandbox) -> None:
        sandbox.write("calc.py", source)
        sandbox.write("test_calc.py", test)

    return prepare


class FragileBackend(LocalBackend):
    """Opens sandboxes of this machine that can be suspended, and that a command can make disappear."""

    name = "fragile"

    def __init__(self, losses: int) -> None:
        super().__init__()
        self.losses = losses
        self.opened: list[str] = []

    def open(self, spec: SandboxSpec) -> LocalSandbox:
        self.opened.append(str(spec.id))
        if spec.env.get("REFUSE") == str(len(self.opened)):
            raise SandboxOpenError("The machine is full.")
        return FragileSandbox(self, super().open(spec))


class FragileSandbox(LocalSandbox):
    def __init__(self, backend: FragileBackend, opened: LocalSandbox) -> None:
        self.__dict__.update(opened.__dict__)
        self._backend = backend
        self.states: list[str] = []

    def run(self, *arguments: Any, **named: Any) -> Any:
        if self._backend.losses > 0:
            self._backend.losses -= 1
            shutil.rmtree(self.workdir)
        return super().run(*arguments, **named)

    def _suspend(self) -> None:
        self.states.append("suspended")

    def _resume(self) -> None:
        self.states.append("resumed")


def told(session: Session) -> list[tuple[str, str, str | None]]:
    """Return what a session says of sandboxes."""
    return [
        (event["status"], event["sandbox"], event.get("retry_of"))
        for event in session.events(types="ds.sandbox")
    ]


def test_a_command_leaves_its_call_its_result_and_its_log(running: BackgroundServer) -> None:
    with Client(running.url, principal="coder") as client:
        session = client.sessions.create("s", goal="Add", outcome=FEATURES)
        with client.wake("s") as work:
            with pytest.raises(SandboxError, match=r'to\("local"\)'):
                work.run("true")
            sandbox = work.to("local", prepare=put("def add(a, b):\n    return a - b\n"))
            assert work.sandbox is sandbox
            placed = work.state()["sandbox"]
            assert (placed["sandbox"], placed["backend"], placed["status"]) == (sandbox.id, "local", "ready")
            assert placed["network"] == "host"
            ran = work.run("python3 test_calc.py", effect="read_only", timeout=60, env={"A": "secret"})
            assert (ran.exit_code, ran.timed_out, ran.sandbox) == (1, False, sandbox.id)
            assert "AssertionError" in ran.stderr
            assert work.run("cat", input="x" * 40_000).stdout == "x" * 40_000
            with pytest.raises(SandboxUnsupportedError):
                work.suspend()
            with pytest.raises(ValueError, match="line of the shell"):
                work.run("")
        assert sandbox.is_closed
        call, result, log = (session.event(one) for one in (ran.call, ran.result, ran.attached))
        assert call["input"] == {"command": "python3 test_calc.py", "timeout": 60, "env": ["A"]}
        assert (call["effect"], call["sandbox"]) == ("read_only", sandbox.id)
        assert (result["exit_code"], result["is_error"], result["tool_use_id"]) == (1, True, ran.call)
        assert "AssertionError" in result.text
        assert (log["role"], log["sha256"], log["refs"][0]["id"]) == ("test_log", ran.log, ran.call)
        text = client.artifacts.get(ran.log).decode()
        assert text.startswith("$ python3 test_calc.py\n")
        assert "[exit code 1, " in text
        assert "secret" not in str([dict(event) for event in session.events()])
        shown = session.events(types="agent.tool_result")
        assert ["left out; see the log" in event.text for event in shown] == [False, True, False]
        state = session.state()
        assert (state["sandbox"], state["calls"]["open"], state["calls"]["failed"]) == (None, [], 2)
        (history,) = state["sandboxes"]
        assert [one["status"] for one in history["history"]] == ["requested", "ready", "released"]


def test_a_sandbox_that_cannot_be_opened_says_why(running: BackgroundServer) -> None:
    def broken(sandbox: Sandbox) -> None:
        sandbox.write("../outside", "x")

    with Client(running.url) as client:
        client.session("s").append({"type": "note"})
        with client.wake("s") as work:
            with pytest.raises(SandboxOpenError, match="image"):
                work.to("local", SandboxSpec(image="python"))
            with pytest.raises(SandboxError, match="leaves the sandbox"):
                work.to("local", prepare=broken)
            with pytest.raises(SandboxError, match="no sandbox"):
                work.run("true")
            with pytest.raises(ValueError, match="no backend"):
                work.to("loacl")
        assert [status for status, _, _ in told(client.session("s"))] == ["requested", "failed"] * 2
        reasons = [event.get("reason") for event in client.session("s").events(types="ds.sandbox")]
        assert "leave image out" in str(reasons[1])
        assert "leaves the sandbox" in str(reasons[3])


def test_a_lost_sandbox_is_replaced_and_the_work_goes_on(running: BackgroundServer) -> None:
    backend = FragileBackend(losses=2)
    with Client(running.url) as client:
        session = client.sessions.create("s")
        with client.wake("s") as work:
            work.to(backend, prepare=put("def add(a, b):\n    return a + b\n"))
            ran = work.run("python3 test_calc.py", effect="read_only")
            assert (ran.exit_code, ran.sandbox) == (0, backend.opened[2])
            backend.losses = 1
            with pytest.raises(SandboxLostError):
                work.run("echo charge the card", effect="non_idempotent")
            assert work.run("cat test_calc.py").stdout == TEST, "the new one is prepared, too"
            work.suspend("for the night")
            assert work.state()["sandbox"]["status"] == "suspended"
            assert work.run("true").exit_code == 0
            assert work.sandbox.states == ["suspended", "resumed"]  # type: ignore[attr-defined]
        one, two, three, four = backend.opened
        assert told(session) == [
            ("requested", one, None),
            ("ready", one, None),
            ("lost", one, None),
            ("requested", two, one),
            ("ready", two, None),
            ("lost", two, None),
            ("requested", three, two),
            ("ready", three, None),
            ("lost", three, None),
            ("requested", four, three),
            ("ready", four, None),
            ("suspended", four, None),
            ("ready", four, None),
            ("released", four, None),
        ]
        results = list(session.events(types="agent.tool_result"))
        assert [event.get("outcome") for event in results] == [
            "unknown",
            "unknown",
            None,
            "unknown",
            None,
            None,
        ]
        assert session.state()["calls"]["open"] == []
        replay = session.replay()
        with pytest.raises(SandboxError, match="no sandbox"):
            _ = replay.sandbox
        stand_in = replay.to(backend, prepare=put("x"))
        stand_in.write("file", "taken, and not looked at")
        with pytest.raises(SandboxUnsupportedError, match="runs nothing"):
            stand_in.run("true")
        again = replay.run("python3 test_calc.py", effect="read_only")
        assert (again.exit_code, again.call, again.sandbox) == (0, ran.call, ran.sandbox)
        with pytest.raises(SandboxLostError):
            replay.run("echo charge the card", effect="non_idempotent")
        assert replay.run("cat test_calc.py").stdout == TEST
        assert len(backend.opened) == 4, "a replay opens nothing"


def test_losses_without_end_and_without_room_end_the_run(running: BackgroundServer) -> None:
    with Client(running.url) as client:
        session = client.sessions.create("s")
        with client.wake("s") as work:
            work.to(FragileBackend(losses=99))
            with pytest.raises(SandboxLostError):
                work.run("true", effect="none")
            full = FragileBackend(losses=1)
            work.to(full, SandboxSpec(env={"REFUSE": "2"}))
            with pytest.raises(SandboxOpenError, match="full"):
                work.run("true", effect="none")
        statuses = [status for status, _, _ in told(session)]
        assert statuses == ["requested", "ready", "lost"] * 4 + [
            "requested",
            "ready",
            "lost",
            "requested",
            "failed",
        ]
        assert session.state()["sandbox"] is None


def test_the_sandbox_of_a_worker_that_died_is_lost(running: BackgroundServer) -> None:
    with Client(running.url) as client:
        session = client.sessions.create("s")
        dead = client.wake("s", worker="one")
        dead.to("local")
        first = dead.sandbox.id
        dead.sandbox.close()  # as the death of its process does
        with client.wake("s", worker="two") as work:
            spec = SandboxSpec(timeout=60)
            second = work.to("local", spec).id
            third = work.to("local", spec).id
        assert told(session) == [
            ("requested", first, None),
            ("ready", first, None),
            ("lost", first, None),
            ("requested", second, first),
            ("ready", second, None),
            ("released", second, None),
            ("requested", third, None),
            ("ready", third, None),
            ("released", third, None),
        ]


def test_a_lease_that_was_taken_over_still_closes_the_sandbox(running: BackgroundServer) -> None:
    with Client(running.url) as client:
        client.sessions.create("s")
        with client.wake("s") as work:
            sandbox = work.to("local")
            client.wake("s").release()
        assert sandbox.is_closed


def test_a_judge_decides_in_a_clean_place_of_its_own(running: BackgroundServer) -> None:
    right, wrong = put("def add(a, b):\n    return a + b\n"), put("def add(a, b):\n    return a - b\n")
    easy = put("def add(a, b):\n    return a - b\n", test="pass\n")
    with Client(running.url, principal="coder") as coder, Client(running.url, principal="judge") as judge:
        session = coder.sessions.create("s", outcome=FEATURES)
        with coder.wake("s") as work:
            work.to("local", prepare=right)
            ran = work.run("python3 test_calc.py")
            with pytest.raises(PermissionDeniedError, match="cannot judge"):
                work.validate("f1", prepare=right)
        judged = judge.session("s")
        assert judged.validate("f1", prepare=wrong).verdict == "fail"
        cheated = judged.validate("f1", prepare=easy, evidence=[ran.result])
        assert (cheated.verdict, cheated.result.exit_code) == ("fail", 0)
        assert judged.event(cheated.evaluation)["note"] == "Not as agreed: test_calc.py."
        fragile = FragileBackend(losses=1)
        passed = judged.validate(
            "f1",
            prepare=right,
            backend=fragile,
            evidence=[ran.result],
            metrics=lambda result: {"code": result.exit_code},
        )
        assert (passed.verdict, passed.sandbox) == ("pass", fragile.opened[1])
        evaluation = judged.event(passed.evaluation)
        assert evaluation["sandbox"] != ran.sandbox
        assert (evaluation["files"], evaluation["metrics"]) == (FEATURES[0]["files"], {"code": 0})
        assert [ref["id"] for ref in evaluation["refs"]] == [f"{passed.evaluation}-log", ran.result]
        assert b"exit code 0" in judge.artifacts.get(passed.log)
        state = session.state()
        assert (state["done"], state["generators"], state["sandbox"]) == (True, ["coder"], None)
        assert [one["status"] for one in state["sandboxes"]] == ["released"] * 4 + ["lost", "released"]
        with pytest.raises(ValueError, match="no check"):
            judged.validate(None)
        with pytest.raises(SandboxLostError):
            judged.validate("f1", backend=FragileBackend(losses=99))


@pytest.mark.anyio
async def test_the_same_with_an_event_loop(running: BackgroundServer) -> None:
    right = put("def add(a, b):\n    return a + b\n")
    async with (
        AsyncClient(running.url, principal="coder") as coder,
        AsyncClient(running.url, principal="judge") as judge,
    ):
        session = await coder.sessions.create("s", outcome=FEATURES)
        backend = FragileBackend(losses=1)
        async with await coder.wake("s") as work:
            with pytest.raises(SandboxOpenError):
                await work.to("local", SandboxSpec(network=False))
            await work.to(backend, prepare=right)
            ticks = 0

            async def tick() -> None:
                nonlocal ticks
                while True:
                    await asyncio.sleep(0.01)
                    ticks += 1

            ticking = asyncio.create_task(tick())
            ran = await work.run("sleep 0.5; python3 test_calc.py", effect="read_only")
            ticking.cancel()
            assert (ran.exit_code, ran.sandbox) == (0, backend.opened[1])
            assert ticks >= 3, "the loop was blocked"
            many = await asyncio.gather(*(work.run(f"echo {number}") for number in range(10)))
            assert [one.stdout for one in many] == [f"{number}\n" for number in range(10)]
            await work.suspend()
            running_command = asyncio.create_task(work.run("sleep 1000"))
            while not (await session.state())["calls"]["open"]:
                await asyncio.sleep(0.02)
            running_command.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running_command
            sandbox = work.sandbox
        assert sandbox.is_closed
        passed = await judge.session("s").validate(
            "f1", prepare=right, backend=FragileBackend(losses=1), metrics=lambda result: {"code": 0.5}
        )
        assert passed.verdict == "pass"
        state = await session.state()
        assert state["done"] is True
        assert len(state["calls"]["open"]) == 1, "what was cancelled is left to the next worker"
        statuses = [one["status"] for one in state["sandboxes"][-4]["history"]]
        assert statuses == ["requested", "ready", "lost"]
        replay = await session.replay()
        await replay.to("local")
        again = await replay.run("sleep 0.5; python3 test_calc.py", effect="read_only")
        assert again.call == ran.call
        await replay.leave()


@pytest.mark.anyio
async def test_a_sandbox_that_nobody_waits_for_any_more_is_closed(
    running: BackgroundServer, tmp_path: Path
) -> None:
    opened: list[Sandbox] = []

    def slowly(sandbox: Sandbox) -> None:
        opened.append(sandbox)
        sandbox.run("sleep 0.5")

    async with AsyncClient(running.url) as client:
        await client.sessions.create("s")
        async with await client.wake("s") as work:
            placing = asyncio.create_task(work.to(LocalBackend(tmp_path), prepare=slowly))
            while not opened:
                await asyncio.sleep(0.02)
            placing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await placing
            while not opened[0].is_closed:
                await asyncio.sleep(0.02)
        statuses = [event["status"] async for event in client.session("s").events(types="ds.sandbox")]
        assert statuses == ["requested", "failed"]

"""The checkpointer for LangGraph: the public suite, and what that does not look at."""

import asyncio
import itertools
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple, empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.types import ERROR

from durable_sessions import Client
from durable_sessions.adapters import _requests as requests
from durable_sessions.adapters._envelope import BATCH_EVENTS_MAX
from durable_sessions.adapters._plans import Plan
from durable_sessions.adapters.langgraph import CheckpointConflictError, DurableSaver
from durable_sessions.client.errors import (
    ConflictError,
    ConnectionFailedError,
    PreconditionFailedError,
    SessionLeaseLostError,
    SessionReplacedError,
)
from durable_sessions.testing import BackgroundServer
from tests.adapters.counting import asked
from tests.support.process import ServerProcess
from tests.support.waiting import wait_until

NUMBERS = itertools.count()


@pytest.fixture
def saver(shared: BackgroundServer) -> Iterator[DurableSaver]:
    made = DurableSaver(url=shared.url, namespace=f"lg{next(NUMBERS)}")
    yield made
    made.close()


def another(saver: DurableSaver, **options: Any) -> DurableSaver:
    """Return a saver as another process would have it."""
    return DurableSaver(url=saver._clients.url, namespace=saver._namespace, **options)


def thread(name: str = "t", checkpoint_id: str | None = None) -> RunnableConfig:
    config: RunnableConfig = {"configurable": {"thread_id": name, "checkpoint_ns": ""}}
    if checkpoint_id is not None:
        config["configurable"]["checkpoint_id"] = checkpoint_id
    return config


def step(
    saver: Any, config: RunnableConfig, values: dict[str, Any], number: int = 0, **metadata: Any
) -> RunnableConfig:
    """Put a checkpoint in which all values are new."""
    checkpoint = empty_checkpoint()
    versions = {channel: f"{number:04}.{next(NUMBERS)}" for channel in values}
    checkpoint["channel_values"], checkpoint["channel_versions"] = values, {**versions}
    put: RunnableConfig = saver.put(config, checkpoint, {"step": number, **metadata}, versions)
    return put


def read(saver: DurableSaver, config: RunnableConfig) -> CheckpointTuple:
    found = saver.get_tuple(config)
    assert found is not None
    return found


@pytest.mark.anyio
async def test_the_public_suite_passes_whole(shared: BackgroundServer) -> None:
    @checkpointer_test(name="DurableSaver")  # type: ignore[untyped-decorator]
    async def fresh() -> AsyncIterator[DurableSaver]:
        made = DurableSaver(url=shared.url, namespace=f"suite{next(NUMBERS)}")
        yield made
        await made.aclose()

    report = await validate(fresh)
    failures = [failure for result in report.results.values() for failure in result.failures]
    assert report.passed_all(), failures
    assert sum(result.tests_passed for result in report.results.values()) == 81


@pytest.mark.parametrize("then", ["gone", "another"])
def test_a_late_write_does_not_bring_a_deleted_thread_back(
    saver: DurableSaver, then: str, caplog: pytest.LogCaptureFixture
) -> None:
    put = step(saver, thread(), {"a": 1})
    other = another(saver)
    other.delete_thread("t")
    if then == "another":
        step(other, thread(), {"a": "new"})
    saver.put_writes(put, [("a", "late")], "task")
    step(saver, put, {"a": "late"})
    assert "late write" in caplog.text
    found = other.get_tuple(thread())
    if then == "gone":
        assert found is None
    else:
        assert found is not None
        assert found.checkpoint["channel_values"] == {"a": "new"}
        assert found.pending_writes == []
    strict = another(saver, on_deleted="raise")
    kept = step(strict, thread("u"), {"a": 1})
    other.delete_thread("u")
    with pytest.raises((SessionReplacedError, PreconditionFailedError)):
        strict.put_writes(kept, [("a", "late")], "task")
    assert strict.get_tuple(thread("u")) is None  # this begins a new life
    step(strict, thread("u"), {"a": 2})
    assert read(other, thread("u")).checkpoint["channel_values"] == {"a": 2}
    other.close()
    strict.close()


def test_a_late_write_of_the_saver_that_deleted_is_dropped_too(saver: DurableSaver) -> None:
    put = step(saver, thread(), {"a": 1})
    saver.delete_thread("t")
    saver.put_writes(put, [("a", "late")], "task")
    assert saver.get_tuple(thread()) is None
    step(saver, thread(), {"a": 2})
    assert read(saver, thread()).checkpoint["channel_values"] == {"a": 2}


def test_a_reader_of_a_thread_that_was_made_anew_sees_one_life(saver: DurableSaver) -> None:
    config = thread()
    for number in range(3):
        config = step(saver, config, {"a": f"old{number}"}, number)
    reader = another(saver)
    assert len(list(reader.list(thread()))) == 3
    saver.delete_thread("t")
    assert saver.get_tuple(thread()) is None
    step(saver, thread(), {"a": "new"})
    assert [one.checkpoint["channel_values"]["a"] for one in reader.list(thread())] == ["new"]
    reader.close()


def test_of_two_writers_one_is_told_if_it_wishes(saver: DurableSaver) -> None:
    first, second = another(saver, on_conflict="raise"), another(saver, on_conflict="raise")
    begun = step(first, thread(), {"a": 0})
    for one in (first, second):
        assert one.get_tuple(thread()) is not None
    done = step(first, begun, {"a": 1}, 1)
    with pytest.raises(CheckpointConflictError) as refused:
        step(second, begun, {"a": 2}, 1)
    assert refused.value.read == begun["configurable"]["checkpoint_id"]
    assert refused.value.found == done["configurable"]["checkpoint_id"]
    assert read(second, thread()).checkpoint["channel_values"] == {"a": 1}
    step(second, done, {"a": 3}, 2)
    step(saver, done, {"a": 4}, 2)  # by default both succeed, and the history forks
    parents = [one.parent_config for one in saver.list(thread(), limit=2)]
    assert [parent and parent["configurable"]["checkpoint_id"] for parent in parents] == [
        done["configurable"]["checkpoint_id"]
    ] * 2
    first.close()
    second.close()


def test_an_exclusive_worker_that_was_overtaken_is_refused_before_it_writes(
    saver: DurableSaver, shared: BackgroundServer
) -> None:
    first, second = another(saver, exclusive=True), another(saver, exclusive=True)
    assert first.get_tuple(thread()) is None
    begun = step(first, thread(), {"a": 0})
    assert read(first, thread()) is not None, "who has a thread may look at it"
    first.put_writes(begun, [("a", "mine")], "task")
    assert read(second, thread()).pending_writes == [("task", "a", "mine")]
    with pytest.raises(SessionLeaseLostError):
        first.put_writes(begun, [("a", "stale")], "other task")
    with pytest.raises(SessionLeaseLostError):
        step(first, begun, {"a": "stale"}, 1)
    done = step(second, begun, {"a": 1}, 1)
    seen = read(saver, thread())  # a saver that is not exclusive takes a thread from nobody
    assert seen.config == done
    assert read(saver, begun).pending_writes == [("task", "a", "mine")]
    step(second, done, {"a": 2}, 2)
    with (
        Client(shared.url, principal="somebody-else") as client,
        pytest.raises(ConflictError, match="holds this session"),
    ):
        DurableSaver(client, namespace=saver._namespace, exclusive=True).get_tuple(thread())
    step(first, read(first, thread()).config, {"a": 3}, 3)
    assert read(saver, thread()).checkpoint["channel_values"] == {"a": 3}
    first.delete_thread("t")
    second.put_writes(done, [("a", "late")], "task")
    assert saver.get_tuple(thread()) is None
    for one in (first, second):
        one.close()


@pytest.mark.anyio
async def test_a_look_at_a_thread_does_not_refuse_what_the_same_saver_is_writing(saver: DurableSaver) -> None:
    worker = another(saver, exclusive=True)
    assert await worker.aget_tuple(thread()) is None
    begun = step(worker, thread(), {"a": 0})
    tasks = [f"task {number}" for number in range(12)]
    writes = (worker.aput_writes(begun, [("a", name)], name) for name in tasks)
    looks = (worker.aget_tuple(thread()) for _ in range(6))
    await asyncio.gather(*writes, *looks)
    found = await worker.aget_tuple(thread())
    assert found is not None
    assert sorted(one[0] for one in found.pending_writes or ()) == sorted(tasks)
    await worker.aclose()


def test_a_thread_is_copied_deleted_and_made_anew(saver: DurableSaver) -> None:
    put = step(saver, thread(), {"a": 1})
    saver.put_writes(put, [("a", "pending")], "task", "path")
    saver.copy_thread("t", "copy")
    saver.copy_thread("missing", "nothing")
    saver.delete_thread("t")
    assert saver.get_tuple(thread()) is None
    step(saver, thread(), {"a": "next life"})
    copied = read(saver, thread("copy"))
    assert copied.config["configurable"]["thread_id"] == "copy"
    assert copied.checkpoint["channel_values"] == {"a": 1}
    assert copied.pending_writes == [("task", "a", "pending")]
    step(saver, thread("copy"), {"a": 2}, 1)
    saver.copy_thread("t", "copy")  # completes what is there
    assert {one.checkpoint["channel_values"]["a"] for one in saver.list(thread("copy"))} == {
        1,
        2,
        "next life",
    }
    assert read(saver, thread()).checkpoint["channel_values"] == {"a": "next life"}
    assert saver.get_tuple(thread("nothing")) is None


def test_large_values_come_back_and_pruning_lets_them_go(saver: DurableSaver, sdk: Client) -> None:
    config = thread()
    for number in range(3):
        large = "x" * 3_000_000 + str(number)
        config = step(saver, config, {"large": large, "small": number}, number, run_id=f"run{number}")
        saver.put_writes(config, [("large", large), ("small", "word" * 3)], "task")
    assert read(saver, thread()).checkpoint["channel_values"] == {"large": large, "small": 2}
    assert len(list(saver.list(thread()))) == 3
    saver.prune(["t", "missing"])
    [left] = saver.list(thread())
    assert left.checkpoint["channel_values"] == {"large": large, "small": 2}
    assert [write[2] for write in left.pending_writes or ()] == [large, "word" * 3]
    session = sdk.session(f"{saver._namespace}:t")
    assert sum("dropped" in event for event in session.events()) == 2 * (2 + 1 + 2)
    with pytest.raises(TypeError):
        saver.prune("t")
    with pytest.raises(ValueError, match="keep_latest"):
        saver.prune(["t"], strategy="half")


def test_a_run_goes_on_while_its_thread_is_pruned(saver: DurableSaver) -> None:
    pruner = another(saver)
    config = thread()
    for number in range(12):
        config = step(saver, config, {"a": number}, number)
        saver.put_writes(config, [("a", number)], "task")
        if number % 3 == 2:
            pruner.prune(["t"])
    found = read(saver, thread())
    assert found.checkpoint["channel_values"] == {"a": 11}
    assert [write[2] for write in found.pending_writes or ()] == [11]
    assert len(list(saver.list(thread()))) == 1
    pruner.close()


def test_what_nodes_write_is_searchable_once_unless_it_is_encrypted(saver: DurableSaver, sdk: Client) -> None:
    class Reversed:
        def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
            return "reversed", plaintext[::-1]

        def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
            return ciphertext[::-1]

    message = AIMessage(
        "The pelican has landed", tool_calls=[{"name": "bird", "args": {"kind": "heron"}, "id": "c1"}]
    )
    put = step(saver, thread(), {"messages": [message]})
    saver.put_writes(put, [("messages", [message])], "task")
    secret = another(saver, serde=EncryptedSerializer(Reversed()))
    hidden = step(secret, thread("secret"), {"messages": [message]})
    secret.put_writes(hidden, [("messages", [message])], "task")
    assert read(secret, thread("secret")).checkpoint["channel_values"] == {"messages": [message]}
    for word in ("pelican", "heron"):
        found = sdk.search(word, metadata={"namespace": saver._namespace})
        assert [(group.session.id, len(group.hits)) for group in found.groups] == [
            (f"{saver._namespace}:t", 1)
        ]
    secret.close()


@pytest.mark.anyio
async def test_both_faces_work_on_one_thread_at_once(saver: DurableSaver) -> None:
    put = step(saver, thread(), {"a": 0})

    async def write(number: int) -> None:
        await saver.aput_writes(put, [("a", number)], f"async{number:02}")

    def write_sync(number: int) -> None:
        saver.put_writes(put, [("a", number)], f"sync{number:02}")

    await asyncio.gather(
        *(write(number) for number in range(15)),
        *(asyncio.to_thread(write_sync, number) for number in range(15)),
    )
    found = await saver.aget_tuple(thread())
    assert found is not None
    assert [write[2] for write in found.pending_writes or ()] == [*range(15), *range(15)]
    await saver.aclose()


@pytest.mark.anyio
async def test_cancelled_writes_are_there_or_not_and_the_next_is_right(saver: DurableSaver) -> None:
    put = step(saver, thread(), {"a": 0})
    for number in range(20):
        task = asyncio.create_task(saver.aput_writes(put, [("a", number), ("b", number)], f"task{number:02}"))
        await asyncio.sleep(0.0004 * (number % 6))
        task.cancel()
        with suppress(asyncio.CancelledError):  # unless it was faster
            await task
    await saver.aput_writes(put, [("a", "last"), ("b", "last")], "tasks")
    found = await saver.aget_tuple(thread())
    assert found is not None
    written = [(task, channel) for task, channel, _ in found.pending_writes or ()]
    assert written == sorted(set(written))
    assert all((task, "b") in written for task, channel in written if channel == "a")
    assert written[-2:] == [("tasks", "a"), ("tasks", "b")]
    await saver.aclose()


def test_many_writes_are_there_whole_or_not_at_all(
    saver: DurableSaver, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = step(saver, thread(), {"a": 1})
    reader = another(saver)
    append, sent = requests.append, itertools.count(1)

    def cut_off(*given: Any, **more: Any) -> Plan[Any]:
        if next(sent) == 2:
            raise OSError("cut off")
        return (yield from append(*given, **more))

    few = [("a", number) for number in range(3)]
    many = [("a", number) for number in range(BATCH_EVENTS_MAX + 5)]
    saver.put_writes(config, few, "task")
    saver.put_writes(config, [("b", 0)], "other")
    with monkeypatch.context() as patch:
        patch.setattr(requests, "append", cut_off)
        with pytest.raises(OSError, match="cut off"):
            saver.put_writes(config, [*many, (ERROR, "late")], "task")
    others = [("other", "b", 0)]
    assert read(reader, config).pending_writes == [*others, *(("task", *one) for one in few)]
    saver.put_writes(config, [*many, (ERROR, "late")], "task")
    written = [("task", ERROR, "late"), *(("task", *one) for one in many)]
    assert read(reader, config).pending_writes == [*others, *written]
    saver.put_writes(config, [(ERROR, "later")], "task")
    assert len(read(reader, config).pending_writes or ()) == len(others) + len(written)
    reader.close()


def test_a_server_that_dies_between_steps_has_whole_checkpoints(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as running:
        saver = DurableSaver(url=running.url)
        config = thread()
        for number in range(12):
            if number == 6:
                running.kill()
                running.start()
            config = step(saver, config, {"a": number, "b": [number] * 100}, number)
        reader = DurableSaver(url=running.url)
        numbers = [one.checkpoint["channel_values"]["a"] for one in reader.list(thread())]
        assert numbers == list(range(11, -1, -1))
        saver.close()
        reader.close()


def test_deltas_are_collected_along_the_parents(saver: DurableSaver) -> None:
    """As the saver in memory does it, over more checkpoints than a page has, and with a branch beside."""
    memory = InMemorySaver()
    configs: dict[Any, RunnableConfig] = {memory: thread(), saver: thread()}
    for number in range(60):
        values = {"snap": number} if number in (3, 20) else {"other": number}
        checkpoint = empty_checkpoint()
        versions = dict.fromkeys(values, f"{number:04}")
        older = {"snap": f"{20 if number > 20 else 3:04}"} if number == 57 else {}
        checkpoint["channel_values"], checkpoint["channel_versions"] = values, {**older, **versions}
        for one in configs:
            configs[one] = one.put(configs[one], checkpoint, {"step": number}, versions)
            one.put_writes(configs[one], [("snap", f"w{number}"), ("never", number)], f"task{number}")
            if number == 30:
                branch = empty_checkpoint()
                beside = one.put(configs[one], branch, {"step": 31}, {})
                one.put_writes(beside, [("snap", "beside")], "beside")
    channels = ["snap", "never", "missing"]
    expected = memory.get_delta_channel_history(config=configs[memory], channels=channels)
    assert saver.get_delta_channel_history(config=configs[saver], channels=channels) == expected
    assert len(expected["never"]["writes"]) == 59
    assert saver.get_delta_channel_history(config=thread("none"), channels=["snap"]) == {
        "snap": {"writes": []}
    }


class Recorder:
    """Stands in for a client: keeps the events of an append instead of sending them."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def session(self, _: str, **__: Any) -> "Recorder":
        return self

    def append_body(self, body: bytes) -> None:
        self.events += json.loads(body)["events"]


def test_the_newest_of_ten_thousand_checkpoints_is_read_as_that_of_ten(
    saver: DurableSaver, sdk: Client
) -> None:
    costs = []
    for name, length in (("short", 10), ("long", 10_000)):
        recorder = Recorder()
        checkpoint = empty_checkpoint()
        for number in range(length):
            checkpoint["id"] = str(uuid6(clock_seq=number))
            checkpoint["channel_values"] = {"a": number, "kept": "value"}
            versions = {"a": f"{number:06}", **({} if number else {"kept": "000000"})}
            checkpoint["channel_versions"] |= versions
            plan = saver._plans.put(saver.serde, thread(name), checkpoint, {"step": number}, versions)
            next(plan).call(recorder)
            plan.close()
        session = sdk.session(saver._plans._session(name))
        for first in range(0, len(recorder.events), 900):
            session.append(recorder.events[first : first + 900])
        reader = another(saver)
        found = asked(reader._plans.get_tuple(reader.serde, thread(name)), sdk)
        assert found.result.checkpoint["channel_values"] == {"a": length - 1, "kept": "value"}
        costs.append((found.requests, found.items))
        reader.close()
    assert costs[0] == costs[1]


WRITER = """
import sys
from durable_sessions.adapters.langgraph import DurableSaver
from tests.adapters.test_langgraph import step, thread

url, namespace, name = sys.argv[1:]
saver = DurableSaver(url=url, namespace=namespace)
for number in range(40):
    written = step(saver, thread(), {name: number}, number, by=name)
    saver.put_writes(written, [(name, number)], f"task-{name}-{number}")
saver.close()
"""


def test_two_processes_write_one_thread_and_lose_nothing(saver: DurableSaver) -> None:
    words = (sys.executable, "-c", WRITER, saver._clients.url, saver._namespace)
    writers = [subprocess.Popen([*words, name]) for name in ("first", "second")]
    assert [writer.wait() for writer in writers] == [0, 0]
    listed = list(saver.list(thread()))
    for name in ("first", "second"):
        own = [one for one in listed if one.metadata["by"] == name]  # type: ignore[typeddict-item]
        assert [one.checkpoint["channel_values"] for one in own] == [{name: n} for n in range(39, -1, -1)]
        assert [one.pending_writes for one in own] == [
            [(f"task-{name}-{number}", name, number)] for number in range(39, -1, -1)
        ]
    assert len(listed) == 80


def test_a_server_that_is_killed_in_mid_request_has_what_was_acknowledged_and_no_halves(
    tmp_path: Path,
) -> None:
    with ServerProcess(tmp_path / "data") as running:
        saver = DurableSaver(url=running.url)
        acknowledged: list[int] = []

        def work() -> None:
            for number in range(60):
                with suppress(ConnectionFailedError):
                    written = step(saver, thread(), {"a": number, "b": [number] * 10_000}, number)
                    saver.put_writes(written, [("a", number), ("b", number)], "task")
                    acknowledged.append(number)

        working = Thread(target=work)
        working.start()
        wait_until(lambda: len(acknowledged) >= 10)
        running.kill()
        running.start()
        working.join()
        reader = DurableSaver(url=running.url)
        found = {one.metadata["step"]: one for one in reader.list(thread())}
        assert set(acknowledged) <= set(found)
        for number, one in found.items():
            assert one.checkpoint["channel_values"] == {"a": number, "b": [number] * 10_000}
            writes = [("task", "a", number), ("task", "b", number)]
            assert one.pending_writes == writes or (number not in acknowledged and not one.pending_writes)
        saver.close()
        reader.close()


@pytest.mark.anyio
async def test_the_check_says_what_is_used(saver: DurableSaver, shared: BackgroundServer) -> None:
    said = await saver.check()
    assert said == f"langgraph-checkpoint {version('langgraph-checkpoint')} is stored at {shared.url}."
    await saver.aclose()

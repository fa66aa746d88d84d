"""Subscriptions watch the streams of all partitions, and behave as if there were one."""

import json
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from durable_sessions.errors import LinkDownError
from durable_sessions.http.api.neighbours import Neighbours
from tests.support.differential import Rival, Rivals, rivals
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

ROOT = "/v1/stream/__ds/subscriptions"
JSON = {"Content-Type": "application/json"}
LOST = (b"/internal/tell", b"/internal/wake", b"/internal/watches")
DONE = 200, {"ok": True, "next_wake": False}
WAKES = ("wakes/one", "wakes/two", "wakes/three", "wakes/four")
NAMES = [f"jobs/{name}" for name in ("a", "b", "c", "d", "e", "f")]


async def append(all_of_them: Rivals, path: str, text: str) -> None:
    status, _, said = await all_of_them.ask("POST", f"/v1/stream/{path}", headers=JSON, json=[text])
    assert status in (200, 204), said


async def claim(all_of_them: Rivals, name: str, worker: str = "worker") -> tuple[int, Any]:
    """Claim at every server; the tokens are kept apart."""
    found = []
    for rival in all_of_them.servers:
        answer = await rival.client.post(f"{ROOT}/{name}/claim", json={"worker": worker})
        body = answer.json()
        if answer.status_code == 200:
            rival.kept = {name: body.pop(name) for name in ("token", "wake_id")}
        if "streams" in body:
            body["streams"].sort(key=lambda one: one["path"])
        found.append((answer.status_code, body))
    assert all(one == found[0] for one in found), found
    return found[0]


async def ack(all_of_them: Rivals, name: str, generation: int, acks: dict[str, str], *, done: bool) -> Any:
    found = []
    for rival in all_of_them.servers:
        body = {
            "wake_id": rival.kept["wake_id"],
            "generation": generation,
            "acks": [{"stream": path, "offset": offset} for path, offset in acks.items()],
            "done": done,
        }
        headers = {"Authorization": f"Bearer {rival.kept['token']}"}
        answer = await rival.client.post(f"{ROOT}/{name}/ack", json=body, headers=headers)
        found.append((answer.status_code, answer.json()))
    assert all(one == found[0] for one in found), found
    return found[0]


async def events_of(rival: Rival, path: str, count: int) -> list[Any]:
    answer = await rival.client.get(f"/v1/stream/{path}", params={"offset": "-1"})
    text = answer.text.strip()
    events: list[Any] = json.loads(text if text[:1] == "[" else f"[{text.replace(chr(10), ',')}]")
    return events if len(events) >= count else []


async def wakes(all_of_them: Rivals, path: str, count: int) -> list[Any]:
    """Return the wake events of a stream when there are so many at every server; their times may differ."""
    found: list[list[Any]] = []
    for rival in all_of_them.servers:
        events: list[Any] = await until(partial(events_of, rival, path, count))
        found.append([{**event, "ts": 0} for event in events])
    assert all(one == found[0] for one in found), found
    return found[0]


async def test_work_is_claimed_and_acknowledged_as_with_one_partition(tmp_path: Path) -> None:
    async with rivals(tmp_path) as all_of_them:
        ask = all_of_them.ask
        for path in (*NAMES, "other"):
            assert (await ask("PUT", f"/v1/stream/{path}", headers=JSON))[0] == 201
        await append(all_of_them, NAMES[0], "before")
        pull = {"type": "pull-wake", "pattern": "jobs/*", "wake_stream": "wakes", "streams": ["other", "new"]}
        assert (await ask("PUT", f"{ROOT}/work", json=pull))[0] == 201
        assert (await ask("PUT", f"{ROOT}/work", json=pull))[0] == 200
        status, said = await claim(all_of_them, "work")
        assert status == 409, said
        for round_ in range(3):
            for path in (*NAMES, "other"):
                await append(all_of_them, path, f"round {round_}")
            status, said = await claim(all_of_them, "work")
            assert (status, said["generation"]) == (200, 1 + round_), said
            pending = {one["path"]: one["tail_offset"] for one in said["streams"] if one["has_pending"]}
            assert set(pending) == {*NAMES, "other"}
            assert (await claim(all_of_them, "work", "another"))[0] == 409
            some = dict(list(pending.items())[:3])
            assert await ack(all_of_them, "work", 1 + round_, some, done=False) == DONE
            assert await ack(all_of_them, "work", 1 + round_, pending, done=True) == DONE
            if round_ == 1:
                await all_of_them.flush()
                await all_of_them.restart()


async def test_deleted_streams_and_new_ones_are_noticed(tmp_path: Path) -> None:
    async with rivals(tmp_path) as all_of_them:
        ask = all_of_them.ask
        pull = {"type": "pull-wake", "pattern": "jobs/*", "wake_stream": "wakes"}
        assert (await ask("PUT", f"{ROOT}/work", json=pull))[0] == 201
        for path in NAMES:
            assert (await ask("PUT", f"/v1/stream/{path}", headers=JSON, content=b'["first"]'))[0] == 201
        status, said = await claim(all_of_them, "work")
        assert status == 200
        assert {one["path"] for one in said["streams"]} == set(NAMES)
        for path in NAMES[::2]:
            assert (await ask("DELETE", f"/v1/stream/{path}"))[0] == 204
        left = {one["path"]: one["tail_offset"] for one in said["streams"] if one["path"] in NAMES[1::2]}
        assert await ack(all_of_them, "work", said["generation"], left, done=True) == DONE
        assert (await claim(all_of_them, "work"))[0] == 409
        for path in NAMES[::2]:
            assert (await ask("PUT", f"/v1/stream/{path}", headers=JSON, content=b'["again"]'))[0] == 201
        status, said = await claim(all_of_them, "work")
        assert status == 200
        assert {one["path"] for one in said["streams"] if one["has_pending"]} == set(NAMES[::2])
        fork = {"Stream-Forked-From": f"/v1/stream/{NAMES[0]}"}
        assert (await ask("PUT", "/v1/stream/jobs/fork", headers=fork))[0] == 201
        await append(all_of_them, "jobs/fork", "in the fork")
        assert (await ask("DELETE", f"{ROOT}/work"))[0] == 204
        assert (await claim(all_of_them, "work"))[0] == 404


async def test_wake_events_are_in_the_wake_stream_once(tmp_path: Path) -> None:
    async with rivals(tmp_path) as all_of_them:
        ask = all_of_them.ask
        for number, wake_stream in enumerate(WAKES):
            headers = JSON if number % 2 else {"Content-Type": "text/plain"}
            assert (await ask("PUT", f"/v1/stream/{wake_stream}", headers=headers))[0] == 201
            pull = {"type": "pull-wake", "pattern": f"jobs-{number}/**", "wake_stream": wake_stream}
            assert (await ask("PUT", f"{ROOT}/work-{number}", json=pull))[0] == 201
            assert (await ask("PUT", f"/v1/stream/jobs-{number}/x", headers=JSON))[0] == 201
        for generation in range(1, 4):
            for number, wake_stream in enumerate(WAKES):
                await append(all_of_them, f"jobs-{number}/x", f"job {generation}")
                events = await wakes(all_of_them, wake_stream, generation)
                assert [event["generation"] for event in events] == list(range(1, generation + 1))
                status, said = await claim(all_of_them, f"work-{number}")
                assert (status, said["generation"]) == (200, generation)
                (stream,) = said["streams"]
                acks = {stream["path"]: stream["tail_offset"]}
                assert (await ack(all_of_them, f"work-{number}", generation, acks, done=True))[0] == 200
            if generation == 2:
                await all_of_them.flush()
                await all_of_them.restart()
        # One that is made again under the same id begins with generation 1, and is heard all the same.
        pull = {"type": "pull-wake", "pattern": "jobs-1/**", "wake_stream": WAKES[1]}
        assert (await ask("DELETE", f"{ROOT}/work-1"))[0] == 204
        assert (await ask("PUT", f"{ROOT}/work-1", json=pull))[0] == 201
        await append(all_of_them, "jobs-1/x", "for the new one")
        events = await wakes(all_of_them, WAKES[1], 4)
        assert [event["generation"] for event in events] == [1, 2, 3, 1]


async def test_a_link_by_name_and_its_end(tmp_path: Path) -> None:
    async with rivals(tmp_path) as all_of_them:
        ask = all_of_them.ask
        pull = {"type": "pull-wake", "streams": [NAMES[0]], "wake_stream": "wakes"}
        assert (await ask("PUT", f"{ROOT}/work", json=pull))[0] == 201
        for path in NAMES:
            assert (await ask("PUT", f"/v1/stream/{path}", headers=JSON, content=b'["first"]'))[0] == 201
        assert (await ask("POST", f"{ROOT}/work/streams", json={"streams": NAMES[:4]}))[0] == 204
        await ask("GET", f"{ROOT}/work")
        for path in NAMES:
            await append(all_of_them, path, "second")
        status, said = await claim(all_of_them, "work")
        assert status == 200
        tails = {one["path"]: one["tail_offset"] for one in said["streams"]}
        assert set(tails) == set(NAMES[:4])
        assert (await ask("DELETE", f"{ROOT}/work/streams/{NAMES[1]}"))[0] == 204
        await ask("GET", f"{ROOT}/work")
        status, said = await ack(all_of_them, "work", 1, {NAMES[1]: tails[NAMES[1]]}, done=False)
        assert status == 409, "it is not watched any more"
        beyond = {NAMES[0]: "0000000000000000_0000000000009999"}
        status, said = await ack(all_of_them, "work", 1, beyond, done=True)
        assert status == 409, "so far it does not reach"
        del tails[NAMES[1]]
        assert await ack(all_of_them, "work", 1, tails, done=True) == DONE
        await ask("GET", f"{ROOT}/work")


async def test_lost_messages_and_restarts_lose_and_double_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every message between partitions is lost in turns, before it arrives and after it was acted upon."""
    sent: Counter[bytes] = Counter()
    call = Neighbours.call

    async def lossy(self: Neighbours, partition: int, path: bytes, *given: Any) -> Any:
        sent[path] += 1
        turn = sent[path] % 3 if path in LOST else 0
        if turn == 1:
            raise LinkDownError(reason="lost on its way")
        answer = await call(self, partition, path, *given)
        if turn == 2:
            raise LinkDownError(reason="its acknowledgement was lost")
        return answer

    monkeypatch.setattr(Neighbours, "call", lossy)
    async with rivals(tmp_path, counts=(3,)) as only:
        (server,) = only.servers
        for number, wake_stream in enumerate(WAKES):
            assert (await only.ask("PUT", f"/v1/stream/{wake_stream}", headers=JSON))[0] == 201
            pull = {"type": "pull-wake", "pattern": f"jobs-{number}/**", "wake_stream": wake_stream}
            assert (await only.ask("PUT", f"{ROOT}/work-{number}", json=pull))[0] == 201
            assert (await only.ask("PUT", f"/v1/stream/jobs-{number}/x", headers=JSON))[0] == 201
        for generation in range(1, 5):
            for number in range(len(WAKES)):
                await append(only, f"jobs-{number}/x", f"job {generation}")
            if generation % 2:
                await only.restart()
            for number, wake_stream in enumerate(WAKES):
                events = await wakes(only, wake_stream, generation)
                assert [event["generation"] for event in events] == list(range(1, generation + 1))
                status, said = await claim(only, f"work-{number}")
                assert (status, said["generation"]) == (200, generation)
                acks = {one["path"]: one["tail_offset"] for one in said["streams"]}
                assert await ack(only, f"work-{number}", generation, acks, done=True) == DONE
            if not generation % 2:
                await only.flush()
                await only.restart()
        outboxes = [keeper.engine.partition.tip.outbox for keeper in server.server.node.keepers.values()]
        await until(lambda: not any(map(len, outboxes)))
        for wake_stream in WAKES:
            assert len(await wakes(only, wake_stream, 4)) == 4
    assert all(sent[path] > 3 for path in LOST), sent

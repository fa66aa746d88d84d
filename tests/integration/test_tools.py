"""The operator's commands, run as an operator runs them, on data that a real server has written."""

import asyncio
import hashlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from durable_sessions.bucket.store import Bucket
from tests.support.process import ServerProcess, free_port
from tests.support.s3 import seaweedfs
from tests.support.waiting import PATIENCE_SECONDS

JSON = {"Content-Type": "application/json"}
TEXT = {"Content-Type": "text/plain"}
LOST = {"type": "durable_sessions.lost"}
STREAMS = ("chat", "big", "notes", "fork", "numbered")
Damage = Callable[[Path], Path]


def tool(*arguments: object, environment: dict[str, str] | None = None) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "durable_sessions", *map(str, arguments)]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("DURABLE_SESSIONS_")}
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
        env={**clean, **(environment or {})},
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done


def answer(*arguments: object) -> Any:
    done = tool(*arguments, "--json")
    return [json.loads(line) for line in done.stdout.splitlines()]


def contents(url: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in STREAMS:
        told = httpx2.get(f"{url}/v1/stream/{name}?offset=-1")
        pieces = [told.content]
        while "stream-up-to-date" not in told.headers:
            offset = told.headers["stream-next-offset"]
            told = httpx2.get(f"{url}/v1/stream/{name}?offset={offset}")
            pieces.append(told.content)
        if name == "notes":
            found[name] = b"".join(pieces).decode()
        else:
            found[name] = [message for piece in pieces for message in json.loads(piece)]
    return found


def write(url: str, life: int) -> None:
    with httpx2.Client(base_url=url + "/v1/stream/") as client:
        for number in range(30):
            client.post("chat", headers=JSON, json=[{"life": life, "number": number}, number])
            client.post("notes", headers=TEXT, content=f"{life}.{number};")
            producer = {"Producer-Id": "p", "Producer-Epoch": "0", "Producer-Seq": str(life * 30 + number)}
            client.post("numbered", headers={**JSON, **producer}, json=life)
        if life == 0:
            for number in range(40):
                client.post("big", headers=JSON, json={"number": number, "text": os.urandom(32_768).hex()})
        if life == 1:
            client.put("fork", headers={**JSON, "Stream-Forked-From": "/v1/stream/chat"})
            client.delete("gone")
        if life > 1:
            client.post("fork", headers=JSON, json={"fork": life})


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A data directory after three flushes and a kill, and what its streams held."""
    data = tmp_path_factory.mktemp("written") / "data"
    server = ServerProcess(data, "--flush-seconds", "3600")
    for life in range(4):
        with server:
            for name in ("chat", "big", "numbered"):
                httpx2.put(f"{server.url}/v1/stream/{name}", headers=JSON)
            httpx2.put(f"{server.url}/v1/stream/notes", headers=TEXT)
            if life == 0:
                httpx2.put(f"{server.url}/v1/stream/gone", headers=TEXT, content="to be deleted")
                subscription = {"type": "pull-wake", "pattern": "c*", "wake_stream": "wakes"}
                httpx2.put(f"{server.url}/v1/stream/__ds/subscriptions/sub", json=subscription)
            write(server.url, life)
            if life < 3:
                assert server.terminate() == 0
            else:
                held = contents(server.url)
    return data, held


@pytest.fixture
def data(written: tuple[Path, dict[str, Any]], tmp_path: Path) -> Path:
    shutil.copytree(written[0], tmp_path / "data")
    return tmp_path / "data"


def tree(data: Path) -> dict[str, str]:
    """What is in a directory, but for the lock and what SQLite leaves beside a file that was open."""
    return {
        str(path.relative_to(data)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(data.rglob("*"))
        if path.is_file() and path.name != "lock"
    }


# Ways to damage a data directory; each returns what verify has to name ------------------


def flip(path: Path, at: float) -> Path:
    content = bytearray(path.read_bytes())
    content[int(at * len(content)) if isinstance(at, float) else at] ^= 0x40
    path.write_bytes(content)
    return path


def logs(data: Path) -> list[Path]:
    return sorted((data / "log").glob("*.log"))


def manifests(data: Path) -> list[Path]:
    return sorted((data / "bucket/partitions/00/manifest").glob("*.json"))


def manifest(data: Path) -> Any:
    return json.loads(manifests(data)[-1].read_bytes())


def segment(data: Path, index: int = 0) -> Path:
    found: Path = data / "bucket" / manifest(data)["segments"][index]["path"]
    return found


def checkpoint(data: Path) -> Path:
    found: Path = data / "bucket" / manifest(data)["checkpoints"][-1]["path"]
    return found


def removed(path: Path) -> Path:
    path.unlink()
    return path


def newest_manifest_removed_with_the_catalog(data: Path) -> Path:
    removed(data / "catalog.sqlite")
    flip(manifests(data)[-1], 0.5)
    return manifests(data)[-1]


def no_log(data: Path) -> Path:
    shutil.rmtree(data / "log")
    return data / "log"


LOSSLESS: dict[str, Damage] = {
    "log header": lambda data: flip(logs(data)[-1], 3),
    "log salt": lambda data: flip(logs(data)[-1], 27),
    "log before the last flush": lambda data: flip(logs(data)[0], 0.5),
    "newest segment, in the log too": lambda data: flip(segment(data, -1), 0.3),
    "newest segment gone": lambda data: removed(segment(data, -1)),
    "checkpoint": lambda data: flip(checkpoint(data), 0.5),
    "checkpoint gone": lambda data: removed(checkpoint(data)),
    "newest manifest": lambda data: flip(manifests(data)[-1], 0.5),
    "newest manifest, no catalog": newest_manifest_removed_with_the_catalog,
    "older manifest": lambda data: flip(manifests(data)[0], 0.5),
    "catalog": lambda data: flip(data / "catalog.sqlite", 30),
    "format": lambda data: flip(data / "bucket/format.json", 12),
    "format gone": lambda data: removed(data / "bucket/format.json"),
}
LOSING: dict[str, Damage] = {
    "middle of the log": lambda data: flip(logs(data)[-1], 0.5),
    "row group": lambda data: flip(segment(data), 0.5),
    "footer": lambda data: flip(segment(data), -200),
    "segment gone": lambda data: removed(segment(data)),
}


def check_named(data: Path, damaged: Path) -> None:
    done = tool("verify", "--data", data, "--json")
    assert done.returncode == 1, done.stdout
    told = json.loads(done.stdout)
    assert not told["ok"]
    where = {problem["where"] for problem in told["problems"]}
    assert str(damaged) in where or damaged.relative_to(data / "bucket").as_posix() in where


def repaired(data: Path) -> dict[str, Any]:
    """Repair a data directory as an operator would, and return what was said about it."""
    before = tree(data)
    (planned,) = answer("repair", "--data", data)
    assert planned["needed"]
    assert not planned["done"]
    assert tree(data) == before, "nothing is changed without --yes"
    done = tool("repair", "--data", data, "--yes", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    assert told["actions"] == planned["actions"]
    assert told["lost"] == planned["lost"]
    assert told["problems_left"] == []
    copies = Path(told["copies"])
    after, kept = tree(data), set(tree(copies).values())
    changed = {path for path, content in before.items() if after.get(path) != content}
    for path in changed - {"catalog.sqlite-shm"}:
        assert before[path] in kept, f"there is no copy of {path}"
    again = tool("repair", "--data", data, "--yes")
    assert (again.returncode, again.stdout) == (0, "Nothing is wrong.\n")
    return told


def served(data: Path) -> dict[str, Any]:
    """Return what a server on the data serves, after it has taken an append that survives a kill."""
    server = ServerProcess(data)
    with server:
        found = contents(server.url)
        assert httpx2.get(f"{server.url}/v1/stream/gone").status_code == 404
        answered = httpx2.post(f"{server.url}/v1/stream/chat", headers=JSON, json={"new": 1})
        assert answered.status_code == 204
        server.kill()
    state, *rest = answer("dump", "stream", "chat", "--data", data)
    assert state["stream"]["tail"] == len(found["chat"]) + 1
    assert state["stream"]["overlay"] == []
    assert json.loads(rest[-1]["record"]["body"]) == {"new": 1}
    return found


@pytest.mark.parametrize("damage", LOSSLESS.values(), ids=LOSSLESS)
def test_damage_that_costs_nothing(written: tuple[Path, dict[str, Any]], data: Path, damage: Damage) -> None:
    check_named(data, damage(data))
    told = repaired(data)
    assert told["lost"] == []
    assert served(data) == written[1]


@pytest.mark.parametrize("damage", LOSING.values(), ids=LOSING)
def test_damage_that_costs_records_costs_no_others(
    written: tuple[Path, dict[str, Any]], data: Path, damage: Damage
) -> None:
    check_named(data, damage(data))
    told = repaired(data)
    assert told["lost"]
    assert {loss["outcome"] for loss in told["lost"]} == {"marked"}
    lost = {
        (loss["path"].removeprefix("default/"), position)
        for loss in told["lost"]
        for position in range(loss["first"], loss["next"])
    }
    found = served(data)
    for name, before in written[1].items():
        assert len(found[name]) == len(before)
        marker = "\0" if name == "notes" else LOST
        for position, (was, now) in enumerate(zip(before, found[name], strict=True)):
            owner = "chat" if name == "fork" and (name, position) not in lost else name
            assert now == (marker if (owner, position) in lost else was), (name, position)


def test_one_row_group_costs_only_its_own_rows(data: Path) -> None:
    flip(segment(data), 0.5)
    told = repaired(data)
    (loss,) = told["lost"]
    assert loss["path"] == "default/big"
    assert 0 < loss["next"] - loss["first"] < 40


def test_every_problem_is_named_in_one_run(data: Path) -> None:
    damaged = [
        flip(logs(data)[-1], 0.5),
        flip(segment(data), 0.5),
        flip(checkpoint(data), 0.5),
        flip(manifests(data)[0], 0.5),
        flip(data / "catalog.sqlite", 30),
    ]
    before = tree(data)
    (told,) = answer("verify", "--data", data)
    assert {Path(problem["where"]).name for problem in told["problems"]} >= {path.name for path in damaged}
    (in_log,) = [p for p in told["problems"] if "a frame is broken" in p["problem"]]
    assert in_log["byte"] <= logs(data)[-1].stat().st_size // 2
    (in_group,) = [
        p for p in told["problems"] if p["where"].startswith("events/") and "row group" in p["problem"]
    ]
    assert in_group["byte"] > 0
    assert in_group["row"] > 0
    assert tree(data) == before
    repaired(data)


def test_verify_counts_what_it_has_checked_and_changes_nothing(data: Path) -> None:
    before = tree(data)
    done = tool("verify", "--data", data)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "ok")
    (told,) = answer("verify", "--data", data)
    assert told["ok"]
    held = manifest(data)
    assert told["checked"]["segments"] == len(held["segments"])
    assert told["checked"]["rows"] == sum(one["rows"] for one in held["segments"])
    assert told["checked"]["manifests"] == len(manifests(data))
    assert told["checked"]["checkpoints"] == len(held["checkpoints"])
    assert told["checked"]["catalogs"] == 1
    assert told["checked"]["streams"] == 5
    assert told["checked"]["batches"] > 90
    assert tree(data) == before


def test_a_catalog_that_disagrees_is_named_row_by_row(data: Path) -> None:
    with sqlite3.connect(data / "catalog.sqlite") as connection:
        connection.execute("delete from streams where path = 'notes'")
        connection.execute("update extents set next = next + 1 where first = 0 and stream = 1")
    connection.close()
    (told,) = answer("verify", "--data", data)
    said = [problem["problem"] for problem in told["problems"]]
    assert "stream 4 is missing" in said
    assert any(text.startswith("the place of stream 1, positions 0 to ") for text in said)
    repaired(data)


def test_a_torn_end_is_a_note_and_no_problem(data: Path) -> None:
    newest = logs(data)[-1]
    newest.write_bytes(newest.read_bytes()[:-3])
    (told,) = answer("verify", "--data", data)
    assert told["ok"]
    assert "the last frame is torn" in told["notes"][0]
    assert answer("dump", "log", "--data", data)[-1]["torn"]
    assert tool("repair", "--data", data).stdout == "Nothing is wrong.\n"


def test_a_bucket_without_its_log_serves_again(written: tuple[Path, dict[str, Any]], data: Path) -> None:
    """What was not flushed is lost with the log, and nobody can tell what that was; the rest is not."""
    check_named(data, no_log(data))
    assert repaired(data)["lost"] == []
    found = served(data)
    for name in STREAMS:
        assert found[name] == written[1][name][: len(found[name])]
        assert len(found[name]) >= len(written[1][name]) * 3 // 4


def test_a_log_without_its_bucket_needs_a_word(data: Path) -> None:
    shutil.rmtree(data / "bucket")
    before = tree(data)
    refused = tool("repair", "--data", data, "--yes")
    assert refused.returncode == 1
    assert "Point --bucket to the bucket" in refused.stderr
    assert tree(data) | {"bucket": ""} == before | {"bucket": ""}
    assert tool("repair", "--data", data, "--bucket-is-lost", "--yes").returncode == 0
    with ServerProcess(data) as server:
        numbers = [
            one["stream"]["id"]
            for one in answer(
                "dump", "stream", "lost-and-found/1", "--workspace", "lost-and-found", "--data", data
            )[:1]
        ]
        assert numbers == [1]
        assert server.terminate() == 0


def test_beside_a_running_server(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with ServerProcess(data) as server:
        httpx2.put(f"{server.url}/v1/stream/chat", headers=JSON)
        httpx2.post(f"{server.url}/v1/stream/chat", headers=JSON, json=[1, 2, 3])
        for command in ("verify", "repair", "gc"):
            refused = tool(command, "--data", data)
            assert refused.returncode == 1
            assert "in use by another process" in refused.stderr
            assert "Stop the server first" in refused.stderr
        (batches,) = [answer("dump", "log", "--data", data)]
        assert [effect["effect"] for one in batches for effect in one["effects"]] == [
            "StreamCreated",
            "Appended",
        ]
        flushed = answer("flush", "--data", data, "--url", server.url)
        assert flushed == [{"manifest": 2, "flushed_through": batches[-1]["position"]}]
        assert tool("verify", "--bucket-only", "--data", data).returncode == 0
        assert tool("gc", "--dry-run", "--data", data).returncode == 0
        httpx2.post(f"{server.url}/v1/stream/chat", headers=JSON, json=4)
        shown = answer("dump", "stream", "chat", "--data", data)
        assert [(one["record"]["tier"], one["record"]["body"]) for one in shown if "record" in one] == [
            ("bucket", "1"),
            ("bucket", "2"),
            ("bucket", "3"),
            ("log", "4"),
        ]
        busy = tool("flush", "--data", data, "--url", f"http://127.0.0.1:{free_port()}")
        assert busy.returncode == 1
        assert "Nothing listens" in busy.stderr
        assert "in use by another process" in busy.stderr


def test_dumps_for_people_and_programs(data: Path) -> None:
    path = manifest(data)["segments"][0]["path"]
    (held,) = answer("dump", "manifest", "--data", data)
    assert held["number"] == manifest(data)["number"]
    assert path in tool("dump", "manifest", "--data", data).stdout
    older = manifests(data)[0].stem
    assert answer("dump", "manifest", "--number", int(older), "--data", data)[0]["number"] == int(older)
    items = answer("dump", "segment", path, "--data", data)
    assert items[0]["segment"] == path
    assert len([item for item in items if "row" in item and "session" in item]) == items[0]["rows"]
    state, *rest = answer("dump", "stream", "fork", "--data", data)
    assert (state["stream"]["path"], state["stream"]["parent"]) == ("fork", 1)
    assert {one["place"]["tier"] for one in rest if "place" in one} == {"bucket", "log"}
    bodies = [one["record"]["body"] for one in rest if "record" in one]
    assert bodies == ['{"fork":2}', '{"fork":3}']
    text = tool("dump", "stream", "numbered", "--data", data).stdout
    assert "producers: {'p': (0, 119)}" in text
    all_batches = answer("dump", "log", "--data", data)
    some = answer("dump", "log", "--from", all_batches[5]["position"], "--limit", 2, "--data", data)
    assert some == all_batches[5:7]
    line = tool("dump", "log", "--limit", 1, "--data", data).stdout
    assert line.startswith(f"batch {all_batches[0]['position']}")


def test_dump_shows_damage_where_it_lies(data: Path) -> None:
    total = len(answer("dump", "log", "--data", data))
    flip(logs(data)[-1], 0.5)
    items = answer("dump", "log", "--data", data)
    assert len(items) == total
    (damage,) = [item for item in items if "damage" in item]
    assert damage["file"] == logs(data)[-1].name
    flip(segment(data), 0.5)
    path = segment(data).relative_to(data / "bucket")
    groups = [item for item in answer("dump", "segment", path, "--data", data) if "sha256" in item][1:]
    assert [group["damaged"] for group in groups].count(True) == 1


def test_flush_without_a_server(data: Path) -> None:
    last = answer("dump", "log", "--data", data)[-1]["position"]
    number = manifest(data)["number"]
    nobody = f"http://127.0.0.1:{free_port()}"
    done = tool("flush", "--data", data, "--json", environment={"DURABLE_SESSIONS_URL": nobody})
    assert json.loads(done.stdout) == {"manifest": number + 2, "flushed_through": last}
    assert tool("verify", "--data", data).returncode == 0


def test_gc_removes_what_nothing_refers_to(data: Path) -> None:
    orphan = segment(data).with_name("00-000000000001-7.parquet")
    orphan.write_bytes(b"left behind by a crash")
    young = segment(data).with_name("00-000000000001-8.parquet")
    young.write_bytes(b"maybe still being written")
    stranger = data / "bucket/events/notes.txt"
    stranger.write_bytes(b"not ours")
    old = time.time() - 7200
    for path in (orphan, stranger):
        os.utime(path, (old, old))
    (dry,) = answer("gc", "--dry-run", "--data", data)
    name = orphan.relative_to(data / "bucket").as_posix()
    assert dry == {"removed": False, "objects": [{"path": name, "reason": "nothing refers to it"}]}
    assert orphan.exists()
    done = tool("gc", "--data", data)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "1 object was removed")
    assert not orphan.exists()
    assert young.exists()
    assert stranger.exists()
    assert tool("verify", "--data", data).returncode == 0
    assert answer("gc", "--data", data)[0]["objects"] == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["verify", "--data", "nowhere"], "does not exist"),
        (["verify", "--nonsense"], "No such option"),
        (["dump", "segment", "../../etc/passwd", "--data", "nowhere"], "is not the path of an object"),
        (["dump", "log", "--limit", "0"], "--limit"),
        (["flush", "--url", "ftp://x"], "is not the address of a server"),
        (["flush", "--url", "http://[::1"], "is not the address of a server"),
        (["sessions", "--url", "http://h:port"], "is not the address of a server"),
        (["reindex", "--api-key", "schlüssel"], "The API key has a character that no key has"),
        (["verify", "--config", "/nowhere.toml"], "cannot be read"),
        (["verify", "--bucket-only", "--data", "nowhere"], "does not exist"),
        (["gc", "--dry-run", "--data", "nowhere"], "does not exist"),
        (["flush", "--data", "nowhere", "--url", "http://127.0.0.1:1"], "Nothing answers at"),
        (["serve", "--port", "99999"], "port"),
    ],
)
def test_wrong_use_exits_with_2(arguments: list[str], said: str) -> None:
    done = tool(*arguments)
    assert done.returncode == 2
    assert said in done.stderr


@pytest.mark.parametrize("command", ["flush", "reindex"])
def test_a_server_that_was_named_is_not_replaced_by_the_usual_directory(command: str) -> None:
    done = tool(command, "--url", "http://127.0.0.1:1")
    assert done.returncode == 4
    assert "Nothing answers at http://127.0.0.1:1" in done.stderr


def test_the_environment_names_data_and_bucket(data: Path, tmp_path: Path) -> None:
    shutil.move(data / "bucket", tmp_path / "elsewhere")
    assert tool("verify", "--data", data).returncode == 1
    variables = {"DURABLE_SESSIONS_DATA": str(data), "DURABLE_SESSIONS_BUCKET": str(tmp_path / "elsewhere")}
    assert tool("verify", environment=variables).returncode == 0


def test_on_a_remote_bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = tmp_path / "data"
    with seaweedfs(tmp_path) as s3:
        for name, value in s3.environment.items():
            monkeypatch.setenv(name, value)
        where = ("--data", data, "--bucket", s3.url("tools"))
        with ServerProcess(data, "--bucket", s3.url("tools")) as server:
            httpx2.put(f"{server.url}/v1/stream/chat", headers=JSON)
            httpx2.post(f"{server.url}/v1/stream/chat", headers=JSON, json=[1, 2, 3])
            assert server.terminate() == 0
        assert tool("verify", *where).returncode == 0
        (held,) = answer("dump", "manifest", *where)
        path = held["segments"][0]["path"]

        async def damage() -> None:
            bucket = await Bucket.open(s3.url("tools"))
            content = await bucket.get(path)
            await bucket.put(path, content[:100] + b"x" + content[101:])

        asyncio.run(damage())
        (told,) = answer("verify", *where)
        assert path in {problem["where"] for problem in told["problems"]}
        (done,) = answer("repair", "--yes", *where)
        assert done["lost"] == []
        assert (Path(done["copies"]) / "bucket" / path).exists()
        assert tool("verify", *where).returncode == 0
        with ServerProcess(data, "--bucket", s3.url("tools")) as server:
            assert httpx2.get(f"{server.url}/v1/stream/chat?offset=-1").json() == [1, 2, 3]

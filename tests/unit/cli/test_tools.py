"""verify, repair, gc, flush and reindex: what they print, what they leave alone, and how they end."""

import asyncio
import json
import os
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from durable_sessions.cli import reindex
from durable_sessions.log.disk import REAL_DISK
from tests.unit.cli.conftest import Run, tree
from tests.unit.tools.damage import flip, logs, manifests, newest
from tests.unit.tools.datadir import DataDirectory

NOBODY = "http://127.0.0.1:1"
HOURS_AGO = 2 * 3_600


def segments(data: Path) -> list[Path]:
    return [data / "bucket" / one.path for one in asyncio.run(newest(data)).segments]


# verify ---------------------------------------------------------------------------------


def test_a_sound_directory_is_ok(data: Path, run: Run) -> None:
    before = tree(data)
    told = run("verify", "--data", data)
    assert told.status == 0
    assert told.lines[-1] == "ok"
    assert told.lines[-2].startswith("checked: ")
    (answer,) = run("verify", "--data", data, "--json").json
    assert (answer["ok"], answer["problems"], answer["notes"]) == (True, [], [])
    assert f"{answer['checked']['batches']} batches" in told.lines[-2]
    assert tree(data) == before


def test_every_problem_is_a_line_with_its_place(data: Path, run: Run) -> None:
    damaged, segment = flip(logs(data)[-1], 200), segments(data)[0]
    flip(segment, 60)
    told = run("verify", "--data", data)
    assert told.status == 1
    problems = [line for line in told.lines if line.startswith("problem: ")]
    assert told.lines[-1] == f"{len(problems)} problems"
    assert [line for line in problems if line.startswith(f"problem: {damaged}, byte ")]
    name = segment.relative_to(data / "bucket").as_posix()
    assert [line for line in problems if line.startswith(f"problem: {name}, byte ")]
    (answer,) = run("verify", "--data", data, "--json").json
    assert not answer["ok"]
    assert len(answer["problems"]) == len(problems)
    assert all(None not in problem.values() for problem in answer["problems"])
    (in_segment,) = [one for one in answer["problems"] if one["where"] == name and "row" in one]
    assert in_segment["row"] == 0


def test_the_bucket_alone_needs_neither_log_nor_lock(data: Path, run: Run) -> None:
    flip(logs(data)[-1], 200)
    release = REAL_DISK.claim(data / "log")
    try:
        busy = run("verify", "--data", data)
        assert (busy.status, busy.out) == (1, "")
        assert "Stop the server first, or use --bucket-only." in busy.err
        assert run("verify", "--data", data, "--bucket-only").status == 0
    finally:
        release()
    assert run("verify", "--data", data).status == 1


def test_a_note_is_no_problem(data: Path, run: Run) -> None:
    newest_log = logs(data)[-1]
    newest_log.write_bytes(newest_log.read_bytes()[:-3])
    told = run("verify", "--data", data)
    assert told.status == 0
    (note,) = [line for line in told.lines if line.startswith("note: ")]
    assert newest_log.name in note


# repair ---------------------------------------------------------------------------------


def test_a_dry_run_names_what_would_be_lost_and_changes_nothing(data: Path, run: Run) -> None:
    segment = segments(data)[0]
    flip(segment, 60)
    before = tree(data)
    told = run("repair", "--data", data)
    assert told.status == 1
    assert told.lines[-1] == "Nothing was changed. Run the command with --yes to do this."
    assert tree(data) == before
    (answer,) = run("repair", "--data", data, "--json").json
    assert (answer["needed"], answer["done"]) == (True, False)
    assert "copies" not in answer
    assert answer["lost"], "the oldest segment is nowhere else"
    for loss in answer["lost"]:
        assert loss["outcome"] == "marked"
        line = (
            f"lost: stream {loss['stream']} ({loss['path']}), positions {loss['first']} to {loss['next']}:"
            " markers take their place"
        )
        assert line in told.lines
    assert [
        one for one in answer["actions"] if one["where"] == segment.relative_to(data / "bucket").as_posix()
    ]
    assert tree(data) == before


def test_a_repair_keeps_copies_and_is_needed_once(data: Path, run: Run) -> None:
    flip(segments(data)[0], 60)
    before = tree(data)
    told = run("repair", "--data", data, "--yes")
    assert told.status == 0
    assert told.lines[-1] == "ok", "it is verified at once"
    (copies,) = data.glob("repair-*")
    assert f"Done. Copies of all that was changed or removed are in {copies}" in told.lines
    kept = set(tree(copies).values())
    after = tree(data)
    changed = {path for path in before if after.get(path) != before[path]}
    assert changed
    assert {before[path] for path in changed} <= kept
    assert run("repair", "--data", data, "--yes").out == "Nothing is wrong.\n"
    (answer,) = run("repair", "--data", data, "--json").json
    assert answer == {"needed": False, "done": False, "actions": [], "lost": []}


def test_a_repair_for_programs_says_what_is_left(data: Path, run: Run) -> None:
    flip(logs(data)[-1], 200)
    told = run("repair", "--data", data, "--yes", "--json")
    (answer,) = told.json
    assert told.status == 0
    assert answer["done"]
    assert answer["problems_left"] == []
    assert Path(answer["copies"]).is_dir()


def test_a_repair_that_was_cut_off_is_completed_first(
    data: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    flip(logs(data)[-1], 200)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("durable_sessions.log.repair.complete", killed)
        assert run("repair", "--data", data, "--yes").status != 0
    problem = run("verify", "--data", data)
    assert problem.status == 1
    assert "a repair was interrupted; run repair to complete it" in problem.out
    dry = run("repair", "--data", data)
    assert dry.status == 1
    assert "a repair was interrupted; it is completed first" in dry.out
    done = run("repair", "--data", data, "--yes")
    assert done.lines[0] == "An interrupted repair was completed."
    assert done.status == 0
    assert run("verify", "--data", data).status == 0


def test_what_a_repair_cannot_mend_is_left_alone(data: Path, run: Run) -> None:
    (data / "bucket/format.json").write_bytes(b'{"format":"durable-sessions","version":9,"partitions":1}')
    before = tree(data)
    told = run("repair", "--data", data, "--yes")
    assert (told.status, told.out) == (1, "")
    assert "This is no damage that a repair can mend, and nothing was changed." in told.err
    assert tree(data) == before


def test_a_log_of_another_bucket_is_dropped_by_name(data: Path, run: Run) -> None:
    (tied,) = (data / "log").glob("*.lineage")
    tied.rename(tied.with_name(f"log_{'0' * 32}.lineage"))
    told = run("repair", "--data", data)
    assert told.status == 1
    (action,) = [line for line in told.lines if "it is not the log of this bucket, and is set aside" in line]
    assert "are dropped; durable-sessions dump log --from " in action
    lost = [line for line in told.lines if line.startswith("lost: ")]
    assert all(line.endswith("they are dropped") for line in lost)
    assert run("repair", "--data", data, "--yes").status == 0
    assert not logs(data)
    (copies,) = data.glob("repair-*")
    assert list((copies / "log").glob("*.log")), "whoever needs them can still read them"
    assert run("verify", "--data", data).status == 0


# gc -------------------------------------------------------------------------------------


def test_gc_removes_old_orphans_and_nothing_else(data: Path, run: Run) -> None:
    orphan = segments(data)[0].with_name("00-000000000001-7.parquet")
    young = segments(data)[0].with_name("00-000000000001-8.parquet")
    for path in (orphan, young):
        path.write_bytes(b"left behind by a crash")
    old = time.time() - HOURS_AGO
    os.utime(orphan, (old, old))
    before = tree(data)
    dry = run("gc", "--data", data, "--dry-run")
    name = orphan.relative_to(data / "bucket").as_posix()
    assert f"{name}: nothing refers to it" in dry.lines
    assert dry.lines[-1].endswith("objects can be removed")
    assert tree(data) == before
    (planned,) = run("gc", "--data", data, "--dry-run", "--json").json
    assert not planned["removed"]
    (done,) = run("gc", "--data", data, "--json").json
    assert done["removed"]
    assert done["objects"] == planned["objects"]
    assert not orphan.exists()
    assert young.exists()
    assert run("verify", "--data", data).status == 0


def test_gc_of_a_bucket_that_was_never_flushed_to(tmp_path: Path, run: Run) -> None:
    data = tmp_path / "data"
    data.mkdir()
    assert run("gc", "--data", data).lines == ["0 objects were removed"]
    assert run("gc", "--data", data, "--dry-run").lines == ["0 objects can be removed"]


def test_commands_that_change_something_wait_for_no_server(data: Path, run: Run) -> None:
    release = REAL_DISK.claim(data / "log")
    try:
        for command in ("gc", "repair"):
            told = run(command, "--data", data, "--json")
            assert told.status == 1
            said = json.loads(told.err)["error"]
            assert said["exit_status"] == 1
            assert "Stop the server first" in said["message"]
        assert run("gc", "--data", data, "--dry-run").status == 0
        for command in ("flush", "reindex"):
            told = run(command, "--data", data, "--url", NOBODY)
            assert told.status == 1
            assert f"Nothing listens at {NOBODY}" in told.err
            assert "in use by another process" in told.err
    finally:
        release()


# flush and reindex ----------------------------------------------------------------------


@contextmanager
def answering(*answers: tuple[int, Any]) -> Iterator[tuple[str, list[str]]]:
    """Answer requests with one answer after the other, the last one again and again; note what was asked."""
    left, asked = list(answers), []

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            asked.append(f"{self.command} {self.path} {self.headers.get('Authorization')}")
            status, value = left.pop(0) if len(left) > 1 else left[0]
            body = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = answer  # noqa: N815 - the names that the library looks for

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_flush_without_a_server_moves_everything_to_the_bucket(data: Path, run: Run) -> None:
    async def append() -> None:
        async with DataDirectory(data) as opened:
            await opened.append("a", b'"new"')

    asyncio.run(append())
    last = run("dump", "log", "--data", data, "--json").json[-1]["position"]
    told = run("flush", "--data", data, "--url", NOBODY)
    number = int(manifests(data)[-1].stem)
    assert (told.status, told.out) == (0, f"{data}: flushed through {last}, manifest {number}\n")
    *_, record = run("dump", "stream", "a", "--data", data, "--json").json
    assert (record["record"]["tier"], record["record"]["body"]) == ("bucket", '"new"')
    assert run("verify", "--data", data).status == 0


def test_a_running_server_is_asked_to_flush(run: Run) -> None:
    with answering((200, {"manifest": 7, "flushed_through": 99})) as (url, asked):
        told = run("flush", "--url", url, "--api-key", "key")
        assert told.out == f"{url}: flushed through 99, manifest 7\n"
        assert run("flush", "--url", url, "--json").json == [{"manifest": 7, "flushed_through": 99}]
    assert asked == ["POST /v1/admin/flush Bearer key", "POST /v1/admin/flush None"]


REFUSAL = {"error": {"type": "x", "message": "Not with this key.", "details": {"error_code": "forbidden"}}}


@pytest.mark.parametrize("command", ["flush", "reindex"])
@pytest.mark.parametrize(
    ("answer", "status", "said"),
    [
        ((401, REFUSAL), 5, "Give a key with --api-key"),
        ((403, REFUSAL), 5, "ds: Not with this key."),
        ((500, {}), 1, "answered 500"),
        ((200, ["something else"]), 4, "is not the address of a Durable Sessions server"),
    ],
)
def test_a_server_that_refuses_is_quoted(
    run: Run, command: str, answer: tuple[int, Any], status: int, said: str
) -> None:
    with answering(answer) as (url, _):
        told = run(command, "--url", url)
    assert (told.status, told.out) == (status, "")
    assert said in told.err
    assert (url in told.err) == (status != 5)  # what no server of ours would say is told with its address


def ready(state: str, **fields: object) -> tuple[int, Any]:
    return 200, {"search": {"state": state, **fields}}


def test_reindexing_waits_until_a_running_server_is_done(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reindex, "LOOK_SECONDS", 0.0)
    building = ready("building", events=1_500, events_left=500)
    with answering((200, {"status": "started"}), building, building, ready("ready")) as (url, asked):
        told = run("reindex", "--url", url, "--json")
    assert told.status == 0
    (answer,) = told.json
    assert answer["events"] == 1_500
    assert [one.split()[1] for one in asked] == ["/v1/admin/reindex", "/readyz", "/readyz", "/readyz"]


@pytest.mark.parametrize(
    ("events", "counted"), [(1_500, ": 1,500 events in "), (1, ": 1 event in "), (0, " in ")]
)
def test_reindexing_says_in_one_line_what_it_did(
    run: Run, monkeypatch: pytest.MonkeyPatch, events: int, counted: str
) -> None:
    """Also of an index that was rebuilt before anybody looked, and then without a wrong number."""
    monkeypatch.setattr(reindex, "LOOK_SECONDS", 0.0)
    building = [ready("building", events=events, events_left=1)] if events else []
    with answering((200, {"status": "started"}), *building, ready("ready")) as (url, _):
        told = run("reindex", "--url", url)
    assert (told.status, told.err) == (0, "")
    assert len(told.out.splitlines()) == 1
    assert told.out.startswith(f"The search index of {url} was rebuilt{counted}")


@pytest.mark.parametrize(
    ("reason", "said"), [("the disk is full", "the disk is full"), ("", "see the server log")]
)
@pytest.mark.parametrize("state", ["failing", "paused"])
def test_an_index_that_cannot_be_made_is_no_success(run: Run, state: str, reason: str, said: str) -> None:
    with answering((200, {"status": "started"}), ready(state, reason=reason)) as (url, _):
        told = run("reindex", "--url", url)
    assert told.status == 1
    assert f"The index cannot be made: {said}" in told.err


def test_a_server_that_does_not_answer_is_not_replaced_by_another_directory(run: Run, tmp_path: Path) -> None:
    for command in ("flush", "reindex"):
        told = run(command, "--url", NOBODY)
        assert told.status == 4
        assert "name it with --data" in told.err
        told = run(command, "--url", NOBODY, "--data", tmp_path / "none")
        assert told.status == 2
        assert f"the data directory {tmp_path / 'none'} does not exist" in told.err


def test_nothing_is_made_where_nothing_was(run: Run, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path)
    for command in (["verify"], ["repair"], ["gc"], ["dump", "log"]):
        told = run(*command, "--data", tmp_path)
        assert told.status == 2
        assert f"The data directory {tmp_path} does not exist. Name it with --data." in told.err
    assert not tmp_path.exists()

"""The official clients write, read and tail."""

import json
import os
import subprocess
import threading
import time
from pathlib import Path

import durable_streams
import pytest

from tests.support.process import ServerProcess
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.conformance


def test_the_typescript_client(node_modules: Path, server: ServerProcess) -> None:
    done = subprocess.run(
        ["node", "client.mjs"],
        cwd=node_modules,
        env={**os.environ, "DS_URL": server.url},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    for live in ("sse", "long-poll"):
        assert seen[live] == {"caughtUp": list(range(20)), "tailed": list(range(120)), "failures": []}
    assert seen["binary"] == [0, 1, 2, 253, 254, 255]
    assert seen["closed"] is True


def test_the_python_client_writes_and_catches_up(server: ServerProcess) -> None:
    url = server.url + "/v1/stream/py/json"
    with durable_streams.DurableStream.create(url, content_type="application/json") as stream:
        for number in range(20):
            stream.append({"n": number}, seq=f"{number:04d}")
        with pytest.raises(durable_streams.SeqConflictError):
            stream.append({"n": 99}, seq="0003")
        assert stream.head().offset == "0000000000000000_0000000000000020"
        with stream.stream(live=False) as response:
            assert [item["n"] for item in response.read_json()] == list(range(20))
        with pytest.raises(durable_streams.StreamExistsError):
            durable_streams.DurableStream.create(url, content_type="text/plain")
        stream.delete()
        with pytest.raises(durable_streams.StreamNotFoundError):
            stream.head()


@pytest.mark.parametrize("live", ["long-poll", "sse"])
def test_the_python_client_tails(server: ServerProcess, live: durable_streams.LiveMode) -> None:
    url = f"{server.url}/v1/stream/py/{live}"
    writer = durable_streams.DurableStream.create(url, content_type="application/json", body=[{"n": 0}])

    def write() -> None:
        for number in range(1, 10):
            time.sleep(0.02)
            writer.append({"n": number})

    thread = threading.Thread(target=write)
    seen = []
    with durable_streams.stream(url, offset="-1", live=live) as response:
        thread.start()
        for item in response.iter_json():
            seen.append(item["n"])
            if seen[-1] == 9:
                break
    thread.join()
    writer.close()
    assert seen == list(range(10))

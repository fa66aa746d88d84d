"""The supervisor of workers, with workers that serve nothing."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.waiting import PATIENCE_SECONDS, wait_until


class Supervised:
    """A supervisor, and what its workers leave in a directory."""

    def __init__(self, directory: Path, of: int, *arguments: str) -> None:
        self.directory = directory
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.worker_supervisor", str(directory), str(of), *arguments],
            stderr=subprocess.PIPE,
            text=True,
        )

    def pids(self, number: int) -> list[int]:
        try:
            return [int(line) for line in (self.directory / f"started-{number}").read_text().split()]
        except FileNotFoundError:
            return []

    def ready(self, *numbers: int) -> None:
        for number in numbers:
            wait_until((self.directory / f"ready-{number}").exists)

    def ended(self) -> int:
        return self.process.wait(PATIENCE_SECONDS)


Start = Callable[..., Supervised]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[Supervised] = []

    def begin(of: int, *arguments: str) -> Supervised:
        started.append(Supervised(tmp_path, of, *arguments))
        return started[-1]

    yield begin
    for one in started:
        one.process.kill()
        one.process.communicate()
        for path in tmp_path.glob("started-*"):
            for pid in map(int, path.read_text().split()):
                wait_until(lambda: not alive(pid))  # noqa: B023


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_all_workers_and_then_the_supervisor(start: Start, number: int, tmp_path: Path) -> None:
    supervised = start(3)
    supervised.ready(0, 1, 2)
    supervised.process.send_signal(number)
    assert supervised.ended() == 0
    assert sorted(path.name for path in tmp_path.glob("ended-*")) == ["ended-0", "ended-1", "ended-2"]


def test_a_worker_that_dies_is_started_again_and_no_other(start: Start) -> None:
    supervised = start(2)
    supervised.ready(0, 1)
    for i in range(1, 4):
        os.kill(supervised.pids(1)[-1], signal.SIGKILL)
        wait_until(lambda: len(supervised.pids(1)) == i + 1)  # noqa: B023
    assert len(supervised.pids(0)) == 1
    supervised.process.terminate()
    assert supervised.ended() == 0


@pytest.mark.parametrize("number", [0, 1])
def test_a_worker_that_cannot_start_ends_everything_with_its_status(
    start: Start, number: int, tmp_path: Path
) -> None:
    (tmp_path / f"refuse-{number}").write_text("3")
    supervised = start(2)
    assert supervised.ended() == 3
    assert supervised.process.stderr is not None
    assert supervised.process.stderr.read().count(f"worker {number} cannot start") == 1
    assert len(supervised.pids(number)) == 1
    assert not any(alive(pid) for pid in supervised.pids(0) + supervised.pids(1))
    if number == 0:
        assert supervised.pids(1) == [], "the others would say the same"


def test_a_worker_that_never_starts_again_ends_everything(start: Start, tmp_path: Path) -> None:
    """It is tried ``worker_start_failures_max`` times, which is 3 here."""
    supervised = start(2)
    supervised.ready(0, 1)
    (tmp_path / "refuse-1").write_text("3")
    os.kill(supervised.pids(1)[-1], signal.SIGKILL)
    assert supervised.ended() == 3
    assert len(supervised.pids(1)) == 1 + 3
    assert not alive(supervised.pids(0)[0])


def test_workers_end_when_the_supervisor_is_killed(start: Start, tmp_path: Path) -> None:
    supervised = start(2)
    supervised.ready(0, 1)
    supervised.process.kill()
    supervised.ended()
    for number in (0, 1):
        wait_until((tmp_path / f"ended-{number}").exists)
        wait_until(lambda: not alive(supervised.pids(number)[0]))  # noqa: B023


def test_a_worker_that_does_not_stop_is_killed(start: Start, tmp_path: Path) -> None:
    """After ``worker_stop_seconds_max``."""
    (tmp_path / "stubborn").touch()
    supervised = start(1, "0.2")
    supervised.ready(0)
    supervised.process.terminate()
    assert supervised.ended() == 128 + signal.SIGKILL
    assert not alive(supervised.pids(0)[0])


def test_a_stop_while_the_first_worker_starts(start: Start) -> None:
    supervised = start(2)
    wait_until(lambda: supervised.pids(0))
    supervised.process.terminate()
    assert supervised.ended() in (0, 128 + signal.SIGTERM)
    assert not any(alive(pid) for pid in supervised.pids(0))

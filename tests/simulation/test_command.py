"""The command that runs seeds: what it says, and how it ends."""

import subprocess
import sys

import pytest
from click.testing import CliRunner

from durable_sessions.testing.simulation import __main__ as command
from durable_sessions.testing.simulation.run import Run
from tests.support.waiting import PATIENCE_SECONDS


def test_a_seed_alone_can_be_traced() -> None:
    done = CliRunner().invoke(command.main, ["--seed", "4", "--trace"])
    assert done.exit_code == 0
    assert "after log.sync" in done.output
    assert "digest" in done.output


def test_seeds_are_sent_to_other_processes_when_it_is_run_as_a_program() -> None:
    command = [sys.executable, "-m", "durable_sessions.testing.simulation", "--seeds", "1", "--jobs", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    assert "0 seeds failed" in done.stdout


def test_several_seeds_are_counted() -> None:
    done = CliRunner().invoke(command.main, ["--seeds", "2", "--first", "4", "--jobs", "1"])
    assert done.exit_code == 0
    assert "2 seeds from 4 on" in done.output
    assert "0 seeds failed" in done.output


def test_two_servers_on_one_bucket_can_be_run() -> None:
    done = CliRunner().invoke(command.main, ["--rivals", "--seeds", "2", "--jobs", "1"])
    assert done.exit_code == 0
    assert "0 seeds failed" in done.output
    done = CliRunner().invoke(command.main, ["--rivals", "--seed", "1", "--trace"])
    assert done.exit_code == 0
    assert "stepped_down" in done.output or "does not start: log_" in done.output


def test_a_seed_that_fails_is_told_with_the_way_to_see_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = Run(9, ["acknowledged_is_there s0: it is not"], "", 0, 0, [])
    monkeypatch.setattr(command, "run_all", lambda *_: iter([failed]))
    done = CliRunner().invoke(command.main, ["--minutes", "1"])
    assert done.exit_code == 1
    assert "--seed 9 --trace" in done.output
    assert "acknowledged_is_there" in done.output

"""The files in deploy/: the guide shows them as they are, and they work as far as this machine can tell."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest

from durable_sessions.testing import server
from tests.support.process import ServerProcess
from tests.support.skips import disabled
from tests.support.walkthrough import ROOT, blocks

DEPLOY = ROOT / "deploy"
GUIDE = ROOT / "docs" / "howto" / "run-in-production.md"
METRIC = re.compile(r"durable_sessions_\w+")
SHOWN = {block.file: block.text for block in blocks(GUIDE) if block.file is not None}


@pytest.mark.parametrize("name", sorted(set(SHOWN) & {path.name for path in DEPLOY.iterdir()}))
def test_the_guide_shows_the_files_as_they_are(name: str) -> None:
    assert SHOWN[name] == (DEPLOY / name).read_text()


def test_the_guide_shows_the_files_that_matter() -> None:
    shown = {"durable-sessions.service", "durable-sessions.toml", "Dockerfile", "compose.yaml", "alerts.yml"}
    assert shown <= set(SHOWN)


@pytest.fixture(scope="module")
def exposed(tmp_path_factory: pytest.TempPathFactory) -> str:
    with server(tmp_path_factory.mktemp("data")) as one:
        return httpx2.get(f"{one.url}/metrics", timeout=60).text


@pytest.mark.parametrize("name", ["alerts.yml", "grafana-dashboard.json"])
def test_every_metric_exists(name: str, exposed: str) -> None:
    used = set(METRIC.findall((DEPLOY / name).read_text()))
    assert used
    missing = {metric for metric in used if not re.search(rf"^{metric}(\{{| )", exposed, re.MULTILINE)}
    assert not missing


def test_every_label_of_the_dashboard_exists(exposed: str) -> None:
    panels: list[dict[str, Any]] = json.loads((DEPLOY / "grafana-dashboard.json").read_text())["panels"]
    for panel in panels:
        for target in panel["targets"]:
            for label in re.findall(r"sum by \((\w+)\)", target["expr"]):
                (metric,) = set(METRIC.findall(target["expr"]))
                assert label == "le" or re.search(rf'^{metric}\{{{label}="', exposed, re.MULTILINE), metric


def test_panels_of_the_dashboard_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in json.loads((DEPLOY / "grafana-dashboard.json").read_text())["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells


def test_nothing_private_gets_into_an_image() -> None:
    kept = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    assert "*" in (ROOT / ".dockerignore").read_text().splitlines()
    assert sorted(kept) == sorted(
        ["src", "docs", "pyproject.toml", "requirements.lock", "README.md", "LICENSE"]
    )
    assert all((ROOT / path).exists() for path in kept)


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None,
    reason=disabled("systemd-analyze is missing: no unit was checked", "apt-get install systemd"),
)
def test_systemd_understands_the_units(tmp_path: Path) -> None:
    units = []
    for unit in [*DEPLOY.glob("*.service"), *DEPLOY.glob("*.timer")]:
        text = re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", unit.read_text(), flags=re.MULTILINE)
        units.append(tmp_path / unit.name)
        units[-1].write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *units], capture_output=True, text=True, check=False
    )
    ours = [line for line in done.stderr.splitlines() if "durable-sessions" in line]
    assert (done.returncode, ours) == (0, [])


@pytest.mark.skipif(
    shutil.which("promtool") is None,
    reason=disabled("promtool is missing: no alert was checked", "apt-get install prometheus"),
)
def test_prometheus_understands_the_alerts() -> None:
    subprocess.run(["promtool", "check", "rules", DEPLOY / "alerts.yml"], check=True)


def test_backups_can_be_repeated_and_restored(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "ds").write_text(f'#!/bin/sh\nexec {sys.executable} -m durable_sessions "$@"\n')
    (programs / "ds").chmod(0o755)
    with ServerProcess(tmp_path / "data") as source:
        for number in range(3):
            body = {"type": "note", "n": number}
            assert httpx2.post(f"{source.url}/v1/sessions/s/events", json=body, timeout=60).status_code == 204
            subprocess.run(
                [DEPLOY / "backup.sh", tmp_path / "data" / "bucket", copy],
                check=True,
                env={
                    "PATH": "/usr/bin:/bin",
                    "PYTHONPATH": str(ROOT / "src"),
                    "DS_BIN": str(programs),
                    "DURABLE_SESSIONS_URL": source.url,
                },
            )
    with ServerProcess(tmp_path / "restored", "--bucket", str(copy)) as restored:
        events = httpx2.get(f"{restored.url}/v1/sessions/s/events", timeout=60).json()["data"]
    assert [event["n"] for event in events] == [0, 1, 2]

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


def test_every_alert_says_how_bad_it_is_and_clears_by_itself() -> None:
    rules = (DEPLOY / "alerts.yml").read_text().split("- alert: ")[1:]
    assert len(rules) >= 15
    for rule in rules:
        assert re.search(r"labels: \{severity: (critical|warning)\}", rule), rule
        assert re.search(r'annotations: \{summary: "[^"]+\."\}', rule), rule
        for counter in re.findall(r"durable_sessions_\w+_total", rule):
            assert f"increase({counter}[" in rule, "a counter never falls, so what is above it never ends"
    assert any("up{" in rule for rule in rules)


@pytest.mark.parametrize("name", ["alerts.yml", "grafana-dashboard.json"])
def test_every_metric_exists(name: str, exposed: str) -> None:
    used = set(METRIC.findall((DEPLOY / name).read_text()))
    assert used
    missing = {metric for metric in used if not re.search(rf"^{metric}(\{{| )", exposed, re.MULTILINE)}
    assert not missing


def expressions() -> str:
    """Return what the dashboard asks Prometheus for, without titles and descriptions."""
    panels: list[dict[str, Any]] = json.loads((DEPLOY / "grafana-dashboard.json").read_text())["panels"]
    return "\n".join(target["expr"] for panel in panels for target in panel["targets"])


def test_the_dashboard_shows_every_metric_of_an_alert() -> None:
    alerts = (DEPLOY / "alerts.yml").read_text()
    rules = re.findall(r"^ +expr: (.+)$", alerts, re.MULTILINE)
    assert len(rules) == alerts.count("- alert: ")
    alarming = {metric for rule in rules for metric in METRIC.findall(rule)}
    assert alarming - set(METRIC.findall(expressions())) == set()
    assert "up{" in expressions()


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
        [
            "src",
            "docs",
            "pyproject.toml",
            "requirements.lock",
            "requirements-cluster.lock",
            "README.md",
            "LICENSE",
        ]
    )
    assert all((ROOT / path).exists() for path in kept)


def test_the_program_is_installed_apart_from_the_clone(tmp_path: Path) -> None:
    """The guide's own lines, in a clone in which somebody has run the server before."""
    clone, target = tmp_path / "clone", tmp_path / "opt" / "durable-sessions"
    target.parent.mkdir()
    for name in ("src", "docs", "deploy"):
        shutil.copytree(ROOT / name, clone / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "requirements.lock", "README.md", "LICENSE", "Makefile"):
        shutil.copy(ROOT / name, clone / name)
    (clone / ".venv" / "bin").mkdir(parents=True)
    (clone / ".venv" / ".runtime").touch()
    (clone / "data").mkdir()
    for secret in (clone / "admin.json", clone / "data" / "signing-keys.json"):
        secret.write_text("secret")
    (block,) = (block.text for block in blocks(GUIDE) if "useradd --system --home-dir" in block.text[:40])
    lines = [line for line in block.splitlines() if "/opt/durable-sessions" in line]
    for line in lines:
        done = subprocess.run(
            line.replace("/opt/durable-sessions", str(target)),
            shell=True,
            cwd=clone,
            check=False,
            capture_output=True,
            text=True,
        )
        if "pip" in line and re.search(
            "No matching distribution|Temporary failure|NewConnection", done.stderr
        ):
            pytest.skip(disabled("no package index: nothing was installed", "give pip an index"))
        assert done.returncode == 0, done.stderr
    code = "import durable_sessions; print(durable_sessions.__file__)"
    where = subprocess.run(
        [target / ".venv/bin/python", "-c", code], check=True, capture_output=True, text=True
    )
    assert Path(where.stdout.strip()).is_relative_to(target)
    assert (target / ".venv/bin/durable-sessions").read_text().startswith(f"#!{target}")
    assert (target / "deploy" / "backup.sh").stat().st_mode & 0o111
    assert {path.name for path in target.iterdir()} == {".venv", "deploy"}
    assert not [path for path in target.rglob("*.json") if path.name in ("admin.json", "signing-keys.json")]


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


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """The folder of an installed program, as the backup expects it."""
    made = tmp_path / "bin"
    made.mkdir()
    for name, command in (("ds", f"{sys.executable} -m durable_sessions"), ("python3", sys.executable)):
        (made / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        (made / name).chmod(0o755)
    return made


def back_up(server: ServerProcess, programs: Path, *directories: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [DEPLOY / "backup.sh", *directories],
        check=False,
        capture_output=True,
        text=True,
        env={
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": str(ROOT / "src"),
            "DS_BIN": str(programs),
            "DURABLE_SESSIONS_URL": server.url,
        },
    )


def test_a_backup_without_directories_says_how_to_use_it() -> None:
    done = subprocess.run([DEPLOY / "backup.sh"], check=False, capture_output=True, text=True)
    assert done.returncode == 2
    assert "usage:" in done.stderr
    assert "BUCKET_DIRECTORY TARGET_DIRECTORY" in done.stderr


@pytest.mark.parametrize("is_cut", [True, False], ids=["cut", "damaged"])
def test_a_backup_heals_objects_that_were_not_copied_whole(
    tmp_path: Path, programs: Path, is_cut: bool
) -> None:
    copy, bucket = tmp_path / "copy", tmp_path / "data" / "bucket"
    with ServerProcess(tmp_path / "data") as source:
        body = {"type": "note", "n": 1}
        assert httpx2.post(f"{source.url}/v1/sessions/s/events", json=body, timeout=60).status_code == 204
        done = back_up(source, programs, bucket, copy)
        assert done.returncode == 0, done.stderr
        broken = next((copy / "events").rglob("*.parquet"))
        whole = broken.read_bytes()
        broken.write_bytes(whole[: len(whole) // 2] if is_cut else bytes(len(whole)))
        (copy / ".partial").write_bytes(b"left by a copy that broke off")
        done = back_up(source, programs, bucket, copy)
        assert done.returncode == 0, done.stderr
        assert broken.read_bytes() == whole
        assert not (copy / ".partial").exists()


def test_backups_can_be_repeated_and_restored(tmp_path: Path, programs: Path) -> None:
    copy = tmp_path / "copy"
    with ServerProcess(tmp_path / "data") as source:
        for number in range(3):
            body = {"type": "note", "n": number}
            assert httpx2.post(f"{source.url}/v1/sessions/s/events", json=body, timeout=60).status_code == 204
            done = back_up(source, programs, tmp_path / "data" / "bucket", copy)
            assert done.returncode == 0, done.stderr
    with ServerProcess(tmp_path / "restored", "--bucket", str(copy)) as restored:
        events = httpx2.get(f"{restored.url}/v1/sessions/s/events", timeout=60).json()["data"]
    assert [event["n"] for event in events] == [0, 1, 2]

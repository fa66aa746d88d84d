"""The base package is the client: it needs no package of the server, and says what to install for more."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from durable_sessions.cli.main import SECTIONS
from durable_sessions.cli.server_extra import SERVER_MODULES
from tests.support.installed import EXTRAS, PROJECT, distributions_of, modules_of, run_with
from tests.support.skips import disabled

CLIENT = """
import importlib, pkgutil
import durable_sessions
from durable_sessions import AsyncClient, Client
for room in ("client", "exporters", "importers", "rendering", "sandbox"):
    found = importlib.import_module(f"durable_sessions.{room}")
    for one in pkgutil.walk_packages(found.__path__, found.__name__ + "."):
        importlib.import_module(one.name)
import durable_sessions.adapters.claude
print("imported")
"""
COMMAND = "from durable_sessions.cli.main import main; main()"


def test_the_client_importers_exporters_and_sandboxes_need_only_the_base() -> None:
    done = run_with([], CLIENT)
    assert done.stdout == "imported\n", done.stderr


def test_every_command_is_listed_and_those_of_the_server_say_what_to_install() -> None:
    listed = run_with([], COMMAND, "--help")
    assert listed.returncode == 0, listed.stderr
    commands = re.findall(r"^  ([a-z]+)  +(.*)", listed.stdout, re.MULTILINE)
    needing = {name for name, text in commands if text.startswith("Needs the server:")}
    assert needing == {"serve", "cluster", "flush", "reindex", *SECTIONS["Data"]}
    done = run_with([], COMMAND, "serve", "--data", "nowhere")
    assert done.returncode == 1
    assert "serve needs the server, and only the client is installed: " in done.stderr
    assert "python -m pip install 'durable-sessions[server]'" in done.stderr


def test_what_one_command_of_a_group_needs_of_the_server_is_said(tmp_path: Path) -> None:
    (tmp_path / "dossier.zip").touch()
    done = run_with([], COMMAND, "dossier", "verify", str(tmp_path / "dossier.zip"))
    assert done.returncode == 1
    assert "dossier needs the server, and only the client is installed: " in done.stderr


def test_the_server_runs_with_its_extra_alone() -> None:
    done = run_with(["server"], COMMAND, "serve", "--help")
    assert done.returncode == 0, done.stderr
    assert "Needs the server" not in done.stdout


def test_the_modules_that_tell_a_missing_server_are_those_of_its_extra_alone() -> None:
    base = modules_of(distributions_of(PROJECT["dependencies"]))
    server = modules_of(distributions_of(EXTRAS["server"])) - base
    assert server >= SERVER_MODULES
    assert base.isdisjoint(SERVER_MODULES)


@pytest.mark.parametrize(
    ("adapter", "extra", "framework"),
    [
        ("langgraph", "langgraph", "langgraph.checkpoint"),
        ("openai_agents", "openai", "agents"),
        ("pydantic_ai", "pydantic-ai", "pydantic_ai"),
        ("adk", "adk", "google.adk"),
        ("adk_memory", "adk", "google.adk"),
        ("agent_framework", "agent-framework", "agent_framework"),
    ],
)
def test_an_adapter_needs_its_extra_and_no_other(adapter: str, extra: str, framework: str) -> None:
    code = f"import durable_sessions.adapters.{adapter}; print('imported')"
    refused = run_with([], code)
    assert f"pip install 'durable-sessions[{extra}]'" in refused.stderr
    if not _is_there(framework):
        pytest.skip(disabled(f"{framework} is not installed", "make test-adapters"))
    done = run_with([extra], code)
    assert done.stdout == "imported\n", done.stderr


def test_mcp_needs_its_extra() -> None:
    refused = run_with([], COMMAND, "mcp")
    assert refused.returncode == 1
    assert "pip install 'durable-sessions[mcp]'" in refused.stderr
    done = run_with(
        ["mcp"], "import durable_sessions.mcp.serving, durable_sessions.mcp.web; print('imported')"
    )
    assert done.stdout == "imported\n", done.stderr


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False

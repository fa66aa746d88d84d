"""The TypeScript SDK runs the program too, and what it was given is checked against its declarations."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.anthropic.conftest import Account
from tests.anthropic.samples import EVENTS
from tests.support.npm import NpmError, installed
from tests.support.skips import disabled

pytestmark = pytest.mark.conformance

HERE = Path(__file__).parent / "node"
DECLARED_IN = {
    "BetaManagedAgentsSession": "sessions/sessions",
    "BetaManagedAgentsSessionEvent": "sessions/events",
    "BetaManagedAgentsSessionResource": "sessions/resources",
    "BetaManagedAgentsSessionThread": "sessions/threads/threads",
    "BetaManagedAgentsAgent": "agents/agents",
    "BetaEnvironment": "environments/environments",
}
STRICT = ("--strict", "--exactOptionalPropertyTypes", "--noEmit", "--skipLibCheck")
MODULES = ("--module", "nodenext", "--target", "es2022", "--types", "")


@pytest.fixture(scope="session")
def packages() -> Path:
    """Return a folder with the pinned packages and the program."""
    try:
        return installed(HERE, "anthropic-ts", "program.mjs", missing="the TypeScript SDK")
    except NpmError as error:
        why = f"@anthropic-ai/sdk is missing: it did not run. npm said: {error}"
        pytest.skip(disabled(why, "make test  # with access to an npm registry"))


@pytest.fixture(scope="module")
def wire(packages: Path, module_account: Account) -> dict[str, list[Any]]:
    """Run the program and return the objects that it was given, by type."""
    account = module_account
    done = subprocess.run(
        ["node", "program.mjs"],
        cwd=packages,
        env={
            **os.environ,
            "DS_URL": account.url,
            "DS_KEY": account.key,
            "DS_READER": account.new_key("reader"),
            "DS_SLOW": account.new_key("reader", requests_per_second=0.01),
            "DS_EVENTS": json.dumps(EVENTS),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
    found: dict[str, list[Any]] = json.loads(done.stdout)
    return found


def test_the_program_runs(wire: dict[str, list[Any]]) -> None:
    assert wire.keys() == DECLARED_IN.keys()
    kinds = {event["type"] for event in wire["BetaManagedAgentsSessionEvent"]}
    assert kinds >= {event["type"] for event in EVENTS} | {"session.deleted"}


def test_what_it_was_given_is_what_the_sdk_declares(
    wire: dict[str, list[Any]], packages: Path, tmp_path: Path
) -> None:
    """A key that may be null but not be absent is told apart here; in Python it cannot be."""
    lines = [
        "// What came over the wire, as constants of the types that the SDK declares for it.",
        "type Written<T> = { -readonly [K in keyof T]: Written<T[K]> }",
        "declare function wire<const T>(value: T): Written<T>",
    ]
    for kind, path in DECLARED_IN.items():
        lines.append(f'import type {{ {kind} }} from "@anthropic-ai/sdk/resources/beta/{path}"')
        lines += [
            f"export const {kind}_{number}: {kind} = wire({json.dumps(value)})"
            for number, value in enumerate(wire[kind])
        ]
    incomplete = {**wire["BetaManagedAgentsSession"][0]}
    del incomplete["archived_at"]
    lines.append("// @ts-expect-error: the check itself is checked, with a session that lacks a key")
    lines.append(f"export const incomplete: BetaManagedAgentsSession = wire({json.dumps(incomplete)})")
    program = tmp_path / "wire.mts"
    program.write_text("\n".join(lines) + "\n")
    (tmp_path / "node_modules").symlink_to(packages / "node_modules")
    tsc = packages / "node_modules" / ".bin" / "tsc"
    done = subprocess.run(
        [tsc, *STRICT, *MODULES, program], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stdout[:6000]

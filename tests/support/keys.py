"""Keys for tests: made over HTTP, as their users make them."""

import json
from pathlib import Path
from typing import Any

import httpx2

from durable_sessions.http.api.first_key_file import FILE, HEADER

BOOTSTRAP = "bootstrap-key-of-the-tests"


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


def code_of(answer: httpx2.Response) -> str:
    """Return the code of a refusal, in whichever shape and spelling."""
    error = answer.json()["error"]
    return str(error["details"]["error_code"] if "details" in error else error["code"]).lower()


def proof(data: Path) -> dict[str, str]:
    """Return the header that lets whoever can read a data directory make the first key."""
    return {HEADER: json.loads((data / FILE).read_bytes())["token"]}


async def make_key(
    url: str, role: str, workspace: str | None = None, *, by: str = BOOTSTRAP, **more: Any
) -> dict[str, Any]:
    """Create a key and return what the server says of it, the secret included."""
    body = {"principal": f"{role}-of-{workspace}", "role": role, **more}
    if workspace is not None:
        body["workspace"] = workspace
    async with httpx2.AsyncClient(base_url=url, headers=bearer(by)) as client:
        answer = await client.post("/v1/keys", json=body)
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def make_secret(url: str, role: str, workspace: str | None = None, **more: Any) -> str:
    """Create a key and return its secret."""
    return str((await make_key(url, role, workspace, **more))["secret"])

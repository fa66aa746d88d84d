"""Anthropic's SDKs, unmodified, against a real server: only the base URL and the key are ours."""

import os
import secrets
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any, cast

import anthropic
import httpx2
import pytest
from anthropic import Anthropic, AsyncAnthropic

from tests.anthropic.clients import Threaded
from tests.anthropic.harness import Harness
from tests.support.process import ServerProcess

ADMIN = "an-admin-key-of-the-tests"


@dataclass(frozen=True)
class Account:
    """A workspace of a test's own, on a server that all tests share."""

    url: str
    workspace: str
    key: str

    def new_key(self, role: str, **more: Any) -> str:
        """Return a further key of the workspace."""
        answer = httpx2.post(
            self.url + "/v1/keys",
            json={"workspace": self.workspace, "principal": f"a {role}", "role": role, **more},
            headers={"x-api-key": ADMIN},
            verify=False,
        )
        assert answer.status_code == 201, answer.text
        return str(answer.json()["secret"])


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    data = tmp_path_factory.mktemp("anthropic") / "data"
    with ServerProcess(data, environment={"DURABLE_SESSIONS_API_KEY": ADMIN}) as running:
        yield running


@pytest.fixture
def account(service: ServerProcess) -> Account:
    return _new_account(service.url)


@pytest.fixture(scope="module")
def module_account(service: ServerProcess) -> Account:
    return _new_account(service.url)


def _new_account(url: str) -> Account:
    empty = Account(url, f"w{secrets.token_hex(8)}", "")
    return Account(url, empty.workspace, empty.new_key("writer"))


@pytest.fixture(params=["async", "sync"])
async def sdk(request: pytest.FixtureRequest, account: Account) -> AsyncIterator[AsyncAnthropic]:
    """One of the SDK's clients; an answer that does not fit the SDK's own models is an error."""
    client: AsyncAnthropic
    options: dict[str, Any] = {"timeout": 12, "_strict_response_validation": True}
    if request.param == "async":
        client = AsyncAnthropic(base_url=account.url, api_key=account.key, **options)
    else:
        blocking = Anthropic(base_url=account.url, api_key=account.key, **options)
        client = cast(AsyncAnthropic, Threaded(blocking))
    yield client
    await client.close()


@pytest.fixture
async def harness(account: Account) -> AsyncIterator[Harness]:
    agent_side = Harness(account.url, account.key)
    yield agent_side
    await agent_side.http.aclose()


def pytest_report_header() -> str:
    return f"anthropic {anthropic.__version__} from {anthropic.__file__}"


@pytest.fixture(scope="session", autouse=True)
def _the_sdk_is_the_expected_one() -> None:
    assert anthropic.__version__.startswith(os.environ.get("ANTHROPIC_SDK_EXPECTED", "2."))

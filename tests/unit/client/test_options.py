"""Addresses, keys and patience: what cannot work is refused before anything is sent."""

from typing import Any

import pytest

from tests.unit.client.shells import Shell

ADDRESSES = [
    "localhost:4437",
    "ftp://localhost",
    "http://",
    "http://:4437",
    "http://localhost:port",
    "http://localhost:65536",
    "http://[::1",
    "http://local host",
    " http://localhost",
    "http://localhost/?key=1",
    "http://localhost/#top",
]


@pytest.mark.parametrize("url", ADDRESSES)
def test_what_is_no_address_is_refused(shell: Shell, url: str) -> None:
    with pytest.raises(
        ValueError, match="is not the address of a server; give one such as http://"
    ) as caught:
        shell.make(url)
    assert repr(url) in str(caught.value)


@pytest.mark.parametrize(
    "url", ["http://h", "https://h:65535", "http://[::1]:80/", "http://h/behind/a/proxy/"]
)
def test_addresses_are_taken_without_the_last_slash(shell: Shell, url: str) -> None:
    assert shell.make(url).url == url.rstrip("/")


@pytest.mark.parametrize("key", ["secret\n", " secret", "two words", "schlüssel", "sec\0ret"])
def test_a_key_that_no_server_has_given_is_refused_and_not_shown(shell: Shell, key: str) -> None:
    with pytest.raises(ValueError, match="The API key has a character that no key has") as caught:
        shell.make("http://h", key)
    assert key.strip() not in str(caught.value)


@pytest.mark.parametrize(
    "options",
    [{"timeout": 0}, {"timeout": -1}, {"timeout": float("nan")}, {"timeout": float("inf")}, {"retries": -1}],
)
def test_patience_has_bounds(shell: Shell, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="retries is at least 0, timeout is more than 0 seconds and finite"):
        shell.make("http://h", **options)


def test_the_environment_counts_where_nothing_is_given(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DURABLE_SESSIONS_URL", "http://from-the-environment:1/")
    assert shell.make().url == "http://from-the-environment:1"
    assert shell.make("http://given").url == "http://given"
    monkeypatch.setenv("DURABLE_SESSIONS_API_KEY", "not a key")
    with pytest.raises(ValueError, match="The API key"):
        shell.make()
    shell.make(api_key="given")
    monkeypatch.delenv("DURABLE_SESSIONS_API_KEY")
    monkeypatch.delenv("DURABLE_SESSIONS_URL")
    assert shell.make().url == "http://127.0.0.1:4437"

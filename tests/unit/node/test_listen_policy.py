import pytest

from durable_sessions.errors import SettingsError
from durable_sessions.node.listen_policy import is_loopback, require_guarded


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.0.1", "::1", "localhost"])
def test_loopback_needs_no_key(host: str) -> None:
    assert is_loopback(host)
    require_guarded(host, keys=False, bootstrap="")
    require_guarded(host, keys=True, bootstrap="short")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "192.0.2.1", "no.such.name.invalid"])
def test_any_other_address_needs_keys(host: str) -> None:
    assert not is_loopback(host)
    with pytest.raises(SettingsError, match="durable-sessions keys create"):
        require_guarded(host, keys=False, bootstrap="")
    require_guarded(host, keys=True, bootstrap="")
    require_guarded(host, keys=True, bootstrap="k" * 16)
    with pytest.raises(SettingsError, match="has 15 characters"):
        require_guarded(host, keys=True, bootstrap="k" * 15)

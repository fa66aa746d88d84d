import socket

import pytest

from durable_sessions.errors import SettingsError
from durable_sessions.node.listen_policy import is_loopback, require_guarded, require_usable, reserved_port


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


def test_a_port_in_use_is_refused_with_advice_and_a_free_one_is_not() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SettingsError, match=f"port {port}.*--port"):
            require_usable("127.0.0.1", port)
    require_usable("127.0.0.1", port)
    require_usable("127.0.0.1", 0)


def test_a_reserved_port_is_shared_by_workers_and_kept_when_one_of_them_ends() -> None:
    def take(port: int) -> None:
        with socket.socket() as other:
            other.bind(("127.0.0.1", port))

    with reserved_port("127.0.0.1", 0) as port:
        assert port > 0
        with socket.create_server(("127.0.0.1", port), reuse_port=True) as worker:
            assert worker.getsockname()[1] == port
            with pytest.raises(SettingsError, match="Another server"):
                require_usable("127.0.0.1", port)
        with pytest.raises(OSError, match="in use"):
            take(port)
    take(port)


def test_an_address_of_another_machine_cannot_be_reserved() -> None:
    with pytest.raises(SettingsError, match=r"Cannot listen on 192\.0\.2\.1"), reserved_port("192.0.2.1", 0):
        pass

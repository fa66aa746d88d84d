"""The backends by their names."""

from collections.abc import Callable
from typing import Any

from durable_sessions.sandbox.docker import DockerBackend
from durable_sessions.sandbox.e2b import E2bBackend
from durable_sessions.sandbox.local import LocalBackend
from durable_sessions.sandbox.opensandbox import OpenSandboxBackend
from durable_sessions.sandbox.sandbox import Backend


def _cube(*, url: str | None = None, **options: Any) -> Backend:
    if url is None:
        raise ValueError('Say where the service is: backend("cube", url="https://cube.example.com").')
    return E2bBackend(name="cube", url=url, **options)


BACKENDS: dict[str, Callable[..., Backend]] = {
    "local": LocalBackend,
    "docker": DockerBackend,
    "e2b": E2bBackend,
    "cube": _cube,
    "opensandbox": OpenSandboxBackend,
}


def backend(name: str, **options: Any) -> Backend:
    """Return a backend by its name; ``options`` are those of its class."""
    found = BACKENDS.get(name)
    if found is None:
        raise ValueError(
            f"There is no backend {name!r}; there are {', '.join(BACKENDS)}, and your own objects."
        )
    return found(**options)
